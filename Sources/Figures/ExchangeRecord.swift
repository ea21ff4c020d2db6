// The record of one exchange, written once, at its end, to the counters and the access log.

/// Source of the response, as given by the `result` label.
public enum CacheResult: Int, Sendable, CaseIterable {
    /// A fresh stored response, without a request to the upstream.
    case hit
    /// A response of the upstream. There was no usable stored response, or it was replaced.
    case miss
    /// The upstream confirmed the stored response.
    case revalidated
    /// A stale stored response, allowed by its own directives and validated in the background.
    case stale
    /// The response to another request, which this request waited for.
    case collapsed
    /// A stored response, served because the upstream failed.
    case rescued
    /// The cache does not apply to the request.
    case bypass
    /// The upstream sent no response, and no stored response was usable.
    case error
    /// One of Cistern's own pages.
    case own

    public var label: StaticString {
        switch self {
        case .hit: "hit"
        case .miss: "miss"
        case .revalidated: "revalidated"
        case .stale: "stale"
        case .collapsed: "collapsed"
        case .rescued: "rescued"
        case .bypass: "bypass"
        case .error: "error"
        case .own: "own"
        }
    }
}

/// The method label. The set is bounded, whatever clients send.
public enum MethodLabel: Int, Sendable, CaseIterable {
    case get, head, post, put, patch, delete, options, query, other

    public var label: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .query: "QUERY"
        case .other: "other"
        }
    }
}

/// Source of a response's content.
public enum ContentSource: Int, Sendable, CaseIterable {
    case store, upstream
    /// Cistern's own error responses.
    case own

    public var label: StaticString {
        switch self {
        case .store: "store"
        case .upstream: "upstream"
        case .own: "own"
        }
    }
}

public struct ExchangeRecord: Sendable {
    public var result: CacheResult
    public var method: MethodLabel
    public var status: UInt16
    /// Microseconds from the request's head to the end of the response.
    public var durationMicroseconds: Int64 = 0
    /// Microseconds until the upstream had responded or failed; nil if it was not asked.
    public var upstreamMicroseconds: Int64?
    /// Microseconds from the request's head until its content was complete; nil if it had none, or it was streamed.
    public var contentMicroseconds: Int64?
    public var bodyBytes = 0
    public var source = ContentSource.upstream
    /// Age in seconds of a response from the store; nil for other responses.
    public var age: Int64?
    /// Index in `MetricLabels.rescueCauses` if a stored response was served instead; nil otherwise.
    public var rescueCause: Int?
    /// Index of the reason that allowed serving a response stored without credentials; nil otherwise.
    public var sharedPermission: Int?
    public var notStored: Int?

    /// Whether the request has failed: its client received a status of 5xx, from the upstream or from Cistern.
    public var isServerError: Bool { status >= 500 }

    static let statusClasses = 5

    /// 0 for 1xx … 4 for 5xx.
    var statusClass: Int { min(max(Int(status) / 100, 1), Self.statusClasses) - 1 }

    public init(result: CacheResult, method: MethodLabel, status: UInt16) {
        self.result = result
        self.method = method
        self.status = status
    }
}
