// Times of day of requests that are sent and of what makes their responses invalid: whatever the clock does, what came later has the later time. Else a
// clock that is set back would let a response from before a purge count as one from behind it, or, for as long as it lags, nothing be stored.

import CachePolicy
import Locking

final class CausalTimes: Sendable {
    private struct State {
        /// The latest of requests, and of marks and purges: milliseconds.
        var request = Int64.min
        var mark = Int64.min
    }

    /// Set by the shards and by the administrator's queue.
    private let state = Mutex(State())

    /// Of a request that is sent now: behind all that has made something invalid.
    func ofRequest(_ now: Timestamp) -> Timestamp {
        state.withLock { state in
            let time = max(now.milliseconds, state.mark == .min ? .min : state.mark + 1)
            state.request = max(state.request, time)
            return Timestamp(milliseconds: time)
        }
    }

    /// Of a mark or a purge that is made now: not before any request that was sent.
    func ofMark(_ now: Timestamp) -> Timestamp {
        state.withLock { state in
            let time = max(now.milliseconds, state.request)
            state.mark = max(state.mark, time)
            return Timestamp(milliseconds: time)
        }
    }

    /// A request of another process, or of this one before a restart.
    func note(requestAt time: Timestamp) { state.withLock { $0.request = max($0.request, min(time.milliseconds, .max - 1)) } }

    /// That of the latest request; nil where there was none.
    var latestRequest: Timestamp? {
        state.withLock { $0.request == .min ? nil : Timestamp(milliseconds: $0.request) }
    }

    /// A mark that was made by another process, or by this one before a restart.
    func note(markAt time: Timestamp) { state.withLock { $0.mark = max($0.mark, min(time.milliseconds, .max - 1)) } }
}
