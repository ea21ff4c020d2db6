// What the operator says about TLS with clients.

/// Whether clients are asked for a certificate. One that is not good ends the handshake in any case.
package enum ClientVerification: String, Sendable, CaseIterable {
    case off, optional, required
}

/// Of a client's certificate, what tells one client from another.
package enum ClientIdentification: String, Sendable, CaseIterable {
    /// Issuer and subject: a renewed certificate is the same client.
    case subject
    /// The key: whoever has it, whatever the certificate says.
    case key
}

package struct ServerTLSSettings: Sendable, Equatable {
    /// One certificate for one or more names.
    package struct Certificate: Sendable, Equatable {
        /// PEM: the certificate, and those of its issuers behind it. The key may be in it.
        package var file: String
        /// PEM; nil where it is in `file`.
        package var keyFile: String?
        /// PEM: whose clients' certificates are good.
        package var clientAuthorities: String?
        package var verification = ClientVerification.off

        package init(file: String, keyFile: String? = nil) { (self.file, self.keyFile) = (file, keyFile) }
    }

    package var certificates: [Certificate] = []
    package var identification = ClientIdentification.subject
    /// Whether the upstream gets clients' certificates in Client-Cert (RFC 9440).
    package var sendsCertificate = false
    /// From a connection's beginning to the end of its handshake.
    package var handshakeTimeout = Duration.seconds(10)
    /// Handshakes of each shard at once: beyond it the one that has lasted longest is ended.
    package var handshakeLimit = 1_000

    package init() {}

    /// Whether clients of some names are asked for other certificates than those of others.
    /// - Parameter verification: the listener's own word, which goes before that of each certificate.
    package func hasClientRules(on verification: ClientVerification?) -> Bool {
        let rules = certificates.map { one in
            let asked = verification ?? one.verification
            return [asked.rawValue, asked == .off ? "" : one.clientAuthorities ?? ""]
        }
        return Set(rules).count > 1
    }
}
