// What is remembered of one exchange: recorded once, at its end, in counters and in the access log.

/// Where the response came from, as the `result` label says it.
public enum CacheResult: Int, Sendable, CaseIterable {
    /// From the store, fresh, without asking.
    case hit
    /// The upstream was asked and responded; nothing was stored for this request before, or what was stored was replaced.
    case miss
    /// The upstream confirmed what was stored.
    case revalidated
    /// From the store, stale with the response's own leave; validated in the background.
    case stale
    /// Another request's response, waited for.
    case collapsed
    /// From the store, because the upstream failed.
    case rescued
    /// The store has nothing to do with such a request.
    case bypass
    /// No response from the upstream and nothing stored.
    case error
    /// Our own pages.
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

/// The method label: a bounded set, whatever clients send.
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

/// Where a response's content came from.
public enum ContentSource: Int, Sendable, CaseIterable {
    case store, upstream
    /// Our own errors.
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
    /// Microseconds until the upstream had responded or failed; nil where it was not asked.
    public var upstreamMicroseconds: Int64?
    /// Microseconds from the request's head until its content was whole; nil where it had none, or it went on as it came.
    public var contentMicroseconds: Int64?
    public var bodyBytes = 0
    public var source = ContentSource.upstream
    /// Seconds; of responses from the store.
    public var age: Int64?
    /// Positions in `MetricLabels`: why the copy went out, why the response was not kept.
    public var rescueCause: Int?
    /// What allowed the copy of those without credentials to go out.
    public var sharedPermission: Int?
    public var notStored: Int?

    /// The client got a status of 5xx, whoever made it: the request has failed.
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
