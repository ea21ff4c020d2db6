// A redirect to the upstream's own origin is made relative, so that the client stays on this proxy (RFC 9110 §10.2.2).

import HTTPCore

enum LocationRewriting {
    /// The path and query of `location` where it names `origin`, else nil: then it stays as it is.
    /// - Parameter origin: scheme and authority in lower case, as in `http://api.example.com:8000`.
    static func relative(_ location: ArraySlice<UInt8>, to origin: [UInt8]) -> [UInt8]? {
        guard location.count >= origin.count else { return nil }
        let end = location.startIndex + origin.count
        let matches = zip(location[..<end], origin).allSatisfy { $0.asciiLowercased == $1 }
        guard matches else { return nil }
        guard end < location.endIndex else { return [UInt8(ascii: "/")] }
        let rest = location[end...]
        switch rest.first {
        // "//x" would be read as another authority.
        case UInt8(ascii: "/"): return rest.dropFirst().first == UInt8(ascii: "/") ? nil : Array(rest)
        case UInt8(ascii: "?"), UInt8(ascii: "#"): return [UInt8(ascii: "/")] + rest
        default: return nil
        }
    }
}
