// Decides when the log is trimmed by age. Each append trims as well, but a full engine accepts no appends, and the log itself may fill it.

public struct LogTrimming: Hashable, Sendable {
    let keep: Int64
    /// Minimum excess age of the first entry in milliseconds. It differs by node, so that one node trims for all.
    let slack: Int64
    private var last: Int64?
    private var lastFirst: LogPosition?

    static let rest: Int64 = 60_000
    /// Pause in milliseconds after a trimming without effect: the engine removes some hundred entries at a time.
    static let longRest: Int64 = 600_000
    /// Pause in milliseconds while the engine is full.
    static let shortRest: Int64 = 1_000

    public init(keep: Int64, node: UInt64) { (self.keep, slack) = (keep, Self.rest + Int64(node % UInt64(Self.rest))) }

    /// - Parameter fleetNow: the fleet's time; nil if unknown, which disables trimming.
    /// - Returns: position before which entries are removed; nil for no trimming.
    public mutating func noteInfo(first: LogPosition?, fleetNow: Int64?, now: Int64) -> LogPosition? {
        guard let first, let fleetNow, let oldest = oldest(fleetNow),
            first < LogPosition(oldest.milliseconds).earlier(byMilliseconds: UInt64(slack)),
            isOver(first == lastFirst ? Self.longRest : Self.rest, now)
        else { return nil }
        (last, lastFirst) = (now, first)
        return oldest
    }

    public mutating func refused(fleetNow: Int64?, now: Int64) -> LogPosition? {
        guard let fleetNow, let oldest = oldest(fleetNow), isOver(Self.shortRest, now) else { return nil }
        last = now
        return oldest
    }

    private func oldest(_ fleetNow: Int64) -> LogPosition? { fleetNow > keep ? LogPosition(UInt64(fleetNow - keep)) : nil }

    private func isOver(_ rest: Int64, _ now: Int64) -> Bool { last.map { now - $0 >= rest } ?? true }
}

/// Number of entries of one read. A reply beyond the limit ends the connection, so the next read is smaller.
public struct ReadCount: Hashable, Sendable {
    public enum Failure: Hashable, Sendable {
        /// The reply was too long, or could not be parsed.
        case tooMuch
        /// The reply was late, perhaps for other reasons.
        case late
    }

    public private(set) var count = Self.most

    /// Maximum number: half of the longest reply with targets of 8 KiB, which become 33 KiB in a key.
    static let most = 256
    /// Minimum number after late replies: each read costs a round trip.
    static let fewestLate = 32

    public init() {}

    public mutating func failed(_ failure: Failure) {
        switch failure {
        case .tooMuch: count = max(1, count / 2)
        case .late: count = max(min(count, Self.fewestLate), count / 2)
        }
    }

    /// - Parameter isUpToDate: whether the catch-up has ended. The number does not grow during it: otherwise a node that starts again
    ///   after a failure would fail again.
    public mutating func came(isUpToDate: Bool) {
        guard isUpToDate else { return }
        count = min(Self.most, count + max(1, count / 8))
    }
}
