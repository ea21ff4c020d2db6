// When the log is trimmed by its age. Each entry that is appended trims it on the way; but where the engine is full nothing is appended, and the log, which
// has no end, may be what fills it.

public struct LogTrimming: Hashable, Sendable {
    /// Milliseconds that entries are kept.
    let keep: Int64
    /// How much older than that the first entry has to be (milliseconds). Nodes have different ones: what the first of them trims is due for no other.
    let slack: Int64
    private var last: Int64?
    private var lastFirst: LogPosition?

    /// Milliseconds between two trimmings.
    static let rest: Int64 = 60_000
    /// The same where the last did nothing: the engine lets go of some hundred entries at a time.
    static let longRest: Int64 = 600_000
    /// And where it takes nothing more.
    static let shortRest: Int64 = 1_000

    public init(keep: Int64, node: UInt64) { (self.keep, slack) = (keep, Self.rest + Int64(node % UInt64(Self.rest))) }

    /// The log was looked at.
    /// - Parameters:
    ///   - fleetNow: the fleet's time; nil: it is not known, and nothing is trimmed.
    ///   - now: by a clock that never goes back.
    /// - Returns: before which entries go.
    public mutating func looked(first: LogPosition?, fleetNow: Int64?, now: Int64) -> LogPosition? {
        guard let first, let fleetNow, let oldest = oldest(fleetNow),
            first < LogPosition(oldest.milliseconds).earlier(byMilliseconds: UInt64(slack)),
            isOver(first == lastFirst ? Self.longRest : Self.rest, now)
        else { return nil }
        (last, lastFirst) = (now, first)
        return oldest
    }

    /// The engine is full.
    public mutating func refused(fleetNow: Int64?, now: Int64) -> LogPosition? {
        guard let fleetNow, let oldest = oldest(fleetNow), isOver(Self.shortRest, now) else { return nil }
        last = now
        return oldest
    }

    private func oldest(_ fleetNow: Int64) -> LogPosition? { fleetNow > keep ? LogPosition(UInt64(fleetNow - keep)) : nil }

    private func isOver(_ rest: Int64, _ now: Int64) -> Bool { last.map { now - $0 >= rest } ?? true }
}
