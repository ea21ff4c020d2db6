// Where the administrator's interface is, and who may use it.

package struct AdminSettings: Sendable {
    /// Path of the Unix socket (mode 0600); nil for none.
    package var socket: String?
    /// The operator named the path: then not being able to listen there ends the start. The default one is only missed.
    package var isSocketRequired = false
    /// What a client must show on TCP addresses (RFC 6750 §2.1); nil: only loopback addresses serve the interface, to every user there.
    package var token: [UInt8]?

    /// Exchanges of each shard that are remembered, so that they can be explained.
    package var records = 1_000
    /// Whether a request with Cistern-Why gets that field back, and one with Cistern-Mode chooses its mode.
    package var allowsWhyField = false
    /// Whether a request with Cistern-Key gets its key in Cache-Status.
    package var allowsKeyField = false
    package var allowsModeField = false

    package init() {}
}
