// A redirect to the upstream's own origin is made relative, so that the client stays on this proxy (RFC 9110 §10.2.2).

import HTTPCore

package enum LocationRewriting {
    /// The path and query of `location` where it names `origin`, else nil: then it stays as it is.
    /// - Parameters:
    ///   - origin: scheme and authority in lower case, as in `http://api.example.com:8000`.
    ///   - basePath: what is put before each target; taken off again.
    package static func relative(_ location: ArraySlice<UInt8>, to origin: [UInt8], basePath: [UInt8] = []) -> [UInt8]? {
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
