// References to the upstream's own origin are made relative, so that the client stays on this proxy: redirects (RFC 9110 §10.2.2), Content-Location and
// links (RFC 8288).

import HTTPCore

public struct LocationRewriting: Sendable {
    private let isOn: Bool
    /// Scheme and authority of the upstream in lower case, and what is put before each target.
    private let origin: [UInt8]
    private let basePath: [UInt8]
    /// What is taken off clients' paths before the upstream is asked.
    private let strippedPath: [UInt8]
    private let others: [Base]

    /// One of the upstream's other addresses, as above.
    public typealias Base = (origin: [UInt8], basePath: [UInt8])

    public init(isOn: Bool, origin: [UInt8], basePath: [UInt8], strippedPath: [UInt8] = [], others: [Base] = []) {
        (self.isOn, self.origin, self.basePath, self.strippedPath, self.others) = (isOn, origin, basePath, strippedPath, others)
    }

    private static let references: KnownFieldSet = [.location, .contentLocation, .link]

    /// The fields with references within the upstream made relative; nil where they stay as they are.
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

    /// The targets of links (RFC 8288 §3) made relative; nil where none is within the upstream.
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

    /// A path on the upstream, where clients' paths are others.
    private func within(_ location: ArraySlice<UInt8>) -> [UInt8]? {
        guard !basePath.isEmpty || !strippedPath.isEmpty, location.first == UInt8(ascii: "/"), !Self.namesAuthority(Array(location)) else {
            return nil
        }
        return Self.without(basePath, location).flatMap { Self.namesAuthority($0) ? nil : $0 }
    }

    /// The path and query of `location` where it names `origin`, else nil: then it stays as it is.
    /// - Parameters:
    ///   - origin: scheme and authority in lower case, as in `http://api.example.com:8000`.
    ///   - basePath: what is put before each target; taken off again.
    public static func relative(_ location: ArraySlice<UInt8>, to origin: [UInt8], basePath: [UInt8] = []) -> [UInt8]? {
        guard location.count >= origin.count else { return nil }
        let end = location.startIndex + origin.count
        let matches = zip(location[..<end], origin).allSatisfy { $0.asciiLowercased == $1 }
        guard matches else { return nil }
        guard end < location.endIndex else { return [UInt8(ascii: "/")] }
        let rest = location[end...]
        switch rest.first {
        case UInt8(ascii: "/"): return without(basePath, rest).flatMap { namesAuthority($0) ? nil : $0 }
        case UInt8(ascii: "?"), UInt8(ascii: "#"): return [UInt8(ascii: "/")] + rest
        default: return nil
        }
    }

    /// A reference to one address of an upstream, as another of them would have made it; nil where it stays as it is. What lies outside the base
    /// path is named whole, since nothing of the other is meant.
    public static func translated(_ location: ArraySlice<UInt8>, from: Base, to: Base) -> [UInt8]? {
        if let path = relative(location, to: from.origin, basePath: from.basePath) { return to.origin + to.basePath + path }
        guard location.first == UInt8(ascii: "/"), !namesAuthority(Array(location)) else { return nil }
        guard let path = without(from.basePath, location) else { return from.origin + location }
        return to.basePath.isEmpty && namesAuthority(path) ? nil : to.basePath + path
    }

    /// "//x" would be read as another authority, and browsers take a backslash for a slash.
    private static func namesAuthority(_ path: [UInt8]) -> Bool {
        path.count > 1 && (path[1] == UInt8(ascii: "/") || path[1] == UInt8(ascii: "\\"))
    }

    private static func without(_ basePath: [UInt8], _ path: ArraySlice<UInt8>) -> [UInt8]? {
        guard !basePath.isEmpty else { return Array(path) }
        // Outside the base path there is nothing that this proxy could serve.
        guard path.starts(with: basePath), path.dropFirst(basePath.count).first == UInt8(ascii: "/") else { return nil }
        return Array(path.dropFirst(basePath.count))
    }
}
