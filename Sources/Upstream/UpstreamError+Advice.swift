// The setting that helps against an upstream error, for the log, `why` and `cistern upstream`.

import CTLS
import Glibc
import HTTPCore

/// A setting, and its effect on a failure.
public struct SettingAdvice: Sendable, Equatable {
    /// Path of the setting in the configuration file.
    public let setting: String
    /// Clause that follows the name of the setting.
    public let effect: String

    init(_ setting: String, _ effect: String) { (self.setting, self.effect) = (setting, effect) }

    public var text: String { "\(setting) \(effect)" }

    private static let url = "upstream.url"

    fileprivate static let http = SettingAdvice(url, "must begin with http:// if the upstream does not speak TLS on this port")
    fileprivate static let https = SettingAdvice(url, "must begin with https://: the upstream speaks TLS on this port")
    fileprivate static let server = SettingAdvice(url, "must have the host and port of an HTTP server")
    fileprivate static let name = SettingAdvice(url, "must have a host for which the certificate is valid")
    fileprivate static let resolved = SettingAdvice(url, "must have a host that the DNS servers of this machine can resolve")
    fileprivate static let listening = SettingAdvice(url, "must have the host and port on which the upstream listens")
    fileprivate static let socket = SettingAdvice("upstream.unix_socket", "must be the path of the upstream's socket, writable for Cistern")
    fileprivate static let proxy = SettingAdvice("upstream.proxy", "is the forward proxy")
    fileprivate static let authority = SettingAdvice(
        "upstream.ca_file", "must name a file with the CA that signed the upstream's certificate, or with that certificate")
    fileprivate static let files = SettingAdvice(
        "upstream.ca_file", "upstream.client_certificate and upstream.client_key must name readable PEM files")
    fileprivate static let noCheck = SettingAdvice(
        "upstream.verify",
        "can stay true: renew the upstream's certificate, or correct the clock of this machine (false accepts any certificate)")
    fileprivate static let own = SettingAdvice(
        "upstream.client_certificate", "and upstream.client_key are required, because the upstream requests a client certificate")
    fileprivate static let bothVersions = SettingAdvice("upstream.http2", "must be auto to use HTTP/1.1 if the upstream has no HTTP/2")
    fileprivate static let clearHTTP2 = SettingAdvice("upstream.http2", "must be prior-knowledge for HTTP/2 without TLS")
    fileprivate static let connectTimeout = SettingAdvice("upstream.connect_timeout", "limits the time for connecting")
}

extension UpstreamError {
    /// Setting that helps; nil if none does, or if the error was injected.
    public var advice: SettingAdvice? {
        if cause == .injected { return nil }
        if let cause, let advice = cause.advice { return advice }
        return switch kind {
        case .dnsTimeout, .connectionTimeout: .connectTimeout
        case .connectionReadTimeout:
            SettingAdvice(
                "upstream.first_byte_timeout",
                "and upstream.between_bytes_timeout limit pauses in responses; timeouts.stream limits those in streams")
        case .responseTimeout: SettingAdvice("upstream.total_timeout", "limits the time of a whole exchange")
        case .connectionLimitReached: SettingAdvice("upstream.queue", "and upstream.connections limit waiting and active requests")
        case .tunnelRefused: .proxy
        case .connectionRefused: .listening
        // Many servers without TLS end the connection at the first bytes of a handshake.
        case .tlsProtocolError: if case .system = cause { .http } else { nil }
        case .dnsError, .connectionTerminated, .connectionWriteTimeout, .destinationIPUnroutable, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .transferCoding, .protocolError, .tlsCertificateError, .tlsAlertReceived,
            .proxyInternalError:
            nil
        }
    }
}

extension UpstreamCause {
    fileprivate var advice: SettingAdvice? {
        switch self {
        case .certificate(let code): Self.advice(ofVerification: Int(code))
        case .tlsFiles: .files
        case .tls(let error): ctls_is_not_tls(error) != 0 ? .http : nil
        case .cutInHandshake: .http
        case .noHTTP2, .response(.http1Response): .bothVersions
        case .alert(let alert, _): alert.advice
        case .response(.tlsRecord): .https
        case .response(.http2Frame): .clearHTTP2
        case .response(.notHTTP), .response(.replyCode): .server
        case .system(ENOENT), .system(EACCES), .system(ENOTSOCK): .socket
        case .name(EAI_NONAME): .resolved
        case .handshakeTimeout:
            SettingAdvice(
                "upstream.connect_timeout", "limits the time for connecting; an upstream without TLS needs an upstream.url with http://")
        case .response, .chunks, .streamReset, .goAway, .sentReset, .sentGoAway, .unprovenHTTP1, .system, .name, .tunnel, .noResponse,
            .injected:
            nil
        }
    }

    private static func advice(ofVerification code: Int) -> SettingAdvice? {
        switch code {
        case CTLS_CERTIFICATE_EXPIRED, CTLS_CERTIFICATE_NOT_YET_VALID: .noCheck
        case CTLS_CERTIFICATE_OTHER_HOST, CTLS_CERTIFICATE_OTHER_ADDRESS: .name
        case CTLS_CERTIFICATE_SELF_SIGNED, CTLS_CERTIFICATE_SELF_SIGNED_IN_CHAIN, CTLS_CERTIFICATE_NO_ISSUER,
            CTLS_CERTIFICATE_NO_LOCAL_ISSUER, CTLS_CERTIFICATE_UNVERIFIED:
            .authority
        default: nil
        }
    }
}

extension TLSAlert {
    fileprivate var advice: SettingAdvice? {
        switch self {
        case .unrecognizedName: .name
        case .noApplicationProtocol: .bothVersions
        default: isAboutClientCertificate ? .own : nil
        }
    }
}
