// What a request may see of the status page. Every client that reaches the page sees numbers, states and paths without arguments; only the
// administrator sees the last exchanges. Pure.

import Addresses
import HTTPCore

public enum StatusAccess: Int, Comparable, Sendable {
    /// Numbers and states only: the request may come from a script of another origin, which reads the page through a name that it controls (DNS
    /// rebinding).
    case numbers
    case paths
    /// The request has the administrator's token, or it came through the Unix socket.
    case exchanges

    /// - Parameters:
    ///   - settings: the token, and the names of this machine.
    ///   - isCertified: whether a name is in one of the server's certificates.
    public init(_ head: RequestHead, through door: AdminDoor, settings: AdminSettings, isCertified: (String) -> Bool) {
        if case .unixSocket = door {
            self = .exchanges
        } else if head.fields.contains(.origin) {
            // The page itself sends no Origin.
            self = .numbers
        } else if let token = settings.token, AdminAccess.presents(token, head.fields, takesBasic: true) {
            self = .exchanges
        } else {
            self = settings.names.contains(head.host) || Self.isOwn(head.host, isCertified) ? .paths : .numbers
        }
    }

    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    /// Whether no name server of others can have led the browser here. A browser has checked the name of a certificate.
    private static func isOwn(_ host: ArraySlice<UInt8>, _ isCertified: (String) -> Bool) -> Bool {
        let host = String(decoding: host, as: UTF8.self).lowercased()
        var name = host[...]
        if let bracket = name.firstIndex(of: "]") {
            guard name.first == "[" else { return false }
            let port = name[name.index(after: bracket)...]
            return (port.isEmpty || isPort(port)) && IPAddress(String(name[..<bracket].dropFirst())) != nil
        }
        if let colon = name.firstIndex(of: ":") {
            guard isPort(name[colon...]) else { return false }
            name = name[..<colon]
        }
        return name == "localhost" || IPAddress(String(name)) != nil || isCertified(String(name))
    }

    private static func isPort(_ text: Substring) -> Bool {
        text.first == ":" && text.count <= 6 && text.dropFirst().allSatisfy { $0.isASCII && $0.isNumber }
    }
}
