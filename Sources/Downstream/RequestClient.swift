// Whose a request is: the client that logs, limits, rules and the upstream are told of.

import Addresses

/// The connection's peer, or who a trusted proxy says that it speaks for. Made once for a connection: every request that is passed on names it.
package final class RequestClient: Sendable {
    /// nil for a Unix socket.
    package let address: IPAddress?
    /// The same as text; empty where there is none.
    package let text: [UInt8]
    /// Whether the client asked by https.
    package let isSecure: Bool

    package init(_ address: IPAddress?, isSecure: Bool = false) {
        self.address = address
        self.isSecure = isSecure
        text = address?.text ?? []
    }

    package var isIPv6: Bool { address?.isIPv6 ?? false }
}
