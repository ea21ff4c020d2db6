// Reads and validates the configured certificates and keys. They are used only if all of them are valid.

import CTLS
import Glibc
import Reactor

/// Validated certificates and keys. Each shard creates its TLS contexts from them.
public struct ServerCertificates: Sendable {
    public struct Entry: Sendable {
        public let settings: ServerTLSSettings.Certificate
        public let facts: CertificateFacts
        fileprivate let certificates: [UInt8]
        fileprivate let key: [UInt8]
        fileprivate let authorities: [UInt8]
        /// Identifies the client authorities. Certificates with equal authorities have equal numbers.
        fileprivate let authoritiesNumber: Int
    }

    public let entries: [Entry]
    public let names: ServerNames
    public let settings: ServerTLSSettings

    /// Selects the certificate for a server name. Among several for one name, the first with an elliptic curve key that the client supports
    /// is preferred. Its handshake costs a third of one with an RSA key. Otherwise the first with an RSA key is used, which all clients
    /// support.
    /// - Parameters:
    ///   - verification: the listener's rule for client certificates; nil to use each certificate's setting. Certificates with other rules
    ///     are excluded.
    ///   - takes: whether the client supports keys that sign with a scheme.
    /// - Returns: an index in `entries`.
    func index(for name: String, on verification: ClientVerification?, takes: (Int32) -> Bool) -> Int {
        let all = names.indices(of: name) ?? names.twins(of: 0)
        let indices = all.filter { requestSameCertificates(all[0], $0, on: verification) }
        guard indices.count > 1 else { return indices.first ?? 0 }
        return indices.first { entries[$0].facts.scheme.map(takes) ?? false } ?? indices.first { entries[$0].facts.isRSA } ?? indices[0]
    }

    /// Whether clients of both certificates are asked for equal client certificates.
    /// - Parameter verification: the listener's rule, which has precedence over that of each certificate; nil if it has none.
    func requestSameCertificates(_ one: Int, _ other: Int, on verification: ClientVerification?) -> Bool {
        let verifications = [one, other].map { verification ?? entries[$0].settings.verification }
        return verifications[0] == verifications[1]
            && (verifications[0] == .off || entries[one].authoritiesNumber == entries[other].authoritiesNumber)
    }

    /// The rules for client certificates of each certificate. Connections that were accepted under other rules must be established anew.
    public var clientRules: [ClientRules] {
        entries.map { entry in
            ClientRules(
                names: entry.facts.names, verification: entry.settings.verification, authorities: entry.authorities,
                identification: settings.identification)
        }
    }

    /// The rules for clients that receive this certificate, without its server names.
    func rule(_ index: Int, on verification: ClientVerification?) -> ClientRules {
        let required = verification ?? entries[index].settings.verification
        guard required != .off else { return ClientRules(names: [], verification: .off, authorities: [], identification: .subject) }
        return ClientRules(
            names: [], verification: required, authorities: entries[index].authorities, identification: settings.identification)
    }

    public struct ClientRules: Equatable, Sendable {
        let names: [String]
        let verification: ClientVerification
        let authorities: [UInt8]
        let identification: ClientIdentification
    }

    /// An error or a warning about a certificate, in words for the operator.
    public struct Remark: Sendable, Equatable, CustomStringConvertible {
        public let index: Int
        public let sentence: String
        public var description: String { "tls.certificates: \(sentence)" }
    }

    public struct Reading: Sendable {
        /// nil if a certificate has an error.
        public var certificates: ServerCertificates?
        public var mistakes: [Remark] = []
        public var warnings: [Remark] = []
    }

    /// Reads and validates all files.
    /// - Parameter now: seconds since 1970.
    public static func read(_ settings: ServerTLSSettings, now: Int64) -> Reading {
        var reading = Reading()
        var entries: [Entry] = []
        var authorities: [[UInt8]] = []
        for (index, one) in settings.certificates.enumerated() {
            var remarks = Remarks(index: index)
            if let entry = entry(one, now: now, &authorities, &remarks) { entries.append(entry) }
            reading.mistakes += remarks.mistakes
            reading.warnings += remarks.warnings
        }
        if reading.mistakes.isEmpty, !entries.isEmpty {
            reading.certificates = ServerCertificates(
                entries: entries, names: ServerNames(entries.map(\.facts.names)), settings: settings)
        }
        return reading
    }

