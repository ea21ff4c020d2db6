// Counts of one route, on one shard and in total.

/// Counts of the requests for one route.
public struct RouteCounts: Sendable {
    /// Requests by result and status class (1xx … 5xx), in one array.
    public var requests = [UInt64](repeating: 0, count: CacheResult.allCases.count * Self.classes)
    public var duration = Histogram(bounds: Histogram.durations)
    /// By index in `MetricLabels`; empty before the first one.
    public var rescued: [UInt64] = []
    public var notStored: [UInt64] = []
    /// Number of these responses with a status of 5xx.
    public var errorsNotStored: [UInt64] = []
    private(set) var exemplars = Exemplars()

    private static let classes = StatusClass.count

    init() {}

    public static func count(_ place: Int, of places: Int, in counts: inout [UInt64]) {
        if counts.isEmpty { counts = Array(repeating: 0, count: places) }
        counts[place] += 1
    }

    fileprivate mutating func note(_ exemplar: Exemplar) { exemplars.note(exemplar, in: duration.bounds) }

    mutating func merge(_ other: RouteCounts) {
        for place in requests.indices { requests[place] += other.requests[place] }
        duration.merge(other.duration)
        Self.add(other.rescued, to: &rescued)
        Self.add(other.notStored, to: &notStored)
        Self.add(other.errorsNotStored, to: &errorsNotStored)
        exemplars.merge(other.exemplars)
    }

    /// Adds counts to a separate array, so that the loop's array stays uniquely referenced and is counted in place.
    static func add(_ other: [UInt64], to counts: inout [UInt64]) {
        if !other.isEmpty, counts.isEmpty { counts = Array(repeating: 0, count: other.count) }
        for place in other.indices { counts[place] += other[place] }
    }

    /// Requests by labels, if there were any.
    var countedRequests: [(labels: String, count: UInt64)] {
        CacheResult.allCases.flatMap { result in
            (0..<Self.classes).compactMap { statusClass in
                let count = requests[result.rawValue * Self.classes + statusClass]
                return count == 0 ? nil : ("result=\"\(result.label)\",status_class=\"\(statusClass + 1)xx\"", count)
            }
        }
    }

    func rescues(_ labels: MetricLabels) -> [(labels: String, count: UInt64)] { Self.occurred("cause", labels.rescueCauses, rescued) }
    func notStored(_ labels: MetricLabels) -> [(labels: String, count: UInt64)] { Self.occurred("reason", labels.notStored, notStored) }

    private static func occurred(_ name: String, _ labels: [String], _ counts: [UInt64]) -> [(labels: String, count: UInt64)] {
        zip(labels, counts).compactMap { $1 == 0 ? nil : ("\(name)=\"\($0)\"", $1) }
    }
}

/// Counts of one route on one shard, used by successive versions of the route's settings. Used on its loop only.
public final class RouteFigures {
    /// Name of the route in metrics.
    public let name: String
    public let labels: MetricLabels
    public var counts = RouteCounts()

    public init(name: String, labels: MetricLabels) { (self.name, self.labels) = (name, labels) }

    public func note(_ exemplar: Exemplar) { counts.note(exemplar) }

    /// Adds the counts to those of other shards.
    /// - Parameter place: probable index of the route. Shards have equal routes in equal order.
    public func add(to snapshot: inout MetricsSnapshot, at place: Int) {
        let isThere = snapshot.routes.indices.contains(place) && snapshot.routes[place].name == name
        if let place = isThere ? place : snapshot.routes.firstIndex(where: { $0.name == name }) {
            snapshot.routes[place].counts.merge(counts)
        } else {
            // A shared copy would force the loop to copy its arrays with the next request.
            var sum = RouteCounts()
            sum.merge(counts)
            snapshot.routes.append((name, sum))
        }
    }
}

/// Summary of a route, of an API, or of all requests, for display.
public struct RouteSummary: Sendable {
    public let name: String
    /// By `CacheResult`.
    public let requests: [UInt64]
    public let serverErrors: UInt64
    public let duration: Histogram
    /// Reasons for not storing responses, as named in metrics, with their counts, the most frequent first. Responses with a status of 5xx
    /// are excluded, because storing them is not wanted.
    public let notStored: [(reason: String, count: UInt64)]
}

extension RouteCounts {
    fileprivate func summary(_ name: String, _ labels: MetricLabels) -> RouteSummary {
        let results = CacheResult.allCases.map { result in
            requests[(result.rawValue * Self.classes)..<((result.rawValue + 1) * Self.classes)].reduce(0, +)
        }
        let errors = CacheResult.allCases.reduce(0) { $0 + requests[$1.rawValue * Self.classes + 4] }
        return RouteSummary(
            name: name, requests: results, serverErrors: errors, duration: duration,
            notStored: MetricsSnapshot.mostFrequent(labels.notStored, notStored, without: errorsNotStored))
    }
}

extension MetricsSnapshot {
    /// Summaries of the routes of all APIs, including requests that match no route; empty if no API has routes.
    public var routeSummaries: [RouteSummary] { routes.map { $0.counts.summary($0.name, shards.labels) } }

    /// - Parameter errors: counts to subtract; may be empty.
    static func mostFrequent(
        _ labels: [String], _ counts: [UInt64], without errors: [UInt64]
    ) -> [(reason: String, count: UInt64)] {
        let counts = counts.enumerated().map { place, count in count - (place < errors.count ? min(count, errors[place]) : 0) }
        // Equal counts stay in their order.
        return counts.indices.filter { counts[$0] > 0 }.sorted { (counts[$1], $0) < (counts[$0], $1) }.map { (labels[$0], counts[$0]) }
    }

    /// Summary of all requests, except those for Cistern's own pages.
    public var summary: RouteSummary {
        RouteSummary(
            name: "", requests: CacheResult.allCases.map { $0 == .own ? 0 : shards.requestCount(of: $0) },
            serverErrors: shards.serverErrors, duration: shards.clientDuration,
            notStored: Self.mostFrequent(shards.labels.notStored, shards.notStored, without: shards.errorsNotStored))
    }

    /// Summaries of several APIs. Durations are those of an API's routes; an API without routes has none.
    public var apiSummaries: [RouteSummary] {
        apis.map { api in
            var duration = Histogram(bounds: Histogram.durations)
            for route in routes where route.name.hasPrefix(api.name + "/") { duration.merge(route.counts.duration) }
            return counts(of: api).summary(api.name, duration, shards.labels)
        }
    }

    /// Writes the metrics of routes; nothing if no API has routes.
    func writeRoutes(to writer: inout MetricsWriter) {
        guard !routes.isEmpty else { return }
        let labels = shards.labels
        func counter(_ name: String, _ help: String, _ counted: (RouteCounts) -> [(labels: String, count: UInt64)]) {
            writer.counter(
                name, help,
                routes.flatMap { route in counted(route.counts).map { ("route=\"\(route.name)\",\($0.labels)", Double($0.count)) } })
        }
        counter("cistern_route_requests", "Requests for each route, by how they were responded to.", \.countedRequests)
        writer.histogram(
            "cistern_route_request_duration_seconds", "From a request's head to the end of its response, for each route.", scale: 1e-6,
            routes.map { ("route=\"\($0.name)\"", $0.counts.duration, $0.counts.exemplars) })
        counter("cistern_route_rescued_requests", "Requests for each route that a stored response rescued, by cause.") {
            $0.rescues(labels)
        }
        counter("cistern_route_not_stored", "Responses of each route that were not kept, by reason.") { $0.notStored(labels) }
    }
}
