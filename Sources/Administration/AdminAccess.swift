// Whether a request may use the administrator's interface: on the Unix socket the file's mode has decided that; on TCP a bearer token
// decides, or, without one, the client's certificate, or that the address is a loopback one. No web page is behind the request then.

import HTTPCore

/// The way by which a request came.
public enum AdminDoor: Sendable {
    case unixSocket
    case loopback
    /// An address that other machines reach.
    case network
    /// A listener that lets nobody in without a certificate that was found good. Where there is a token, that is asked for too.
    case certified
}

public enum AdminAccess: Equatable {
    case allowed
    /// RFC 6750 §3: the token is missing or wrong.
    case unauthorized
    case forbidden(String)

    public init(_ head: RequestHead, through door: AdminDoor, token: [UInt8]?) {
        if case .unixSocket = door {
            self = .allowed
        } else if let token {
            self = Self.presents(token, head.fields) ? .allowed : .unauthorized
        } else if case .certified = door {
            // A browser shows its user's certificate to whichever page asks it to.
            self = head.fields.contains(.origin) ? .forbidden(Self.webPages) : .allowed
        } else if case .network = door {
            self = .forbidden(
                "On an address that other machines reach, this interface needs a token: set admin.token_file, or client_verify: required.")
        } else if head.fields.contains(.origin) || !Self.isLocal(Array(head.host)) {
            // A page in a browser on this machine reaches loopback too, under a name of its own choosing.
            self = .forbidden(Self.webPages)
        } else {
            self = .allowed
        }
    }

    private static let webPages = "Requests of web pages are not taken here."

    /// - Parameter takesBasic: whether the token may be the password of any user (RFC 7617). Browsers add such credentials to requests of
    ///   other origins too, so only pages that change nothing take them.
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

    /// In a time that does not tell how much of it was right.
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