    private struct Remarks {
        let index: Int
        var mistakes: [Remark] = []
        var warnings: [Remark] = []

        mutating func mistake(_ sentence: String) { mistakes.append(Remark(index: index, sentence: sentence)) }
        mutating func warning(_ sentence: String) { warnings.append(Remark(index: index, sentence: sentence)) }
    }

    private static func entry(
        _ settings: ServerTLSSettings.Certificate, now: Int64, _ known: inout [[UInt8]], _ remarks: inout Remarks
    ) -> Entry? {
        guard let certificates = content(settings.file, &remarks) else { return nil }
        guard let key = settings.keyFile.map({ content($0, &remarks) }) ?? certificates else { return nil }
        var authorities: [UInt8] = []
        if settings.verification != .off, settings.clientAuthorities == nil {
            remarks.mistake("client_verify: \(settings.verification.rawValue) requires client_ca for \(settings.file)")
        }
        if let file = settings.clientAuthorities {
            guard let content = content(file, &remarks) else { return nil }
            authorities = content
            if CertificateFacts.count(authorities) == 0 { remarks.mistake("\(file) contains no certificate in PEM format") }
        }
        let facts = CertificateFacts(certificates, key)
        judge(facts, settings, now: now, &remarks)
        guard remarks.mistakes.isEmpty else { return nil }
        if !known.contains(authorities) { known.append(authorities) }
        let entry = Entry(
            settings: settings, facts: facts, certificates: certificates, key: key, authorities: authorities,
            authoritiesNumber: known.firstIndex(of: authorities) ?? 0)
        // Creates a context now, so that an error of OpenSSL is reported here and not at the first connection.
        guard TLSContext(entry) != nil else {
            remarks.mistake("\(settings.file) cannot be used: OpenSSL rejects weak keys and SHA-1 signatures")
            return nil
        }
        return entry
    }

    private static func content(_ file: String, _ remarks: inout Remarks) -> [UInt8]? {
        if let content = FileContent.read(file, .regular) { return content }
        remarks.mistake(errno == ENODEV ? "\(file) is not a regular file" : SystemError.words(file))
        return nil
    }

    /// Number of remaining days of validity below which a warning is given.
    private static let warningDays: Int64 = 14

    private static func judge(
        _ facts: CertificateFacts, _ settings: ServerTLSSettings.Certificate, now: Int64, _ remarks: inout Remarks
    ) {
        let file = settings.file
        guard facts.hasCertificate else { return remarks.mistake("\(file) contains no certificate in PEM format") }
        guard facts.hasKey else {
            return remarks.mistake("\(settings.keyFile ?? file) contains no key in PEM format, or only one with a passphrase")
        }
        guard facts.keyFits else {
            return remarks.mistake(
                "the key in \(settings.keyFile ?? file) does not belong to the certificate in "
                    + "\(file)")
        }
        if facts.names.isEmpty { remarks.warning("\(file) contains no DNS name, so clients accept it for no host") }
        let days = facts.daysLeft(now: now)
        if facts.notBefore > now {
            remarks.warning("\(file) is not valid yet")
        } else if facts.notAfter <= now {
            remarks.warning("\(file) has expired")
        } else if days < warningDays {
            remarks.warning("\(file) expires in \(days) days")
        }
        if !facts.isChainInOrder {
            remarks.warning("\(file): each certificate must be followed by that of its issuer; otherwise clients cannot verify it")
        } else if !facts.isChainWhole {
            remarks.warning(
                "\(file): the issuer of its last certificate is not trusted on this machine; use a file with the whole chain "
                    + "(fullchain.pem)")
        }
        if facts.isRSA {
            remarks.warning("\(file) has an RSA key: each handshake takes more than twice as long as with a P-256 key")
        }
    }
}

