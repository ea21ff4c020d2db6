// Counters of an API's routes on one shard, and the routes of recent paths. For plain hits, the route is determined only for these
// counters.

import Explanation
import Figures
import HTTPCore

/// Used on its shard's loop only.
final class RouteRecords {
    private let routes: Routes
    /// By the index of the route.
    private let figures: [RouteFigures]
    /// By a part of the path's hash: the last path with it, and the index of its route.
    private var latest: [(hash: UInt64, route: UInt16)]

    /// Number of remembered paths; a power of two. Other paths are matched against the routes.
    private static let remembered = 4_096

    /// Returns nil if no routes are configured.
    init?(_ routes: Routes, ofAPI api: String, in records: ShardRecords) {
        guard routes.all.count > 1, routes.all.count <= ExchangeRecord.noRoute else { return nil }
        self.routes = routes
        // No route can have this name, because route names are words.
        let names = routes.all.map { $0.name.isEmpty ? "*" : $0.name }
        figures = names.map { records.figures(ofRoute: api.isEmpty ? $0 : "\(api)/\($0)") }
        latest = Array(repeating: (0, UInt16(routes.all.count - 1)), count: Self.remembered)
    }

    /// Returns nil for `ExchangeRecord.noRoute`.
    func figures(of route: UInt16) -> RouteFigures? { route == ExchangeRecord.noRoute ? nil : figures[Int(route)] }

    /// Index of the target's route.
    func index(of target: ArraySlice<UInt8>) -> UInt16 {
        let path = target.withoutQuery
        let hash = ContentHash.number(of: path.span)
        let slot = Int(truncatingIfNeeded: hash) & (Self.remembered - 1)
        if latest[slot].hash == hash { return latest[slot].route }
        let index = UInt16(routes.index(of: path))
        latest[slot] = (hash, index)
        return index
    }
}
