// The observation of one API's fetches, for `cistern advise`. All shards share it, because the requests for a target are spread over them.

import Advice
import Figures
import HTTPCore
import Reactor

public final class ObservedTraffic: Sendable {
    /// Accessed by all shards at the end of fetches, and on the administrator's queue. The lock is held for about a microsecond, with
    /// new data for some more.
    private let state: Mutex<TrafficObservation>
    private let routes: Routes

    /// - Parameters:
    ///   - limit: maximum number of observed paths. With 0, nothing is observed.
    ///   - former: observation to continue for paths with an unchanged route; nil if there is none.
    init?(limit: Int, routes: Routes, after former: ObservedTraffic?) {
        guard limit > 0 else { return nil }
        self.routes = routes
        let observation = former.map { former in
            former.state.withLock { state in
                TrafficObservation(limit: limit, after: state) { index, template in
                    let (before, now) = (former.routes.all[Int(index)], routes.index(of: template[...]))
                    let isSame =
                        before.name == routes.all[now].name && before.freshness == routes.all[now].freshness
                        && before.arguments == routes.all[now].arguments
                    return isSame ? UInt16(clamping: now) : nil
                }
            }
        }
        state = Mutex(observation ?? TrafficObservation(limit: limit))
    }

    /// - Parameter message: evaluated for new data.
    func note(_ fetch: ObservedFetch, _ target: ArraySlice<UInt8>, _ message: @autoclosure () -> ObservedMessage, now: Int64) {
        state.withLock { $0.note(fetch, target, message, now: now) }
    }

    /// Returns the observation since a time, in whole hours of the monotonic clock. The paths are read one by one, so that no shard waits long.
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
