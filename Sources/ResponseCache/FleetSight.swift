// Whether this node sees what the others purge and change. As long as it does not, what it has stored counts as fresh for a short while only.

import CachePolicy
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
    /// Since when nothing is seen, milliseconds by the clock of day; `seeing` where all is. Set by the log's loop, read at each look-up.
    private let since: Atomic<Int64>
    private let start: Timestamp
    /// Whether the log was ever seen by this process.
    private let hasLooked = Atomic(false)

    private static let seeing = Int64.max

    /// A node that has not looked yet is blind. What it finds in its store may have been purged while it was away, however recent it is: until the first
    /// look it is stale.
    /// - Parameter since: when this process began.
    public init(blindLimit: Int64?, afterGap: AfterGap, since: Int64) {
        limit = blindLimit
        self.afterGap = afterGap
        self.since = Atomic(since)
        start = Timestamp(milliseconds: since)
    }

    public var isBlind: Bool { since.load(ordering: .acquiring) != Self.seeing }

    public func see() {
        hasLooked.store(true, ordering: .releasing)
        since.store(Self.seeing, ordering: .releasing)
    }

    /// - Parameter time: of the last look.
    public func lose(at time: Timestamp) {
        _ = since.compareExchange(expected: Self.seeing, desired: min(time.milliseconds, Self.seeing - 1), ordering: .acquiringAndReleasing)
    }

    enum Judgement {
        case counts
        case isStale
        case isGone
    }

    /// What a copy is worth that was stored or confirmed at a time.
    func judge(_ time: Timestamp, now: Timestamp) -> Judgement {
        let since = since.load(ordering: .acquiring)
        guard since != Self.seeing, let limit else { return .counts }
        // A clock that was set back makes nothing fresh.
        let isKnown = hasLooked.load(ordering: .acquiring) || time >= start
        guard time > now || !isKnown || now.milliseconds - time.milliseconds >= limit else { return .counts }
        let isDropped = afterGap == .drop && now.milliseconds - since >= limit && time.milliseconds <= since
        return isDropped ? .isGone : .isStale
    }
}
