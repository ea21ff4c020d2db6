// The most frequent paths and the last exchanges for the status page. Gathered from all loops at most every two seconds, so the cost does
// not depend on the number of clients.

import Explanation
import Figures
import Reactor

/// Result that all clients share.
struct RecentActivity: Sendable {
    var tops: [StatusView.Table] = []
    var exchanges: [StatusView.Exchange] = []
}

final class RecentActivityCollector: Sendable {
    typealias Reply = @Sendable (RecentActivity) -> Void

    private struct State {
        var last: (at: Int64, recent: RecentActivity)?
        var waiting: [Reply] = []
    }

    /// Accessed on the interface's queue and the pages' queue.
    private let state = Mutex(State())

    /// Validity in milliseconds, equal to the refresh interval of an open page.
    static let interval: Int64 = 2_000

    /// - Parameter reply: called once, on the interface's queue or the pages' queue.
    func gather(_ task: AdminInterface.Task, _ snapshot: MetricsSnapshot, reply: @escaping Reply) {
        let now = task.server.monotonicMilliseconds
        let (known, isFirst) = state.withLock { state -> (RecentActivity?, Bool) in
            if let last = state.last, now - last.at < Self.interval { return (last.recent, false) }
            state.waiting.append(reply)
            return (nil, state.waiting.count == 1)
        }
        if let known { return reply(known) }
        guard isFirst else { return }
        task.server.searchRecords(WhyRing.Search(limit: StatusPages.recordLimit)) { [self] found in
            task.server.collectTargets { [self] tallies in
                PreviousReasons.gather(found.records, task, snapshot) { [self] earlier in
                    task.interface.later { [self] in finish(StatusPages.recent(task, found.records, tallies, earlier), at: now) }
                }
            }
        }
    }

    private func finish(_ recent: RecentActivity, at now: Int64) {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.last = (now, recent)
            return state.waiting
        }
        for reply in waiting { reply(recent) }
    }
}
