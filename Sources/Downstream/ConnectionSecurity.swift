// What is known of a connection that came through TLS, for all of its requests.

import CTLS
import HTTPCore

public final class ConnectionSecurity: Sendable {
    /// Such as TLSv1.3.
    public let version: String
    /// What the client asked for, in small letters; empty where it named nothing.
    public let serverName: String
    /// The client's, where it has presented one that was found good.
    public let certificate: ClientCertificate?
    /// What stands for it beside a request's own fields (`ConnectionField.certificate`).
    public let certificateField: [UInt8]?
    /// The place of the certificate that the client got.
    private let place: Int
    private let certificates: ServerCertificates
    /// What the listener asks of all names' clients, by whichever authorities each name has.
    private let verification: ClientVerification?

    init(_ tls: ClientTLS, _ serverName: String, place: Int, of certificates: ServerCertificates, on listener: ListenerSettings) {
        version = tls.version
        self.serverName = serverName
        certificate = tls.certificate(by: certificates.settings.identification)
        certificateField = certificate?.fieldValue(isSentOn: certificates.settings.sendsCertificate)
        (self.place, self.certificates) = (place, certificates)
        verification = listener.verification
    }

    /// Whether requests for a host may come here: not where its clients are asked for another certificate than this connection's were (RFC 9110
    /// §7.4: else 421).
    /// - Parameter authority: the host, perhaps with a port.
    public func mayServe(_ authority: @autoclosure () -> String) -> Bool {
        guard certificates.entries.count > 1 else { return true }
        return certificates.askTheSame(Self.place(of: authority(), in: certificates), place, on: verification)
    }

    /// Whether a client that asks for a host is asked for the certificate that this connection's client was asked for.
    /// - Parameters:
    ///   - current: certificates that are in use now.
    ///   - verification: the listener's own setting.
    func hasPresented(_ authority: String, what current: ServerCertificates, asks verification: ClientVerification?) -> Bool {
        current.rule(Self.place(of: authority, in: current), on: verification) == certificates.rule(place, on: self.verification)
    }

    private static func place(of authority: String, in certificates: ServerCertificates) -> Int {
        var host = authority[...]
        if !host.hasSuffix("]"), let colon = host.lastIndex(of: ":") { host = host[..<colon] }
        return certificates.names.place(of: String(host)) ?? 0
    }
}

/// A client's certificate that was found good.
public struct ClientCertificate: Sendable {
    /// As RFC 4514 writes it.
    public let subject: String
    public let der: [UInt8]
    /// What tells this client from others, as the operator has chosen it: a hash.
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

    /// See `ConnectionField.certificate`.
    fileprivate func fieldValue(isSentOn: Bool) -> [UInt8] {
        var value: [UInt8] = []
        for byte in identity { value += [byte >> 4, byte & 15].map { $0 < 10 ? 0x30 + $0 : 0x57 + $0 } }
        guard isSentOn else { return value }
        return value + Array(" :\(Base64.encode(der)):".utf8)
    }
}
