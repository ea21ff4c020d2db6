// What is counted of an API's routes on one shard, and which route a plain hit belongs to: nothing else of such a hit asks for that.

import Explanation
import HTTPCore
import Hashing
import Telemetry

/// Touched on its shard's loop only.
final class RouteRecords {
    private let routes: Routes
    /// At the routes' places.
    private let figures: [RouteFigures]
    /// By parts of paths' hashes: which path came last there, and the place of its route.
    private var latest: [(hash: UInt64, route: UInt16)]

    /// A power of two. Popular paths come again; the others cost a walk along the routes.
    private static let remembered = 4_096

    /// nil where nobody has divided the paths.
    init?(_ routes: Routes, ofAPI api: String, in records: ShardRecords) {
        guard routes.all.count > 1, routes.all.count <= ExchangeTrace.noRoute else { return nil }
        self.routes = routes
        // No route is called so: names are words.
        let names = routes.all.map { $0.name.isEmpty ? "*" : $0.name }
        figures = names.map { records.figures(ofRoute: api.isEmpty ? $0 : "\(api)/\($0)") }
        latest = Array(repeating: (0, UInt16(routes.all.count - 1)), count: Self.remembered)
    }

    /// nil where no route is known: nothing was done with the request.
    func figures(of route: UInt16) -> RouteFigures? { route == ExchangeTrace.noRoute ? nil : figures[Int(route)] }

    /// The place of this target's route.
    func place(of target: ArraySlice<UInt8>) -> UInt16 {
        let path = target.withoutQuery
        let hash = path.withUnsafeBytes { ContentHash.number(of: $0) }
        let slot = Int(truncatingIfNeeded: hash) & (Self.remembered - 1)
        if latest[slot].hash == hash { return latest[slot].route }
        let place = UInt16(routes.place(of: path))
        latest[slot] = (hash, place)
        return place
    }
}
