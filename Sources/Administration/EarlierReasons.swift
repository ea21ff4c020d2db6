// Why what came earlier was not kept, by path, route and API: for exchanges that failed since nothing is stored.

import CachePolicy
import Explanation
import Telemetry

struct EarlierReasons: Sendable {
    private struct Path: Hashable {
        let api: UInt16
        let path: ArraySlice<UInt8>
    }

    /// What came last.
    private var paths: [Path: (wall: Int64, reason: NotStoredReason, status: UInt16)] = [:]
    private var routes: [String: RouteSummary] = [:]
    private var apis: [String: RouteSummary] = [:]
    private var all: RouteSummary?

    /// Of what nobody asks for.
    init() {}

    /// - Parameter records: exchanges among which there may be some that tell.
    init(_ records: [WhyRecord], _ snapshot: MetricsSnapshot) {
        for record in records {
            guard let reason = record.reasonNotStored else { continue }
            let path = Path(api: record.trace.api, path: record.path)
            if record.trace.wall >= paths[path]?.wall ?? .min { paths[path] = (record.trace.wall, reason, record.responseStatus) }
        }
        routes = Dictionary(snapshot.routeSummaries.map { ($0.name, $0) }) { first, _ in first }
        apis = Dictionary(snapshot.apiSummaries.map { ($0.name, $0) }) { first, _ in first }
        all = snapshot.summary
    }

    /// - Parameters:
    ///   - api: its name, empty for the only one.
    ///   - route: its name, empty for paths that no route is for.
    func before(_ record: WhyRecord, api: String, route: String) -> NotStoredBefore? {
        if let known = paths[Path(api: record.trace.api, path: record.path)] {
            return NotStoredBefore(known.reason, of: .path, status: known.status)
        }
        let name = (api.isEmpty ? "" : api + "/") + (route.isEmpty ? "*" : route)
        // What holds for all routes together says nothing of this one.
        if let summary = routes[name] { return Self.most(summary).map { NotStoredBefore($0, of: .route) } }
        if let summary = apis[api] { return Self.most(summary).map { NotStoredBefore($0, of: .api) } }
        return all.flatMap(Self.most).map { NotStoredBefore($0, of: .all) }
    }

    /// nil where most of what came was kept.
    private static func most(_ summary: RouteSummary) -> NotStoredReason? {
        guard let most = summary.notStored.first, let reason = NotStoredReason(rawValue: most.reason) else { return nil }
        return most.count * 2 >= summary.count(of: .miss) + summary.count(of: .bypass) ? reason : nil
    }
}

extension EarlierReasons {
    private static let limit = 50

    /// Gathers what there is to tell, where one of these has something to be told.
    /// - Parameter known: what was counted a moment ago; nil: it is collected.
    static func gather(
        _ records: [WhyRecord], _ task: AdminInterface.Task, _ known: MetricsSnapshot? = nil,
        then: @escaping @Sendable (EarlierReasons) -> Void
    ) {
        let lacking = records.filter(\.lacksCopy)
        guard let first = lacking.first else { return then(EarlierReasons()) }
        guard let known else {
            return task.server.collectMetrics { gather(records, task, $0, then: then) }
        }
        // Of many only what is there already is gone through.
        guard lacking.count == 1 else { return then(EarlierReasons(records, known)) }
        var search = WhyRing.Search(limit: limit, filter: WhyFilter(prefix: Array(first.path)))
        search.filter.isNotStored = true
        task.server.searchRecords(search) { then(EarlierReasons(records + $0.records, known)) }
    }
}