/// Relevant properties of a certificate and its key.
public struct CertificateFacts: Sendable, Equatable {
    public let hasCertificate: Bool
    public let hasKey: Bool
    public let keyFits: Bool
    public let isChainInOrder: Bool
    public let isChainWhole: Bool
    public let isRSA: Bool
    /// Scheme with which an elliptic curve key signs; nil for other keys.
    let scheme: Int32?
    /// Seconds since 1970.
    public let notBefore: Int64
    public let notAfter: Int64
    public let names: [String]
    /// SHA-256 hash of the certificate.
    public let fingerprint: [UInt8]

    public init(_ certificates: [UInt8], _ key: [UInt8]) {
        var facts = ctls_certificate_facts()
        certificates.withCTLSBytes { certificates in key.withCTLSBytes { ctls_certificate_inspect(certificates, $0, &facts) } }
        defer { ctls_certificate_facts_free(&facts) }
        hasCertificate = facts.has_certificate != 0
        hasKey = facts.has_key != 0
        keyFits = facts.key_fits != 0
        isChainInOrder = facts.is_chain_in_order != 0
        isChainWhole = facts.is_chain_whole != 0
        isRSA = facts.is_rsa != 0
        scheme = facts.scheme == 0 ? nil : facts.scheme
        (notBefore, notAfter) = (facts.not_before, facts.not_after)
        let bytes = UnsafeRawBufferPointer(start: facts.names, count: facts.names_count)
        names = bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
        fingerprint = withUnsafeBytes(of: facts.hash) { Array($0) }
    }

    /// Whole days until the certificate expires; negative after that.
    public func daysLeft(now: Int64) -> Int64 { Int64((Double(notAfter - now) / 86_400).rounded(.down)) }

    /// Returns a self-signed certificate and its key, both in PEM; nil on failure.
    /// - Parameter names: names in OpenSSL's form: `DNS:localhost,IP:127.0.0.1`.
    public static func makeSelfSigned(names: String, days: Int) -> [UInt8]? {
        var (certificate, key): (UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<CChar>?) = (nil, nil)
        var (certificateCount, keyCount) = (0, 0)
        guard ctls_make_self_signed(names, Int32(days), &certificate, &certificateCount, &key, &keyCount) != 0 else { return nil }
        defer {
            ctls_free(certificate)
            ctls_free(key)
        }
        return Array(UnsafeRawBufferPointer(start: certificate, count: certificateCount))
            + Array(UnsafeRawBufferPointer(start: key, count: keyCount))
    }

    static func count(_ certificates: [UInt8]) -> Int { Int(certificates.withCTLSBytes { ctls_count_certificates($0) }) }
}

extension Array where Element == UInt8 {
    func withCTLSBytes<R>(_ body: (ctls_bytes) -> R) -> R {
        withUnsafeBytes { body(ctls_bytes(bytes: $0.baseAddress, count: $0.count)) }
    }
}

/// A TLS context of OpenSSL for one certificate and one shard.
final class TLSContext {
    let pointer: OpaquePointer

    /// Lifetime of TLS sessions in seconds: that of the ticket keys, or an hour if client certificates are verified.
    private static let sessionSeconds = 24 * 3_600
    private static let certifiedSessionSeconds = 3_600

    /// - Returns: nil if OpenSSL rejects the certificate or the key.
    init?(_ entry: ServerCertificates.Entry) {
        let pointer = entry.certificates.withCTLSBytes { certificates in
            entry.key.withCTLSBytes { key in
                entry.authorities.withCTLSBytes { authorities in
                    var settings = ctls_server_settings()
                    (settings.certificates, settings.key, settings.client_authorities) = (certificates, key, authorities)
                    settings.session_seconds = entry.authorities.isEmpty ? Self.sessionSeconds : Self.certifiedSessionSeconds
                    return ctls_server_make(&settings)
                }
            }
        }
        guard let pointer else { return nil }
        self.pointer = pointer
    }

    deinit { ctls_server_free(pointer) }
}

extension ClientVerification {
    var number: Int32 {
        switch self {
        case .off: Int32(CTLS_ASKS_NOT)
        case .optional: Int32(CTLS_ASKS_OPTIONALLY)
        case .required: Int32(CTLS_ASKS_ALWAYS)
        }
    }
}
