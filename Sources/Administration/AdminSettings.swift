// Where the administrator's interface is, and who may use it.

import Addresses

public struct AdminSettings: Sendable {
    /// Path of the Unix socket (mode 0600); nil for none.
    public var socket: String?
    /// The operator named the path: then not being able to listen there ends the start. The default one is only missed.
    public var isSocketRequired = false
    /// What a client must show on TCP addresses (RFC 6750 §2.1); nil: only loopback addresses serve the interface, to every user there.
    public var token: [UInt8]?
    /// Names under which the status page shows paths without the token, beside addresses, `localhost` and names of certificates.
    public var names = ServedNames()
    /// Whether faults may be injected.
    public var allowsFaults = false

    public init() {}
}
