// Whether this node sees purges and writes of the other nodes. While it does not, its stored responses count as fresh for a short time
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

    /// Milliseconds for which a response counts as fresh after it was stored or confirmed; nil: for its freshness lifetime.
    private let limit: Int64?
    private let afterGap: AfterGap
    /// Wall-clock time in milliseconds until which the view of the log is valid; each response of the log extends it. A suspended process
    /// therefore cannot trust its view as soon as it resumes. Written by the event loop that reads the log, read by each lookup.
    private let end: Atomic<Int64>
    /// Set when the connection to the log is lost, until it is restored: the wall clock may be set back meanwhile.
    private let isLost = Atomic(false)
    private let start: Timestamp
    /// Whether this process has ever read the log.
    private let hasLooked = Atomic(false)
    /// Written by the event loop that reads the log; read for explanations only.
    private let lastDoubt = Reactor.Mutex<(cause: FleetDoubt, time: Timestamp)?>(nil)

    /// A node that has not read the log yet does not see purges. Responses in its store may have been purged while it was offline, however
    /// recent they are; they are stale until the first read.
    /// - Parameter since: start time of this process in milliseconds.
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

    /// Marks all responses stored until now as doubtful.
    public func doubt(_ cause: FleetDoubt, at time: Timestamp) { lastDoubt.withLock { $0 = (cause, time) } }

    /// Returns why a response stored or confirmed at this time counts as stale; nil if not for this reason.
    func doubt(ofStored time: Timestamp) -> FleetDoubt? {
        lastDoubt.withLock { doubt in doubt.flatMap { time <= $0.time ? $0.cause : nil } }
    }

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

    /// Returns how a response counts that was stored or confirmed at this time.
    func judge(_ time: Timestamp, now: Timestamp) -> Judgement {
        let since = end.load(ordering: .acquiring)
        guard isDisconnected(at: now), let limit else { return .counts }
        // A clock that was set back makes no response fresh.
        let isKnown = hasLooked.load(ordering: .acquiring) || time >= start
        guard time > now || !isKnown || now.milliseconds - time.milliseconds >= limit else { return .counts }
        let isDropped = afterGap == .drop && now.milliseconds - since >= limit && time.milliseconds <= since
        return isDropped ? .isGone : .isStale
    }
}
