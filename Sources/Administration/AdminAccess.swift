// Decides whether a request may use the admin interface. On the Unix socket, file permissions apply. On TCP, a bearer token decides;
// without one, a client certificate or a loopback address is sufficient, but requests of web pages are rejected.

import HTTPCore

/// How a request reached the admin interface.
public enum AdminTransport: Sendable {
    case unixSocket
    case loopback
    /// A TCP address that other machines can reach.
    case network
    /// A listener that requires a valid client certificate. A configured token is required too.
    case certified
}

public enum AdminAccess: Equatable {
    case allowed
    /// The token is missing or wrong (RFC 6750 §3).
    case unauthorized
    case forbidden(String)

    public init(_ head: RequestHead, through transport: AdminTransport, token: [UInt8]?) {
        if case .unixSocket = transport {
            self = .allowed
        } else if let token {
            self = Self.presents(token, head.fields) ? .allowed : .unauthorized
        } else if case .certified = transport {
            // Browsers present the user's certificate to requests of any web page.
            self = head.fields.contains(.origin) ? .forbidden(Self.webPages) : .allowed
        } else if case .network = transport {
            self = .forbidden(
                "On an address that other machines can reach, the admin interface needs a token: set admin.token_file, or client_verify: required."
            )
        } else if head.fields.contains(.origin) || !Self.isLocal(Array(head.host)) {
            // A web page in a local browser can reach loopback addresses, through a host name that it controls (DNS rebinding).
            self = .forbidden(Self.webPages)
        } else {
            self = .allowed
        }
    }

    /// Challenge that causes no password prompt (RFC 6750 §3).
    public static let challenge = "WWW-Authenticate: Bearer realm=\"cistern\"\r\n"

    private static let webPages = "The admin interface rejects requests from web pages."

    /// - Parameter takesBasic: whether the token may be the password of any user (RFC 7617). Browsers add such credentials to requests of
    ///   other origins too, so only pages without side effects accept them.
    static func presents(_ token: [UInt8], _ fields: Fields, takesBasic: Bool = false) -> Bool {
        let values = fields.all(.authorization)
        guard values.count == 1, let value = values.first else { return false }
        if value.prefix(7).equalsIgnoringCase("bearer ") { return isEqual(Array(value.dropFirst(7).trimmed), token) }
        guard takesBasic, value.prefix(6).equalsIgnoringCase("basic "),
            let pair = Base64.decode(String(decoding: value.dropFirst(6).trimmed, as: UTF8.self)),
            let colon = pair.firstIndex(of: UInt8(ascii: ":"))
        else { return false }
        return isEqual(Array(pair[(colon + 1)...]), token)
    }

    /// Compares in constant time, so that the duration does not reveal a correct prefix.
    static func isEqual(_ presented: [UInt8], _ token: [UInt8]) -> Bool {
        var difference = UInt8(presented.count == token.count ? 0 : 1)
        for index in token.indices { difference |= token[index] ^ (index < presented.count ? presented[index] : 0) }
        return difference == 0
    }

    private static func isLocal(_ host: [UInt8]) -> Bool {
        let host = host.map(\.asciiLowercased)
        for name: StaticString in ["localhost", "127.0.0.1", "[::1]"] {
            let name = [UInt8](name)
            if host.starts(with: name), host.count == name.count || host[name.count] == UInt8(ascii: ":") { return true }
        }
        return false
    }
}
