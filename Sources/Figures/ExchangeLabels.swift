// Labels of exchanges in metrics and in the access log.

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

    /// The results of responses from the store.
    static let fromStore: [CacheResult] = [.hit, .revalidated, .stale, .collapsed, .rescued]

    /// Names of the results of responses from the store; empty for other results.
    public static var namesFromStore: [String] { allCases.map { fromStore.contains($0) ? "\($0.label)" : "" } }

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

/// The class of a status: 0 for 1xx … 4 for 5xx.
public enum StatusClass {
    public static let count = 5
    public static let serverError = 4
    public static let labels = (1...count).map { "\($0)xx" }

    public static func index(of status: UInt16) -> Int { min(max(Int(status) / 100, 1), count) - 1 }
}

/// Indices of `LabelledFigure.requests` and `.routeRequests`, and their labels.
public enum RequestLabels {
    private static let methods = MethodLabel.allCases.count

    public static func index(_ result: CacheResult, _ method: MethodLabel, _ statusClass: Int) -> Int {
        (result.rawValue * methods + method.rawValue) * StatusClass.count + statusClass
    }

    public static func index(_ result: CacheResult, _ statusClass: Int) -> Int { result.rawValue * StatusClass.count + statusClass }

    public static var withMethods: [String] {
        CacheResult.allCases.flatMap { result in
            MethodLabel.allCases.flatMap { labels("result=\"\(result.label)\",method=\"\($0.label)\"") }
        }
    }

    public static var withoutMethods: [String] { CacheResult.allCases.flatMap { labels("result=\"\($0.label)\"") } }

    private static func labels(_ first: String) -> [String] { StatusClass.labels.map { "\(first),status_class=\"\($0)\"" } }

    /// End of the labels with samples on the page before the first request.
    static let usual = "method=\"GET\",status_class=\"2xx\""
}
