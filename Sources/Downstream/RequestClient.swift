// Whose a request is: the client that logs, limits, rules and the upstream are told of.

import Addresses

/// The connection's peer, or who a trusted proxy says that it speaks for. Made once for a connection: every request that is passed on names it.
public final class RequestClient: Sendable {
    public let place: ClientAddress
    /// The address as text; empty where there is none.
    public let text: [UInt8]
    /// Whether the client asked by https.
    public let isSecure: Bool

    /// Of the certificate that the connection has presented, where that was found good.
    public let subject: String?

    /// What is spoken on the connection, such as TLSv1.3; nil in clear.
    public let tls: String?

    public init(_ place: ClientAddress, isSecure: Bool, subject: String?, tls: String? = nil) {
        self.tls = tls
        self.place = place
        self.isSecure = isSecure
        self.subject = subject
        text = place.address?.text ?? []
    }

    /// The connection's own.
    convenience init(_ peer: PeerAddress, _ security: ConnectionSecurity?) {
        self.init(peer.place, isSecure: security != nil, subject: security?.certificate?.subject, tls: security?.version)
    }

    public var address: IPAddress? { place.address }
    public var isIPv6: Bool { address?.isIPv6 ?? false }
}
