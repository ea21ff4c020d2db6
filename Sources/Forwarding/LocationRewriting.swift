// Makes references to the upstream's origin relative, so that clients follow them through this proxy: redirects (RFC 9110 §10.2.2),
// Content-Location, and links (RFC 8288).

import HTTPCore

public struct LocationRewriting: Sendable {
    private let isOn: Bool
    /// Scheme and authority of the upstream in lower case, and the path prefix added to each target.
    private let origin: [UInt8]
    private let basePath: [UInt8]
    /// Path prefix removed from client paths before they are forwarded.
    private let strippedPath: [UInt8]
    private let others: [Base]

    /// Origin and base path of another address of the upstream.
    public typealias Base = (origin: [UInt8], basePath: [UInt8])

    public init(isOn: Bool, origin: [UInt8], basePath: [UInt8], strippedPath: [UInt8] = [], others: [Base] = []) {
        (self.isOn, self.origin, self.basePath, self.strippedPath, self.others) = (isOn, origin, basePath, strippedPath, others)
    }

    /// Makes references within the upstream relative, so that clients follow them through Cistern.
    public func keeping(_ response: ResponseHead) -> ResponseHead {
        guard let fields = kept(response.fields) else { return response }
        var response = response
        response.fields = fields
        return response
    }

    private static let references: KnownFieldSet = [.location, .contentLocation, .link]

    /// Returns the fields with relative references; nil if nothing changes.
    public func kept(_ fields: Fields) -> Fields? {
        guard isOn, fields.containsAny(of: Self.references) else { return nil }
        var kept: Fields?
        for field in [KnownField.location, .contentLocation] {
            guard let value = fields.first(field), let path = relative(value) else { continue }
            var changed = kept ?? fields
            changed.set(field, path)
            kept = changed
        }
        let links = fields.all(.link)
        let relative = links.map { relativeLinks($0) }
        guard relative.contains(where: { $0 != nil }) else { return kept }
        var changed = kept ?? fields
        changed.set(.link, Array(zip(links, relative).map { $1 ?? Array($0) }.joined(separator: Array(", ".utf8))))
        return changed
    }

    private func relative(_ reference: ArraySlice<UInt8>) -> [UInt8]? {
        (atAnyAddress(reference) ?? within(reference)).map { strippedPath + $0 }
    }

    /// Makes the targets of links (RFC 8288 §3) relative; nil if none belongs to the upstream.
    private func relativeLinks(_ line: ArraySlice<UInt8>) -> [UInt8]? {
        var out: [UInt8] = []
        var (isChanged, isQuoted) = (false, false)
        var position = line.startIndex
        while position < line.endIndex {
            let byte = line[position]
            if byte == UInt8(ascii: "<"), !isQuoted, let end = line[position...].firstIndex(of: UInt8(ascii: ">")) {
                let target = line[(position + 1)..<end]
                let path = relative(target)
                if path != nil { isChanged = true }
                out += [byte] + (path ?? Array(target)) + [UInt8(ascii: ">")]
                position = end + 1
                continue
            }
            if byte == UInt8(ascii: "\\"), isQuoted, position + 1 < line.endIndex {
                out.append(byte)
                position += 1
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
            out.append(line[position])
            position += 1
        }
        return isChanged ? out : nil
    }

    private func atAnyAddress(_ location: ArraySlice<UInt8>) -> [UInt8]? {
        if let path = Self.relative(location, to: origin, basePath: basePath) { return path }
        for other in others {
            if let path = Self.relative(location, to: other.origin, basePath: other.basePath) { return path }
        }
        return nil
    }

    /// Converts an absolute path on the upstream, if client paths differ from upstream paths; nil otherwise.
    private func within(_ location: ArraySlice<UInt8>) -> [UInt8]? {
        guard !basePath.isEmpty || !strippedPath.isEmpty, location.first == UInt8(ascii: "/"), !Self.namesAuthority(Array(location)) else {
            return nil
        }
        return Self.path(location, below: basePath).flatMap { Self.namesAuthority($0) ? nil : $0 }
    }

    /// Returns path and query of `location` if it belongs to `origin`; nil otherwise, and the reference is not changed.
    /// - Parameters:
    ///   - origin: scheme and authority in lower case, for example `http://api.example.com:8000`.
    ///   - basePath: path prefix added to each target, which is removed again.
    public static func relative(_ location: ArraySlice<UInt8>, to origin: [UInt8], basePath: [UInt8] = []) -> [UInt8]? {
        guard location.count >= origin.count else { return nil }
        let end = location.startIndex + origin.count
        let matches = zip(location[..<end], origin).allSatisfy { $0.asciiLowercased == $1 }
        guard matches else { return nil }
        return path(location[end...], below: basePath).flatMap { namesAuthority($0) ? nil : $0 }
    }

    /// Converts a reference from one address of an upstream to another address; nil if it does not change. A path outside the base path
    /// becomes an absolute URI, because the other address has no equivalent.
    public static func translated(_ location: ArraySlice<UInt8>, from: Base, to: Base) -> [UInt8]? {
        if let path = relative(location, to: from.origin, basePath: from.basePath) { return to.origin + to.basePath + path }
        guard location.first == UInt8(ascii: "/"), !namesAuthority(Array(location)) else { return nil }
        guard let path = path(location, below: from.basePath) else { return from.origin + location }
        return to.basePath.isEmpty && namesAuthority(path) ? nil : to.basePath + path
    }

    /// "//x" would be read as another authority. Browsers treat a backslash as a slash, and remove tabs.
    private static func namesAuthority(_ path: [UInt8]) -> Bool {
        let path = path.filter { $0 != UInt8(ascii: "\t") }
        return path.count > 1 && (path[1] == UInt8(ascii: "/") || path[1] == UInt8(ascii: "\\"))
    }

    /// Returns the rest of an upstream path behind the base path, beginning with a slash and without dot segments: clients would resolve
    /// them against another path. nil if the path is outside the base path, and so not reachable through this proxy.
    public static func path(_ path: ArraySlice<UInt8>, below basePath: [UInt8]) -> [UInt8]? {
        let path = PathReadings.isPlain(path) ? path : path.resolvingDotSegments[...]
        guard path.starts(with: basePath) else { return nil }
        let rest = path.dropFirst(basePath.count)
        switch rest.first {
        case UInt8(ascii: "/"): return Array(rest)
        // The base path itself, perhaps with a query or a fragment.
        case nil, UInt8(ascii: "?"), UInt8(ascii: "#"): return [UInt8(ascii: "/")] + rest
        default: return nil
        }
    }
}
