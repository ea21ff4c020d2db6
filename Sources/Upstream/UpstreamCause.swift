// The cause of an upstream error, as numbers and small enums, so that passing it between modules allocates nothing. Outputs format it as
// text, which comes from the library that detected the error (OpenSSL, the C library), from the TLS and HTTP/2 registries, or from the
// parser.

import CTLS
import Glibc
import HTTP2
import HTTPCore
import Reactor

public enum UpstreamCause: Hashable, Sendable {
    /// The certificate was refused: OpenSSL's verification error (X509_V_ERR_…).
    case certificate(Int32)
    /// A file of the upstream's TLS settings is unusable.
    case tlsFiles
    /// TLS failed locally: OpenSSL's packed error.
    case tls(UInt)
    /// HTTP/2 is required, and the upstream did not select it in ALPN.
    case noHTTP2
    /// The upstream sent a fatal TLS alert.
    case alert(TLSAlert, isInHandshake: Bool)
    /// The upstream closed the connection during the TLS handshake, without an alert.
    case cutInHandshake
    /// The TLS handshake timed out.
    case handshakeTimeout
    case response(ResponseProblem)
    case chunks(ChunkProblem)
    /// The upstream ended the stream or the connection.
    case streamReset(HTTP2ErrorCode)
    case goAway(HTTP2ErrorCode)
    /// Cistern ended the stream or the connection because of a protocol error of the upstream.
    case sentReset(HTTP2ErrorCode)
    case sentGoAway(HTTP2ErrorCode)
    /// An inconclusive response over HTTP/1.1 from an upstream that uses HTTP/2.
    case unprovenHTTP1
    /// An errno of the C library.
    case system(Int32)
    /// A result of getaddrinfo(3).
    case name(Int32)
    /// The forward proxy responded with this status to CONNECT.
    case tunnel(Status)
    /// The connection ended without a byte of the response.
    case noResponse
    /// A fault that an operator injected.
    case injected

    public var words: String {
        switch self {
        case .certificate(let code): String(cString: ctls_verification_text(Int(code)))
        case .tlsFiles: "a file of the TLS settings is unusable"
        case .tls(let error): ctls_error_text(error).map { String(cString: $0) } ?? "TLS failed"
        case .noHTTP2: "the upstream does not agree on HTTP/2"
        case .alert(let alert, _): alert.words
        case .cutInHandshake: "the upstream closed the connection during the TLS handshake"
        case .handshakeTimeout: "the TLS handshake timed out"
        case .response(let problem): problem.words
        case .chunks(let problem): problem.words
        case .streamReset(let code): "the upstream reset the HTTP/2 stream with \(code)"
        case .goAway(let code): "the upstream ended the HTTP/2 connection with \(code)"
        case .sentReset(let code): "the response violates HTTP/2: \(code)"
        case .sentGoAway(let code): "the upstream violates HTTP/2: \(code)"
        case .unprovenHTTP1: "the upstream speaks HTTP/2, and this response over HTTP/1.1 is not reliable"
        case .system(let number): SystemError.words(number)
        case .name(let code): String(cString: gai_strerror(code))
        case .tunnel(let status): "the forward proxy responded \(status.rawValue) to CONNECT"
        case .noResponse: "the upstream closed the connection without a response"
        case .injected: "injected"
        }
    }
}

/// A TLS alert (RFC 8446 §6, RFC 7301, RFC 6066).
public struct TLSAlert: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let handshakeFailure = TLSAlert(rawValue: 40)
    public static let badCertificate = TLSAlert(rawValue: 42)
    public static let unsupportedCertificate = TLSAlert(rawValue: 43)
    public static let certificateRevoked = TLSAlert(rawValue: 44)
    public static let certificateExpired = TLSAlert(rawValue: 45)
    public static let certificateUnknown = TLSAlert(rawValue: 46)
    public static let unknownCA = TLSAlert(rawValue: 48)
    public static let accessDenied = TLSAlert(rawValue: 49)
    public static let unrecognizedName = TLSAlert(rawValue: 112)
    public static let certificateRequired = TLSAlert(rawValue: 116)
    public static let noApplicationProtocol = TLSAlert(rawValue: 120)

    private static let names: [UInt8: String] = [
        0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
        42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
        46: "certificate_unknown", 47: "illegal_parameter", 48: "unknown_ca", 49: "access_denied", 50: "decode_error", 51: "decrypt_error",
        70: "protocol_version", 71: "insufficient_security", 80: "internal_error", 86: "inappropriate_fallback", 90: "user_canceled",
        109: "missing_extension", 110: "unsupported_extension", 112: "unrecognized_name", 113: "bad_certificate_status_response",
        115: "unknown_psk_identity", 116: "certificate_required", 120: "no_application_protocol",
    ]

    /// The description in the TLS Alerts registry.
    public var words: String { Self.names[rawValue] ?? "unassigned" }

    /// Whether the alert concerns the client certificate, or the lack of one.
    public var isAboutClientCertificate: Bool {
        switch self {
        case .handshakeFailure, .badCertificate, .unsupportedCertificate, .certificateRevoked, .certificateExpired, .certificateUnknown,
            .unknownCA, .accessDenied, .certificateRequired:
            true
        default: false
        }
    }
}
