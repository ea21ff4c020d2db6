// Refresh-ahead: decides which hits start a background fetch, because their target is requested often and its freshness lifetime is nearly
// over.

import CachePolicy

/// Counts the hits of one shard.
struct RefreshAhead {
    private let routes: Routes
    /// By key: number of hits, and the end of the freshness lifetime in milliseconds, when the count restarts.
    private var hits: [[UInt8]: (count: Int, until: Int64)] = [:]

    /// Maximum number of counted targets. At the limit, all counts are discarded.
    private static let limit = 10_000

    /// Returns nil if no route refreshes ahead.
    init?(_ routes: Routes) {
        guard routes.all.contains(where: { $0.refreshAhead > 0 }) else { return nil }
        self.routes = routes
    }

    /// Whether the target's route counts hits.
    func counts(_ target: ArraySlice<UInt8>) -> Bool { routes.all[routes.index(of: target)].refreshAhead > 0 }

    /// Counts a fresh hit, and returns whether a refresh is due.
    /// - Parameters:
    ///   - key: key of the stored response.
    ///   - route: index of the route.
    ///   - ttl: remaining freshness lifetime in seconds.
    ///   - lifetime: freshness lifetime in seconds.
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
