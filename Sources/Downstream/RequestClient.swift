// The client of a request, as used for logs, limits, access rules and the upstream.

import Addresses

/// The connection's peer, or the client that a trusted proxy states. Created once per connection, because every forwarded request refers
/// to it.
public final class RequestClient: Sendable {
    public let clientAddress: ClientAddress
    /// The address as text; empty if there is none.
    public let text: [UInt8]
    /// Whether the client uses https.
    public let isSecure: Bool

    /// Subject of the valid client certificate of the connection; nil if there is none.
    public let subject: String?

    /// TLS version of the connection, such as TLSv1.3; nil for cleartext.
    public let tls: String?

    public init(_ clientAddress: ClientAddress, isSecure: Bool, subject: String?, tls: String? = nil) {
        self.tls = tls
        self.clientAddress = clientAddress
        self.isSecure = isSecure
        self.subject = subject
        text = clientAddress.address?.text ?? []
    }

    /// The client of the connection itself.
    convenience init(_ peer: PeerAddress, _ security: ConnectionSecurity?) {
        self.init(peer.clientAddress, isSecure: security != nil, subject: security?.certificate?.subject, tls: security?.version)
    }

    public var address: IPAddress? { clientAddress.address }
    public var isIPv6: Bool { address?.isIPv6 ?? false }
}
