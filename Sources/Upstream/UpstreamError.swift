// A failed upstream request: the error type of RFC 9209 §2.3, which metrics count, and the cause.

import HTTPCore

public struct UpstreamError: Error, Hashable, Sendable {
    /// The type, also used as a label in metrics and logs.
    public enum Kind: String, Error, Hashable, Sendable, CaseIterable {
        case dnsTimeout = "dns_timeout"
        case dnsError = "dns_error"
        case connectionTimeout = "connection_timeout"
        case connectionRefused = "connection_refused"
        case connectionTerminated = "connection_terminated"
        case connectionReadTimeout = "connection_read_timeout"
        case connectionWriteTimeout = "connection_write_timeout"
        case connectionLimitReached = "connection_limit_reached"
        case destinationIPUnroutable = "destination_ip_unroutable"
        /// The forward proxy refused the tunnel to the upstream (RFC 9110 §9.3.6). RFC 9209 does not define this label.
        case tunnelRefused = "tunnel_refused"
        case responseIncomplete = "http_response_incomplete"
        case responseHeaderTooLarge = "http_response_header_section_size"
        case responseBodyTooLarge = "http_response_body_size"
        case responseTimeout = "http_response_timeout"
        case transferCoding = "http_response_transfer_coding"
        case protocolError = "http_protocol_error"
        case tlsProtocolError = "tls_protocol_error"
        case tlsCertificateError = "tls_certificate_error"
        /// The upstream sent a fatal TLS alert.
        case tlsAlertReceived = "tls_alert_received"
        case proxyInternalError = "proxy_internal_error"
    }

    public let kind: Kind
    /// nil if unknown.
    public let cause: UpstreamCause?

    public init(_ kind: Kind, _ cause: UpstreamCause? = nil) { (self.kind, self.cause) = (kind, cause) }

    init(_ problem: ResponseProblem) {
        let kind: Kind =
            switch problem.kind {
            case .malformed: .protocolError
            case .tooLarge: .responseHeaderTooLarge
            case .transferCoding: .transferCoding
            case .incomplete: .responseIncomplete
            }
        self.init(kind, .response(problem))
    }

    public var rawValue: String { kind.rawValue }

    /// Text of the library or parser that detected the error; nil if unknown. It contains neither the upstream's name nor data from the
    /// upstream, so clients may read it.
    public var details: String? { cause == .injected ? nil : cause?.words }

    /// Label and details, for the log and for messages.
    public var text: String {
        if cause == .injected { return "\(rawValue), injected" }
        return details.map { "\(rawValue): \($0)" } ?? rawValue
    }

    /// Parameters of Proxy-Status (RFC 9209 §2.1.1, §2.3). A refused tunnel is a refusal by the next hop.
    public var proxyStatus: String {
        let type = kind == .tunnelRefused ? Kind.connectionRefused.rawValue : rawValue
        if case .alert(let alert, _) = cause { return "\(type); alert-id=\(alert.rawValue); alert-message=\(alert.words.asStringItem)" }
        return details.map { "\(type); details=\($0.asStringItem)" } ?? type
    }

    /// Whether the TLS handshake failed for a reason other than a certificate.
    var isAboutProtocol: Bool {
        guard case .alert(let alert, _) = cause else { return kind == .tlsProtocolError }
        return !alert.isAboutClientCertificate || alert == .handshakeFailure
    }

    /// Whether the error is local and is no evidence about the upstream.
    public var isOwn: Bool { kind == .connectionLimitReached || kind == .proxyInternalError }

    /// Whether no connection was established: the upstream was not found or not reached, or the TLS handshake failed. All other errors
    /// occur on a connection.
    public var isFailureToReach: Bool {
        switch kind {
        case .dnsTimeout, .dnsError, .connectionTimeout, .connectionRefused, .destinationIPUnroutable, .tunnelRefused, .tlsProtocolError,
            .tlsCertificateError:
            true
        case .tlsAlertReceived: if case .alert(_, isInHandshake: false) = cause { false } else { true }
        case .connectionTerminated, .connectionReadTimeout, .connectionWriteTimeout, .connectionLimitReached, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .responseTimeout, .transferCoding, .protocolError, .proxyInternalError:
            false
        }
    }

    /// The recommended status (RFC 9209 §2.3).
    public var status: Status {
        switch kind {
        case .dnsTimeout, .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout: 504
        case .connectionLimitReached: 503
        case .proxyInternalError: 500
        case .dnsError, .connectionRefused, .connectionTerminated, .destinationIPUnroutable, .tunnelRefused, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .transferCoding, .protocolError, .tlsProtocolError, .tlsCertificateError,
            .tlsAlertReceived:
            502
        }
    }
}

/// Errors without a known cause.
extension UpstreamError: CaseIterable {
    public static let allCases = Kind.allCases.map { UpstreamError($0) }

    public static var dnsTimeout: UpstreamError { UpstreamError(.dnsTimeout) }
    public static var dnsError: UpstreamError { UpstreamError(.dnsError) }
    public static var connectionTimeout: UpstreamError { UpstreamError(.connectionTimeout) }
    public static var connectionRefused: UpstreamError { UpstreamError(.connectionRefused) }
    public static var connectionTerminated: UpstreamError { UpstreamError(.connectionTerminated) }
    public static var connectionReadTimeout: UpstreamError { UpstreamError(.connectionReadTimeout) }
    public static var connectionWriteTimeout: UpstreamError { UpstreamError(.connectionWriteTimeout) }
    public static var connectionLimitReached: UpstreamError { UpstreamError(.connectionLimitReached) }
    public static func tunnelRefused(_ status: Status) -> UpstreamError { UpstreamError(.tunnelRefused, .tunnel(status)) }
    public static var responseIncomplete: UpstreamError { UpstreamError(.responseIncomplete) }
    public static var responseTimeout: UpstreamError { UpstreamError(.responseTimeout) }
    public static var protocolError: UpstreamError { UpstreamError(.protocolError) }
    public static var tlsProtocolError: UpstreamError { UpstreamError(.tlsProtocolError) }
    public static var proxyInternalError: UpstreamError { UpstreamError(.proxyInternalError) }
}
