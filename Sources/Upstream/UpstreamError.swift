// How asking the upstream failed.

import HTTPCore

public enum UpstreamError: Error, Hashable, Sendable, CaseIterable {
    case dnsTimeout, dnsError, connectionTimeout, connectionRefused, connectionTerminated, connectionReadTimeout, connectionWriteTimeout
    case connectionLimitReached, destinationIPUnroutable
    /// The forward proxy made no tunnel to the upstream (RFC 9110 §9.3.6), and responded with this status.
    case tunnelRefused(Status)
    case responseIncomplete, responseHeaderTooLarge, responseBodyTooLarge, responseTimeout, transferCoding, protocolError
    case tlsProtocolError, tlsCertificateError
    case proxyInternalError

    /// One of each kind, for what counts them by name.
    public static let allCases: [UpstreamError] = [
        .dnsTimeout, .dnsError, .connectionTimeout, .connectionRefused, .connectionTerminated, .connectionReadTimeout,
        .connectionWriteTimeout, .connectionLimitReached, .destinationIPUnroutable, .tunnelRefused(502), .responseIncomplete,
        .responseHeaderTooLarge, .responseBodyTooLarge, .responseTimeout, .transferCoding, .protocolError, .tlsProtocolError,
        .tlsCertificateError, .proxyInternalError,
    ]

    /// The error type of RFC 9209 §2.3, which metrics and logs use too. That of a tunnel is our own.
    public var rawValue: String {
        switch self {
        case .dnsTimeout: "dns_timeout"
        case .dnsError: "dns_error"
        case .connectionTimeout: "connection_timeout"
        case .connectionRefused: "connection_refused"
        case .connectionTerminated: "connection_terminated"
        case .connectionReadTimeout: "connection_read_timeout"
        case .connectionWriteTimeout: "connection_write_timeout"
        case .connectionLimitReached: "connection_limit_reached"
        case .destinationIPUnroutable: "destination_ip_unroutable"
        case .tunnelRefused: "tunnel_refused"
        case .responseIncomplete: "http_response_incomplete"
        case .responseHeaderTooLarge: "http_response_header_section_size"
        case .responseBodyTooLarge: "http_response_body_size"
        case .responseTimeout: "http_response_timeout"
        case .transferCoding: "http_response_transfer_coding"
        case .protocolError: "http_protocol_error"
        case .tlsProtocolError: "tls_protocol_error"
        case .tlsCertificateError: "tls_certificate_error"
        case .proxyInternalError: "proxy_internal_error"
        }
    }

    init(_ rejection: ResponseRejection) {
        self =
            switch rejection {
            case .malformed: .protocolError
            case .tooLarge: .responseHeaderTooLarge
            case .transferCoding: .transferCoding
            }
    }

    /// In words, for the log and for people: what the forward proxy said is in it.
    public var text: String {
        guard case .tunnelRefused(let status) = self else { return rawValue }
        return "\(rawValue): the forward proxy responded \(status.rawValue) to CONNECT"
    }

    /// As parameters of Proxy-Status (RFC 9209 §2.1.1): a refused tunnel is the next hop's refusal.
    public var proxyStatus: String {
        guard case .tunnelRefused(let status) = self else { return rawValue }
        return "connection_refused; details=\"the forward proxy responded \(status.rawValue) to CONNECT\""
    }

    /// Our own trouble: it says nothing of the upstream.
    public var isOwn: Bool { self == .connectionLimitReached || self == .proxyInternalError }

    /// Whether no connection came to be: the upstream was not found, not reached, or TLS was not agreed. All others happen on a connection.
    public var isFailureToReach: Bool {
        switch self {
        case .dnsTimeout, .dnsError, .connectionTimeout, .connectionRefused, .destinationIPUnroutable, .tunnelRefused, .tlsProtocolError,
            .tlsCertificateError:
            true
        case .connectionTerminated, .connectionReadTimeout, .connectionWriteTimeout, .connectionLimitReached, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .responseTimeout, .transferCoding, .protocolError, .proxyInternalError:
            false
        }
    }

    /// RFC 9209 §2.3: the recommended status.
    public var status: Status {
        switch self {
        case .dnsTimeout, .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout: 504
        case .connectionLimitReached: 503
        case .proxyInternalError: 500
        case .dnsError, .connectionRefused, .connectionTerminated, .destinationIPUnroutable, .tunnelRefused, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .transferCoding, .protocolError, .tlsProtocolError, .tlsCertificateError:
            502
        }
    }
}
