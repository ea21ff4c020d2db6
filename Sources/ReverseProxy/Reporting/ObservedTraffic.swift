// The observation of one API's fetches, for `cistern advise`. All shards share it, because the requests for a target are spread over them.

import Advice
import Figures
import HTTPCore
import Reactor

public final class ObservedTraffic: Sendable {
    /// Accessed by all shards at the end of fetches, and on the administrator's queue. The lock is held for about a microsecond.
    private let state: Mutex<TrafficObservation>
    /// Names of the routes, by index.
    private let routes: [String]

    /// - Parameters:
    ///   - limit: maximum number of observed paths. With 0, nothing is observed.
    ///   - former: an observation that is continued for routes that still exist; nil if there is none.
    init?(limit: Int, routes: [String], after former: ObservedTraffic?) {
        guard limit > 0 else { return nil }
        self.routes = routes
        let observation = former.map { former in
            former.state.withLock { state in
                TrafficObservation(limit: limit, after: state) { index in
                    routes.firstIndex(of: former.routes[Int(index)]).map { UInt16(clamping: $0) }
                }
            }
        }
        state = Mutex(observation ?? TrafficObservation(limit: limit))
    }

    func note(_ fetch: ObservedFetch, _ message: ObservedMessage, now: Int64) {
        state.withLock { $0.note(fetch, message, now: now) }
    }

    /// What was observed since a time, in whole hours of the monotonic clock. The paths are read one by one, so that no shard waits long.
    public func summaries(since: Int64, now: Int64) -> [ObservedSummary] {
        (0..<count).compactMap { index in state.withLock { $0.summary(index, since: since, now: now) } }
    }

    /// Number of observed paths.
    public var count: Int { state.withLock { $0.count } }

    /// Adds the counters, but not the number of paths.
    public func addCounts(to figures: inout Figures) {
        let counts = state.withLock { ($0.unknown, $0.rejected, $0.replaced) }
        figures[.unobservedUnknown] += Int(clamping: counts.0)
        figures[.unobservedFull] += Int(clamping: counts.1)
        figures[.observedPathsReplaced] += Int(clamping: counts.2)
    }
}
