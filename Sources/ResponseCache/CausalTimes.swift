// Ordered wall-clock times of sent requests and of invalidations: a later event has a later time, even if the clock is set back. Otherwise
// a response from before a purge could count as newer than the purge, or nothing could be stored while the clock lags.

import CachePolicy
import Reactor

public final class CausalTimes: Sendable {
    private struct State {
        /// Latest time of requests, and of marks and purges, in milliseconds.
        var request = Int64.min
        var mark = Int64.min
    }

    /// Written by the shards and the administrator's queue.
    private let state = Mutex(State())

    /// Returns the time of a request sent now: later than every invalidation so far.
    public func ofRequest(_ now: Timestamp) -> Timestamp {
        state.withLock { state in
            let time = max(now.milliseconds, state.mark == .min ? .min : state.mark + 1)
            state.request = max(state.request, time)
            return Timestamp(milliseconds: time)
        }
    }

    /// Returns the time of a mark or purge made now: not before any request sent so far.
    func ofMark(_ now: Timestamp) -> Timestamp {
        state.withLock { state in
            let time = max(now.milliseconds, state.request)
            state.mark = max(state.mark, time)
            return Timestamp(milliseconds: time)
        }
    }

    /// Records a request of another process, or of this one before a restart.
    func note(requestAt time: Timestamp) { state.withLock { $0.request = max($0.request, min(time.milliseconds, .max - 1)) } }

    /// Time of the latest request; nil if there was none.
    var latestRequest: Timestamp? {
        state.withLock { $0.request == .min ? nil : Timestamp(milliseconds: $0.request) }
    }

    /// Records a mark of another process, or of this one before a restart.
    func note(markAt time: Timestamp) { state.withLock { $0.mark = max($0.mark, min(time.milliseconds, .max - 1)) } }
}
