// Why earlier responses were not stored, by method and path, route and API. Explains failed exchanges that found no stored response.

import CachePolicy
import Explanation
import Figures

struct PreviousReasons: Sendable {
    private struct Path: Hashable {
        let api: UInt16
        let method: MethodLabel
        let path: ArraySlice<UInt8>

        init(_ record: WhyRecord) {
            (api, path) = (record.exchange.api, record.path)
            method = record.exchange.method == .head ? .get : record.exchange.method
        }
    }

    /// The latest reason per path.
    private var paths: [Path: (wall: Int64, reason: NotStoredReason, status: UInt16)] = [:]
    private var routes: [String: RouteSummary] = [:]
    private var apis: [String: RouteSummary] = [:]
    private var all: RouteSummary?

    /// Without data, for exchanges that need none.
    init() {}

    /// - Parameter records: exchanges, some of which may have a reason.
    init(_ records: [WhyRecord], _ snapshot: MetricsSnapshot) {
        for record in records {
            guard let reason = record.reasonNotStored else { continue }
            let path = Path(record)
            if record.exchange.wall >= paths[path]?.wall ?? .min { paths[path] = (record.exchange.wall, reason, record.responseStatus) }
        }
        routes = Dictionary(snapshot.routeSummaries.map { ($0.name, $0) }) { first, _ in first }
        apis = Dictionary(snapshot.apiSummaries.map { ($0.name, $0) }) { first, _ in first }
        all = snapshot.summary
    }

    /// - Parameters:
    ///   - api: name of the API; empty for a single unnamed API.
    ///   - route: name of the route; empty for paths without a route.
    func before(_ record: WhyRecord, api: String, route: String) -> PreviousNotStored? {
        if let known = paths[Path(record)] {
            return PreviousNotStored(known.reason, of: .path, status: known.status)
        }
        let name = (api.isEmpty ? "" : api + "/") + (route.isEmpty ? "*" : route)
        // The summary of all routes does not apply to a known route.
        if let summary = routes[name] { return Self.most(summary).map { PreviousNotStored($0, of: .route) } }
        if let summary = apis[api] { return Self.most(summary).map { PreviousNotStored($0, of: .api) } }
        return all.flatMap(Self.most).map { PreviousNotStored($0, of: .all) }
    }

    /// The most frequent reason besides the method; nil if most responses were stored.
    private static func most(_ summary: RouteSummary) -> NotStoredReason? {
        let reasons = summary.notStored.lazy.filter { $0.reason != NotStoredReason.methodNotCacheable.rawValue }
        guard let most = reasons.first, let reason = NotStoredReason(rawValue: most.reason) else { return nil }
        return most.count * 2 >= summary.count(of: .miss) + summary.count(of: .bypass) ? reason : nil
    }
}

extension PreviousReasons {
    private static let limit = 50

    /// Collects reasons if any record lacks a stored response.
    /// - Parameter known: recent metrics; nil to collect them.
    static func gather(
        _ records: [WhyRecord], _ task: AdminInterface.Task, _ known: MetricsSnapshot? = nil,
        then: @escaping @Sendable (PreviousReasons) -> Void
    ) {
        let lacking = records.filter(\.lacksCopy)
        guard let first = lacking.first else { return then(PreviousReasons()) }
        guard let known else {
            return task.server.collectMetrics { gather(records, task, $0, then: then) }
        }
        // With several such records, no further search is made.
        guard lacking.count == 1 else { return then(PreviousReasons(records, known)) }
        var search = WhyRing.Search(limit: limit, filter: WhyFilter(prefix: Array(first.path)))
        search.filter.isNotStored = true
        task.server.searchRecords(search) { then(PreviousReasons(records + $0.records, known)) }
    }
}
