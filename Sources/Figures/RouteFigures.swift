// Figures of one route, and summaries of routes, of APIs, and of all requests.

/// Figures of one route on one shard, used by successive versions of the route's settings. Used on its loop only.
public final class RouteFigures {
    /// Name of the route in metrics.
    public let name: String
    public var figures = LabelledFigures()

    public init(name: String) { self.name = name }

    /// Adds the figures to those of other shards.
    /// - Parameter index: probable index of the route. Shards have equal routes in equal order.
    public func add(to snapshot: inout MetricsSnapshot, at index: Int) {
        let isThere = snapshot.routes.indices.contains(index) && snapshot.routes[index].name == name
        if let index = isThere ? index : snapshot.routes.firstIndex(where: { $0.name == name }) {
            snapshot.routes[index].figures.add(figures)
        } else {
            // A shared copy would force the loop to copy its arrays with the next request.
            var sum = LabelledFigures()
            sum.add(figures)
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

extension MetricsSnapshot {
    /// Number of requests over all methods and statuses.
    public func requestCount(of result: CacheResult) -> UInt64 { requestCount(of: result, statusClasses: 0..<StatusClass.count) }

    private func requestCount(of result: CacheResult, statusClasses: Range<Int>) -> UInt64 {
        MethodLabel.allCases.reduce(0) { sum, method in
            statusClasses.reduce(sum) { $0 + figures.labelled[.requests, RequestLabels.index(result, method, $1)] }
        }
    }

    /// Summary of all requests, except those for Cistern's own pages.
    public var summary: RouteSummary {
        let results = CacheResult.allCases.filter { $0 != .own }
        var duration = Histogram(bounds: HistogramFigure.requestDuration.bounds)
        for result in results { duration.merge(figures.labelled.histogram(.requestDuration, result.rawValue)) }
        return RouteSummary(
            name: "", requests: CacheResult.allCases.map { $0 == .own ? 0 : requestCount(of: $0) },
            serverErrors: results.reduce(0) { $0 + requestCount(of: $1, statusClasses: StatusClass.serverError..<StatusClass.count) },
            duration: duration, notStored: mostFrequent(.notStored, figures.labelled))
    }

    /// Summaries of the routes of all APIs, including requests that match no route; empty if no API has routes.
    public var routeSummaries: [RouteSummary] {
        routes.map { name, figures in
            let count = { (result: CacheResult, statusClass: Int) in
                figures[.routeRequests, RequestLabels.index(result, statusClass)]
            }
            return RouteSummary(
                name: name,
                requests: CacheResult.allCases.map { result in (0..<StatusClass.count).reduce(0) { $0 + count(result, $1) } },
                serverErrors: CacheResult.allCases.reduce(0) { $0 + count($1, StatusClass.serverError) },
                duration: figures.histogram(.routeDuration), notStored: mostFrequent(.routeNotStored, figures))
        }
    }

    /// Summaries of several APIs. Durations are those of an API's routes; an API without routes has none.
    public var apiSummaries: [RouteSummary] {
        apis.map { api in
            var duration = Histogram(bounds: HistogramFigure.routeDuration.bounds)
            for route in routes where route.name.hasPrefix(api.name + "/") { duration.merge(route.figures.histogram(.routeDuration)) }
            let figures = counts(of: api).figures
            return RouteSummary(
                name: api.name, requests: figures.apiRequests, serverErrors: figures[.apiServerErrors], duration: duration,
                notStored: mostFrequent(.notStored, figures))
        }
    }

    /// Reasons with their counts, without responses with a status of 5xx.
    private func mostFrequent(_ figure: LabelledFigure, _ figures: LabelledFigures) -> [(reason: String, count: UInt64)] {
        let names = values(figure)
        let counts = names.indices.map { figures[figure, $0] - min(figures[figure, $0], figures[.errorsNotStored, $0]) }
        // Equal counts stay in their order.
        return counts.indices.filter { counts[$0] > 0 }.sorted { (counts[$1], $0) < (counts[$0], $1) }.map { (names[$0], counts[$0]) }
    }
}

extension LabelledFigures {
    /// Requests of an API by `CacheResult`. Counted only if there are several APIs.
    public var apiRequests: [UInt64] { CacheResult.allCases.map { self[.apiRequests, $0.rawValue] } }
}
