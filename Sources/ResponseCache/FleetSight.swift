// Whether this node sees what the others purge and change. As long as it does not, what it has stored counts as fresh for a short while only.

import CachePolicy
import Locking
import Synchronization

public final class FleetSight: Sendable {
    public enum AfterGap: String, Sendable {
        /// What may have been purged meanwhile counts as stale.
        case stale
        /// It goes.
        case drop
    }

    /// Milliseconds for which a copy counts as fresh after it was stored or confirmed; nil: as long as it says itself.
    private let limit: Int64?
    private let afterGap: AfterGap
    /// Until when all is seen, milliseconds by the clock of day: each answer of the log moves it on. So a process, or a machine, that was stopped
    /// and goes on is blind before anything of it has noticed. Set by the log's loop, read at each look-up.
    private let end: Atomic<Int64>
    /// Set when the log is lost, until it is seen again: the clock of day may be set back meanwhile.
    private let isLost = Atomic(false)
    private let start: Timestamp
    /// Whether the log was ever seen by this process.
    private let hasLooked = Atomic(false)
    /// Set by the log's loop; asked where what is stored counts as stale, for explanations only.
    private let lastDoubt = Locking.Mutex<(cause: FleetDoubt, time: Timestamp)?>(nil)

    /// A node that has not looked yet is blind. What it finds in its store may have been purged while it was away, however recent it is: until the first
    /// look it is stale.
    /// - Parameter since: when this process began.
    public init(blindLimit: Int64?, afterGap: AfterGap, since: Int64) {
        limit = blindLimit
        self.afterGap = afterGap
        end = Atomic(since)
        start = Timestamp(milliseconds: since)
    }

    public func isBlind(at now: Timestamp) -> Bool {
        now.milliseconds >= end.load(ordering: .acquiring) || isLost.load(ordering: .acquiring)
    }

    /// - Parameter time: until when the last look counts.
    public func see(until time: Timestamp) {
        hasLooked.store(true, ordering: .releasing)
        end.store(time.milliseconds, ordering: .releasing)
        isLost.store(false, ordering: .releasing)
    }

    /// - Parameter time: of the last look.
    public func lose(at time: Timestamp) {
        end.store(min(time.milliseconds, end.load(ordering: .relaxed)), ordering: .releasing)
        isLost.store(true, ordering: .releasing)
    }

    /// From now on all that is stored counts as stale.
    public func doubt(_ cause: FleetDoubt, at time: Timestamp) { lastDoubt.withLock { $0 = (cause, time) } }

    /// Why what was stored or confirmed at a time counts as stale; nil where it does not for that.
    func doubt(ofStored time: Timestamp) -> FleetDoubt? {
        lastDoubt.withLock { doubt in doubt.flatMap { time <= $0.time ? $0.cause : nil } }
    }

    enum Judgement {
        case counts
        case isStale
        case isGone
    }

    /// Whether what was found is worth what it was.
    /// - Parameter time: when it was stored or confirmed; nil where nothing was found.
    func holds(_ time: Timestamp?, now: Timestamp) -> Bool {
        guard isBlind(at: now) else { return true }
        return time.map { judge($0, now: now) == .counts } ?? false
    }

    /// What a copy is worth that was stored or confirmed at a time.
    func judge(_ time: Timestamp, now: Timestamp) -> Judgement {
        let since = end.load(ordering: .acquiring)
        guard isBlind(at: now), let limit else { return .counts }
        // A clock that was set back makes nothing fresh.
        let isKnown = hasLooked.load(ordering: .acquiring) || time >= start
        guard time > now || !isKnown || now.milliseconds - time.milliseconds >= limit else { return .counts }
        let isDropped = afterGap == .drop && now.milliseconds - since >= limit && time.milliseconds <= since
        return isDropped ? .isGone : .isStale
    }
}
