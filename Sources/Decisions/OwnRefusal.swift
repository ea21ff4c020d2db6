// Texts and statuses of error responses that Cistern generates: the request is refused, or the upstream failed and no stored response may
// be served.

import CachePolicy
import Forwarding
import HTTPCore
import Upstream

public struct OwnRefusal: Sendable, Equatable {
    public let status: Status
    public let sentence: String
    /// Error for Proxy-Status (RFC 9209 §2.3), optionally with parameters; nil if the upstream is not involved.
    public var proxyError: String?
    /// Value of Retry-After in seconds; nil for none.
    public var retryAfter: Int64?

    /// - Parameters:
    ///   - accept: the request's Accept field, all lines joined; nil if absent.
    ///   - name: name of this deployment.
    public func response(accept: ArraySlice<UInt8>?, name: String) -> OwnResponse {
        var response = OwnResponse(status: status, sentence: sentence, accept: accept)
        if let proxyError { response.fieldLines = Array("Proxy-Status: \(name); error=\(proxyError)\r\n".utf8) }
        if let retryAfter { response.fieldLines += Array("Retry-After: \(retryAfter)\r\n".utf8) }
        return response
    }
}

extension Refusal {
    public func response(accept: ArraySlice<UInt8>?, name: String) -> OwnResponse {
        let refusal: OwnRefusal
        switch self {
        case .request(let refusal): return refusal.response(accept: accept, name: name)
        case .offline(let bypass):
            let clause = bypass?.clause ?? "no stored response may be served for this request"
            refusal = OwnRefusal(status: 504, sentence: "Cistern is in offline mode, and \(clause).")
        case .onlyIfCached(let bypass):
            let clause = bypass?.clause ?? "no suitable response is stored for it"
            refusal = OwnRefusal(status: 504, sentence: "The request has only-if-cached, and \(clause).")
        }
        return refusal.response(accept: accept, name: name)
    }
}

extension FetchFailure {
    /// The error response if no stored response is served. Includes the reason for that.
    public func refusal(_ reason: NoCopyReason) -> OwnRefusal {
        switch self {
        case .transfer(.connectionLimitReached):
            OwnRefusal(
                status: 503, sentence: "Too many requests are waiting for the upstream, and \(reason.clause).",
                proxyError: UpstreamError.connectionLimitReached.rawValue, retryAfter: 1)
        case .transfer(let error):
            OwnRefusal(
                status: error.status, sentence: "The upstream failed (\(error.text)), and \(reason.clause).",
                proxyError: error.proxyStatus)
        case .fault(_, let status):
            OwnRefusal(
                status: 502, sentence: "The upstream's response (\(status.rawValue)) cannot be used.", proxyError: "http_protocol_error")
        case .stopped(let stop):
            OwnRefusal(
                status: 503, sentence: "The upstream cannot be reached (\(stop.cause.text)), and \(reason.clause).",
                proxyError: "\(label); details=\(stop.cause.text.asStringItem)", retryAfter: max(1, (stop.wait + 999) / 1000))
        case .tooManyStreams:
            OwnRefusal(
                status: 503, sentence: "The response is a stream, and the limit on open streams is reached.",
                proxyError: UpstreamError.connectionLimitReached.rawValue, retryAfter: 1)
        case .slow: OwnRefusal(status: 504, sentence: "The upstream is too slow.", proxyError: UpstreamError.responseTimeout.rawValue)
        }
    }
}

extension NoCopyReason {
    /// Clients must not learn whether other users have a stored response. In such cases the text states that nothing is stored.
    fileprivate var clause: String {
        switch self {
        case .bypassed(let reason): reason.clause ?? "no response is stored for this request"
        case .nothingStored, .sharedRescueForbidden, .forbidden(.authorized): "no response is stored for this request"
        case .forbidden: "the stored response may not be served"
        }
    }
}

extension BypassReason {
    /// Why a stored response cannot be used; nil if none is stored for such a request.
    fileprivate var clause: String? {
        self == .precondition ? "only the upstream can evaluate the request's preconditions" : nil
    }
}
