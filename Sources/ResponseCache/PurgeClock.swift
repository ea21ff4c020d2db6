// Time of the last purge. Responses requested earlier are not stored, because they may be purged responses that were in flight. This also
// excludes unrelated responses in flight, which does little harm.

import CachePolicy
import Reactor

final class PurgeClock: Sendable {
    /// Written by the administrator's queue, read by the shards when they store.
    private let last = Mutex<Int64>(.min)

    func purged(at time: Timestamp) { last.withLock { $0 = max($0, time.milliseconds) } }

    func isOvertaken(_ requestTime: Timestamp) -> Bool { last.withLock { requestTime.milliseconds <= $0 } }
}
