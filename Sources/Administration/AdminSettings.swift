// Where the administrator's interface is, and who may use it.

package struct AdminSettings: Sendable {
    /// Path of the Unix socket (mode 0600); nil for none.
    package var socket: String?
    /// The operator named the path: then not being able to listen there ends the start. The default one is only missed.
    package var isSocketRequired = false
    /// What a client must show on TCP addresses (RFC 6750 §2.1); nil: only loopback addresses serve the interface, to every user there.
    package var token: [UInt8]?
    /// Whether faults may be injected.
    package var allowsFaults = false

    package init() {}
}
