// What the operator says about TLS with clients.

/// Whether clients are asked for a certificate. One that is not good ends the handshake in any case.
public enum ClientVerification: String, Sendable, CaseIterable {
    case off, optional, required
}

/// Of a client's certificate, what tells one client from another.
public enum ClientIdentification: String, Sendable, CaseIterable {
    /// Issuer and subject: a renewed certificate is the same client.
    case subject
    /// The key: whoever has it, whatever the certificate says.
    case key
}

public struct ServerTLSSettings: Sendable, Equatable {
    /// One certificate for one or more names.
    public struct Certificate: Sendable, Equatable {
        /// PEM: the certificate, and those of its issuers behind it. The key may be in it.
        public var file: String
        /// PEM; nil where it is in `file`.
        public var keyFile: String?
        /// PEM: whose clients' certificates are good.
        public var clientAuthorities: String?
        public var verification = ClientVerification.off

        public init(file: String, keyFile: String? = nil) { (self.file, self.keyFile) = (file, keyFile) }
    }

    public var certificates: [Certificate] = []
    public var identification = ClientIdentification.subject
    /// Whether the upstream gets clients' certificates in Client-Cert (RFC 9440).
    public var sendsCertificate = false
    /// From a connection's beginning to the end of its handshake.
    public var handshakeTimeout = Duration.seconds(10)
    /// Handshakes of each shard at once: beyond it the one that has lasted longest is ended.
    public var handshakeLimit = 1_000

    public init() {}

    /// Whether clients of some names are asked for other certificates than those of others.
    /// - Parameter verification: the listener's own word, which goes before that of each certificate.
    public func hasClientRules(on verification: ClientVerification?) -> Bool {
        let rules = certificates.map { one in
            let asked = verification ?? one.verification
            return [asked.rawValue, asked == .off ? "" : one.clientAuthorities ?? ""]
        }
        return Set(rules).count > 1
    }
}
