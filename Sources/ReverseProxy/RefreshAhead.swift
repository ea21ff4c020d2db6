// Which hits bring a new response before the stored one is stale: those of targets that are asked for often and have little freshness left.

import CachePolicy

/// Belongs to one shard, which counts its own hits.
struct RefreshAhead {
    private let routes: Routes
    /// By key: hits, and the time at which their freshness ends, after which they count no more.
    private var hits: [[UInt8]: (count: Int, until: Int64)] = [:]

    /// Targets counted at once; beyond it the counts begin anew.
    private static let limit = 10_000

    /// nil where no route asks for it.
    init?(_ routes: Routes) {
        guard routes.all.contains(where: { $0.refreshAhead > 0 }) else { return nil }
        self.routes = routes
    }

    /// Whether the target's route counts hits.
    func counts(_ target: ArraySlice<UInt8>) -> Bool { routes.all[routes.place(of: target)].refreshAhead > 0 }

    /// Counts one fresh hit.
    /// - Parameters:
    ///   - key: of what was hit.
    ///   - route: the place of its route.
    ///   - ttl: seconds of freshness left.
    ///   - lifetime: seconds of freshness in all.
    mutating func isDue(_ key: [UInt8], route: Int, ttl: Int64, lifetime: Int64, now: Timestamp) -> Bool {
        let route = routes.all[route]
        guard route.refreshAhead > 0 else { return false }
        var entry = hits[key] ?? (0, 0)
        if entry.until <= now.milliseconds {
            if hits.count >= Self.limit { hits = [:] }
            entry = (0, now.milliseconds + ttl * 1000)
        }
        entry.count += 1
        hits[key] = entry
        return entry.count >= route.refreshAheadHits && ttl * 100 < lifetime * Int64(route.refreshAhead)
    }
}
