// Settings of TLS with clients.

/// Whether clients are asked for a certificate. An invalid certificate ends the handshake in any case.
public enum ClientVerification: String, Sendable, CaseIterable {
    case off, optional, required
}

/// The part of a client's certificate that identifies the client.
public enum ClientIdentification: String, Sendable, CaseIterable {
    /// Issuer and subject: a renewed certificate identifies the client again.
    case subject
    /// The public key, regardless of the rest of the certificate.
    case key
}

public struct ServerTLSSettings: Sendable, Equatable {
    /// One certificate for one or more names.
    public struct Certificate: Sendable, Equatable {
        /// Path of a PEM file with the certificate, followed by those of its issuers. It may contain the key.
        public var file: String
        /// Path of a PEM file with the key; nil if `file` contains it.
        public var keyFile: String?
        /// Path of a PEM file with the authorities for client certificates; nil if there are none.
        public var clientAuthorities: String?
        public var verification = ClientVerification.off

        public init(file: String, keyFile: String? = nil) { (self.file, self.keyFile) = (file, keyFile) }
    }

    public var certificates: [Certificate] = []
    public var identification = ClientIdentification.subject
    /// Whether client certificates are sent to the upstream in Client-Cert (RFC 9440).
    public var sendsCertificate = false
    /// Maximum time from the beginning of a connection to the end of its handshake.
    public var handshakeTimeout = Duration.seconds(10)
    /// Maximum number of concurrent handshakes per shard. Beyond it, the oldest one is ended.
    public var handshakeLimit = 1_000

    public init() {}

    /// Whether different server names require different client certificates.
    /// - Parameter verification: the listener's rule, which has precedence over that of each certificate; nil if it has none.
    public func hasClientRules(on verification: ClientVerification?) -> Bool {
        let rules = certificates.map { one in
            let asked = verification ?? one.verification
            return [asked.rawValue, asked == .off ? "" : one.clientAuthorities ?? ""]
        }
        return Set(rules).count > 1
    }
}
