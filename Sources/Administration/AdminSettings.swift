// Settings of the admin interface: its socket, and the access to it.

import Addresses

public struct AdminSettings: Sendable {
    /// Path of the Unix socket (mode 0600); nil for none.
    public var socket: String?
    /// Whether the start fails if the socket cannot be opened: true for a configured path, false for the default path.
    public var isSocketRequired = false
    /// Bearer token for TCP addresses (RFC 6750 §2.1). nil: only loopback addresses and listeners that require certificates serve the
    /// interface.
    public var token: [UInt8]?
    /// Host names under which the status page shows paths without the token, in addition to addresses, `localhost` and names of
    /// certificates.
    public var names = ServedNames()
    public var allowsFaults = false

    public init() {}
}
