// A redirect to the upstream's own origin is made relative, so that the client stays on this proxy (RFC 9110 §10.2.2).

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

    /// Where a redirect within the upstream leads, made relative; nil where the field stays as it is.
    public func relative(in fields: Fields) -> [UInt8]? {
        guard isOn, let location = fields.first(.location) else { return nil }
        return (atAnyAddress(location) ?? within(location)).map { strippedPath + $0 }
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
