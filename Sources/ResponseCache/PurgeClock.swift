// When something was purged last. What was asked for before that may be what was purged, so it is not stored: a fetch that was under way
// must not bring back what an administrator has just taken out. That other responses of these moments are not stored either costs little.

import CachePolicy
import Locking

final class PurgeClock: Sendable {
    /// Set by the administrator's queue, read by the shards when they store.
    private let last = Mutex<Int64>(.min)

    func purged(at time: Timestamp) { last.withLock { $0 = max($0, time.milliseconds) } }

    func isOvertaken(_ requestTime: Timestamp) -> Bool { last.withLock { requestTime.milliseconds <= $0 } }
}
