// TLS properties of a connection, which apply to all its requests.

import CTLS
import HTTPCore

public final class ConnectionSecurity: Sendable {
    /// TLS version, such as TLSv1.3.
    public let version: String
    /// The client's certificate if it presented a valid one; nil otherwise.
    public let certificate: ClientCertificate?
    /// Value of the pseudo field that represents the certificate (`ConnectionField.certificate`); nil without a certificate.
    public let certificateField: [UInt8]?
    /// Index of the server certificate that the client received.
    private let index: Int
    private let certificates: ServerCertificates
    /// The listener's rule for client certificates, for all server names; nil if each certificate's settings apply.
    private let verification: ClientVerification?

    init(_ tls: ClientTLS, index: Int, of certificates: ServerCertificates, on listener: ListenerSettings) {
        version = tls.version
        certificate = tls.certificate(by: certificates.settings.identification)
        certificateField = certificate?.fieldValue(isSentOn: certificates.settings.sendsCertificate)
        (self.index, self.certificates) = (index, certificates)
        verification = listener.verification
    }

    /// Whether requests for a host are allowed on this connection. They are not if the host requires other client certificates than this
    /// connection's server name. The response is then 421 (RFC 9110 §7.4).
    /// - Parameter authority: the host, perhaps with a port.
    public func mayServe(_ authority: @autoclosure () -> String) -> Bool {
        guard certificates.entries.count > 1 else { return true }
        return certificates.requestSameCertificates(Self.index(of: authority(), in: certificates), index, on: verification)
    }

    /// Whether the client certificate that this connection's rules required is still the one that the current rules for a host require.
    /// - Parameters:
    ///   - current: the server certificates in use now.
    ///   - verification: the listener's present rule for client certificates.
    func hasPresented(_ authority: String, what current: ServerCertificates, asks verification: ClientVerification?) -> Bool {
        current.rule(Self.index(of: authority, in: current), on: verification) == certificates.rule(index, on: self.verification)
    }

    private static func index(of authority: String, in certificates: ServerCertificates) -> Int {
        var host = authority[...]
        if !host.hasSuffix("]"), let colon = host.lastIndex(of: ":") { host = host[..<colon] }
        return certificates.names.index(of: String(host)) ?? 0
    }
}

/// A valid certificate that a client presented.
public struct ClientCertificate: Sendable {
    /// Distinguished name of the subject in the form of RFC 4514.
    public let subject: String
    public let der: [UInt8]
    /// Hash that distinguishes clients, as configured (`ClientIdentification`).
    public let identity: [UInt8]

    init?(_ connection: OpaquePointer, by identification: ClientIdentification) {
        var certificate = ctls_client_certificate()
        guard ctls_client_certificate_read(connection, &certificate) != 0 else { return nil }
        defer { ctls_client_certificate_free(&certificate) }
        subject = String(decoding: UnsafeRawBufferPointer(start: certificate.subject, count: certificate.subject_count), as: UTF8.self)
        der = Array(UnsafeRawBufferPointer(start: certificate.der, count: certificate.der_count))
        identity =
            switch identification {
            case .subject: withUnsafeBytes(of: certificate.names_hash) { Array($0) }
            case .key: withUnsafeBytes(of: certificate.key_hash) { Array($0) }
            }
    }

    /// Value of `ConnectionField.certificate`.
    fileprivate func fieldValue(isSentOn: Bool) -> [UInt8] {
        var value: [UInt8] = []
        for byte in identity { value += [byte >> 4, byte & 15].map { $0 < 10 ? 0x30 + $0 : 0x57 + $0 } }
        guard isSentOn else { return value }
        return value + Array(" :\(Base64.encode(der)):".utf8)
    }
}
