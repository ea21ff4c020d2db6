// Time of the last purge. Responses requested earlier may have been purged and are not stored, so that a fetch in flight does not restore
// them. It costs little that unrelated responses in flight are not stored either.

import CachePolicy
import Reactor

final class PurgeClock: Sendable {
    /// Written by the administrator's queue, read by the shards when they store.
    private let last = Mutex<Int64>(.min)

    func purged(at time: Timestamp) { last.withLock { $0 = max($0, time.milliseconds) } }

    func isOvertaken(_ requestTime: Timestamp) -> Bool { last.withLock { requestTime.milliseconds <= $0 } }
}
