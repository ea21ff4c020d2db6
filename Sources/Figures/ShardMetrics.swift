// Counters of one shard: plain numbers that only its loop uses. A scrape adds up copies of all shards.

/// The values of the labels that other modules' enums define, by position.
public struct MetricLabels: Sendable {
    public var rescueCauses: [String]
    public var notStored: [String]
    public var refusals: [String]
    public var upstreamErrors: [String]
    public var contentOutcomes: [String]
    public var sharedPermissions: [String]

    public init(
        rescueCauses: [String], notStored: [String], refusals: [String], upstreamErrors: [String], contentOutcomes: [String],
        sharedPermissions: [String]
    ) {
        self.sharedPermissions = sharedPermissions
        self.rescueCauses = rescueCauses
        self.notStored = notStored
        self.refusals = refusals
        self.upstreamErrors = upstreamErrors
        self.contentOutcomes = contentOutcomes
    }
}

public struct ShardMetrics: Sendable {
    public let labels: MetricLabels
    /// Requests by result, method and status class (1xx … 5xx), in one array.
    public var requests: [UInt64]
    public var durations: [Histogram]
    public var upstreamDuration = Histogram(bounds: Histogram.durations)
    public var servedAge = Histogram(bounds: Histogram.ages)
    /// By `ContentSource`.
    public var responseBytes = [UInt64](repeating: 0, count: ContentSource.allCases.count)
    /// Bytes of content from the store, by `CacheResult`.
    public var savedBytes = [UInt64](repeating: 0, count: CacheResult.allCases.count)
    public var oldestAges = OldestAges()
    /// By `CacheResult`.
    public var exemplars = [Exemplars](repeating: Exemplars(), count: CacheResult.allCases.count)
    public var rescued: [UInt64]
    /// Number of these that were served a response stored without credentials.
    public var rescuedWithShared: [UInt64]
    public var notStored: [UInt64]
    /// Number of these with a status of 5xx, which are not wanted in the store.
    public var errorsNotStored: [UInt64]
    public var refused: [UInt64]
    public var upstreamErrors: [UInt64]
    public var contents: [UInt64]
    public var figures = Figures()

    private static let classes = StatusClass.count
    private static let methods = MethodLabel.allCases.count

    public init(labels: MetricLabels) {
        self.labels = labels
        requests = Array(repeating: 0, count: CacheResult.allCases.count * MethodLabel.allCases.count * Self.classes)
        durations = Array(repeating: Histogram(bounds: Histogram.durations), count: CacheResult.allCases.count)
        rescued = Array(repeating: 0, count: labels.rescueCauses.count)
        rescuedWithShared = Array(repeating: 0, count: labels.sharedPermissions.count)
        notStored = Array(repeating: 0, count: labels.notStored.count)
        errorsNotStored = notStored
        refused = Array(repeating: 0, count: labels.refusals.count)
        upstreamErrors = Array(repeating: 0, count: labels.upstreamErrors.count)
        contents = Array(repeating: 0, count: labels.contentOutcomes.count)
    }

    public static func position(_ result: CacheResult, _ method: MethodLabel, _ statusClass: Int) -> Int {
        (result.rawValue * methods + method.rawValue) * classes + statusClass
    }

    /// Records the trace of an exchange.
    public mutating func note(_ exemplar: Exemplar, of result: CacheResult) {
        exemplars[result.rawValue].note(exemplar, in: Histogram.durations)
    }

    /// Number of requests over all methods and statuses.
    public func requestCount(of result: CacheResult) -> UInt64 {
        let first = Self.position(result, .get, 0)
        return requests[first..<first + Self.methods * Self.classes].reduce(0, +)
    }

    /// Number of responses with a status of 5xx, from the upstream or from Cistern.
    public var serverErrors: UInt64 {
        CacheResult.allCases.reduce(0) { sum, result in
            result == .own ? sum : MethodLabel.allCases.reduce(sum) { $0 + requests[Self.position(result, $1, 4)] }
        }
    }

    /// Durations of all requests, except those for Cistern's own pages, in microseconds.
    public var clientDuration: Histogram {
        var sum = Histogram(bounds: Histogram.durations)
        for result in CacheResult.allCases where result != .own { sum.merge(durations[result.rawValue]) }
        return sum
    }

    public mutating func refuse(_ reason: Int) { refused[reason] += 1 }

    public mutating func countContent(_ outcome: Int) { contents[outcome] += 1 }

    public mutating func upstreamFailed(_ error: Int) { upstreamErrors[error] += 1 }

    public mutating func merge(_ other: ShardMetrics) {
        Self.add(other.requests, to: &requests)
        for index in durations.indices { durations[index].merge(other.durations[index]) }
        upstreamDuration.merge(other.upstreamDuration)
        servedAge.merge(other.servedAge)
        Self.add(other.responseBytes, to: &responseBytes)
        Self.add(other.savedBytes, to: &savedBytes)
        for index in exemplars.indices { exemplars[index].merge(other.exemplars[index]) }
        figures.add(other.figures)
        Self.add(other.rescued, to: &rescued)
        Self.add(other.rescuedWithShared, to: &rescuedWithShared)
        Self.add(other.notStored, to: &notStored)
        Self.add(other.errorsNotStored, to: &errorsNotStored)
        Self.add(other.refused, to: &refused)
        Self.add(other.upstreamErrors, to: &upstreamErrors)
        Self.add(other.contents, to: &contents)
    }

    private static func add(_ other: [UInt64], to counts: inout [UInt64]) {
        for index in counts.indices { counts[index] += other[index] }
    }

    /// Numbers of requests, with their labels.
    var countedRequests: [(labels: String, count: UInt64)] {
        var out: [(String, UInt64)] = []
        for result in CacheResult.allCases {
            for method in MethodLabel.allCases {
                for statusClass in 0..<Self.classes {
                    let count = requests[Self.position(result, method, statusClass)]
                    // Every result of GET is written from the start, so that rates have a first value; others are written when they occur.
                    guard count > 0 || (method == .get && statusClass == 1) else { continue }
                    out.append(("result=\"\(result.label)\",method=\"\(method.label)\",status_class=\"\(statusClass + 1)xx\"", count))
                }
            }
        }
        return out
    }
}
