// Whose a request is: the client that logs, limits, rules and the upstream are told of.

import Addresses

/// The connection's peer, or who a trusted proxy says that it speaks for. Made once for a connection: every request that is passed on names it.
package final class RequestClient: Sendable {
    package let place: ClientAddress
    /// The address as text; empty where there is none.
    package let text: [UInt8]
    /// Whether the client asked by https.
    package let isSecure: Bool

    /// Of the certificate that the connection has presented, where that was found good.
    package let subject: String?

    package init(_ place: ClientAddress, isSecure: Bool, subject: String?) {
        self.place = place
        self.isSecure = isSecure
        self.subject = subject
        text = place.address?.text ?? []
    }

    /// The connection's own.
    convenience init(_ peer: PeerAddress, _ security: ConnectionSecurity?) {
        self.init(peer.place, isSecure: security != nil, subject: security?.certificate?.subject)
    }

    package var address: IPAddress? { place.address }
    package var isIPv6: Bool { address?.isIPv6 ?? false }
}
