// Decides what a request may see of the status page. All clients see numbers and states. Paths require a host name that is known to belong
// to this server, and the last exchanges require administrator access. Pure.

import Addresses
import HTTPCore

public enum StatusAccess: Int, Comparable, Sendable {
    /// Numbers and states only. The request may come from a script of another origin that reaches this server through a host name under its
    /// control (DNS rebinding).
    case numbers
    case paths
    /// The request has the administrator's token, or arrived through the Unix socket.
    case exchanges

    /// - Parameters:
    ///   - settings: contains the token, and names of this machine.
    ///   - isCertified: whether a server certificate contains the name.
    public init(_ head: RequestHead, through transport: AdminTransport, settings: AdminSettings, isCertified: (String) -> Bool) {
        if case .unixSocket = transport {
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

    /// Whether a foreign name server cannot have caused the request. For a name in a certificate, browsers have verified the server.
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
