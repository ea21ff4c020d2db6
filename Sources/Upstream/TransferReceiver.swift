// The seam between the upstream side and the flow: what is asked of the origin, and what comes back. All on the client's event loop.

import HTTPCore

/// What to send to the origin. Hop-by-hop fields are gone already, Host and the forwarding fields are set: it is sent as it stands.
package struct UpstreamRequest: Sendable {
    package var method: Method
    /// The request target, byte for byte as it goes on the request line.
    package var target: [UInt8]
    package var fields: Fields
    package var content: ContentFraming
    /// Not on a kept connection: for a request that is sent for the second time.
    package var usesNewConnection = false
    /// The shares of the connections that it takes part of while it has one.
    package var shares: [ConnectionShare] = []

    package init(method: Method, target: [UInt8], fields: Fields, content: ContentFraming = .none) {
        self.method = method
        self.target = target
        self.fields = fields
        self.content = content
    }

    /// What Content-Length says; nil where it is left out. Methods that promise content say that there is none (RFC 9110 §8.6).
    var contentLength: Int? {
        switch content {
        case .none: method == .post || method == .put || method == .patch ? 0 : nil
        case .length(let count): count
        case .chunked: nil
        }
    }

    var hasContent: Bool { content != .none && content != .length(0) }
}

/// Is told what a transfer brings. After `transferEnded` or `transferFailed` nothing more comes.
package protocol TransferReceiver: AnyObject {
    /// A 1xx answer other than 101; 100 only where the request has Expect.
    func transfer(_ transfer: Transfer, informational head: ResponseHead)
    /// The final answer's head. Fields are as sent; framing fields (Transfer-Encoding, Content-Length) are still there.
    func transfer(_ transfer: Transfer, received head: ResponseHead)
    /// More content, transfer coding removed, content coding as sent. To be sent no more for now, call `transfer.pause()`
    /// here or at any time; what arrived is never delivered twice.
    func transfer(_ transfer: Transfer, content: Span<UInt8>)
    /// The answer is complete by its framing. `isDelimited` is false where only the end of the connection marked the end.
    func transferEnded(_ transfer: Transfer, isDelimited: Bool)
    func transferFailed(_ transfer: Transfer, _ error: UpstreamError)
    /// The upstream took what was written of the request's content: more may be written.
    func transferDrained(_ transfer: Transfer)
}

/// How asking the upstream failed. The raw value is the error type of RFC 9209 §2.3, which metrics and logs use too.
package enum UpstreamError: String, Error, Sendable, CaseIterable {
    case dnsTimeout = "dns_timeout"
    case dnsError = "dns_error"
    case connectionTimeout = "connection_timeout"
    case connectionRefused = "connection_refused"
    case connectionTerminated = "connection_terminated"
    case connectionReadTimeout = "connection_read_timeout"
    case connectionWriteTimeout = "connection_write_timeout"
    case connectionLimitReached = "connection_limit_reached"
    case destinationIPUnroutable = "destination_ip_unroutable"
    case responseIncomplete = "http_response_incomplete"
    case responseHeaderTooLarge = "http_response_header_section_size"
    case responseBodyTooLarge = "http_response_body_size"
    case responseTimeout = "http_response_timeout"
    case transferCoding = "http_response_transfer_coding"
    case protocolError = "http_protocol_error"
    case tlsProtocolError = "tls_protocol_error"
    case tlsCertificateError = "tls_certificate_error"
    case proxyInternalError = "proxy_internal_error"

    /// Whether no connection came to be: the upstream was not found, not reached, or TLS was not agreed. All others happen on a connection.
    package var isFailureToReach: Bool {
        switch self {
        case .dnsTimeout, .dnsError, .connectionTimeout, .connectionRefused, .destinationIPUnroutable, .tlsProtocolError,
            .tlsCertificateError:
            true
        case .connectionTerminated, .connectionReadTimeout, .connectionWriteTimeout, .connectionLimitReached, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .responseTimeout, .transferCoding, .protocolError, .proxyInternalError:
            false
        }
    }

    /// RFC 9209 §2.3: the recommended status.
    package var status: Status {
        switch self {
        case .dnsTimeout, .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout: 504
        case .connectionLimitReached: 503
        case .proxyInternalError: 500
        case .dnsError, .connectionRefused, .connectionTerminated, .destinationIPUnroutable, .responseIncomplete,
            .responseHeaderTooLarge, .responseBodyTooLarge, .transferCoding, .protocolError, .tlsProtocolError, .tlsCertificateError:
            502
        }
    }
}
