// Whether this node receives purges and writes of the other nodes. While it does not, its stored responses count as fresh for a short time
// only.

import CachePolicy
import Reactor
import Synchronization

public final class FleetLogLink: Sendable {
    public enum AfterGap: String, Sendable, CaseIterable {
        /// Responses that may have been purged meanwhile count as stale.
        case stale
        /// Responses that may have been purged meanwhile are dropped.
        case drop
    }

    /// Maximum milliseconds that a response counts as fresh after it was stored or confirmed while disconnected; nil: its freshness
    /// lifetime.
    private let limit: Int64?
    private let afterGap: AfterGap
    /// Wall-clock time in milliseconds until which the connection counts as live; each reply of the log extends it. A suspended process
    /// therefore does not count as connected when it resumes. Written by the event loop that reads the log, read by each lookup.
    private let end: Atomic<Int64>
    /// Set when the connection to the log is lost, until it is restored: the wall clock may be set back meanwhile.
    private let isLost = Atomic(false)
    private let start: Timestamp
    /// Whether this process has ever read the log.
    private let hasLooked = Atomic(false)
    /// Written by the event loop that reads the log; read for explanations only.
    private let lastDoubt = Reactor.Mutex<(cause: FleetDoubt, time: Timestamp)?>(nil)

    /// - Parameters:
    ///   - since: start time of this process in milliseconds. Responses stored earlier are stale until the log is first read: they may
    ///     have been purged while the node was offline.
    public init(blindLimit: Int64?, afterGap: AfterGap, since: Int64) {
        limit = blindLimit
        self.afterGap = afterGap
        end = Atomic(since)
        start = Timestamp(milliseconds: since)
    }

    public func isDisconnected(at now: Timestamp) -> Bool {
        now.milliseconds >= end.load(ordering: .acquiring) || isLost.load(ordering: .acquiring)
    }

    /// - Parameter time: time until which the last read of the log is valid.
    public func see(until time: Timestamp) {
        hasLooked.store(true, ordering: .releasing)
        end.store(time.milliseconds, ordering: .releasing)
        isLost.store(false, ordering: .releasing)
    }

    /// - Parameter time: time of the last read.
    public func lose(at time: Timestamp) {
        end.store(min(time.milliseconds, end.load(ordering: .relaxed)), ordering: .releasing)
        isLost.store(true, ordering: .releasing)
    }

    /// Marks all responses stored until `time` as doubtful.
    public func doubt(_ cause: FleetDoubt, at time: Timestamp) { lastDoubt.withLock { $0 = (cause, time) } }

    /// Returns why a response stored or confirmed at this time counts as stale; nil if not for this reason.
    func doubt(ofStored time: Timestamp) -> FleetDoubt? {
        lastDoubt.withLock { doubt in doubt.flatMap { time <= $0.time ? $0.cause : nil } }
    }

    /// Returns the start of the present period in which the log is not read, in milliseconds; nil while it is read, and for `limit` after
    /// that. Each period has the length of `limit`.
    public func blindPeriod(at now: Timestamp) -> Int64? {
        guard isDisconnected(at: now), let limit else { return nil }
        let (since, length) = (end.load(ordering: .acquiring), max(limit, Self.leastPeriod))
        let passed = now.milliseconds - since
        // After the clock was set back, this is negative.
        guard !(0..<length).contains(passed) else { return nil }
        return since + passed - (passed % length + length) % length
    }

    /// Milliseconds. The start of a period visits all look-up results.
    private static let leastPeriod: Int64 = 1_000

    enum Judgement {
        case counts
        case isStale
        case isGone
    }

    /// Returns whether an earlier result is still valid.
    /// - Parameter time: when the response was stored or confirmed; nil if none was found.
    func holds(_ time: Timestamp?, now: Timestamp) -> Bool {
        guard isDisconnected(at: now) else { return true }
        return time.map { judge($0, now: now) == .counts } ?? false
    }

    /// Returns whether a response that was stored or confirmed at this time is usable, stale or dropped.
    func judge(_ time: Timestamp, now: Timestamp) -> Judgement {
        let since = end.load(ordering: .acquiring)
        guard isDisconnected(at: now), let limit else { return .counts }
        // After the clock was set back, no response counts as fresh.
        let isKnown = hasLooked.load(ordering: .acquiring) || time >= start
        guard time > now || !isKnown || now.milliseconds - time.milliseconds >= limit else { return .counts }
        let isDropped = afterGap == .drop && now.milliseconds - since >= limit && time.milliseconds <= since
        return isDropped ? .isGone : .isStale
    }
}
