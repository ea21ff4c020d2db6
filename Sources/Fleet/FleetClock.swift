// The time that all nodes share: that of the engine that holds the log, as it was asked for. Times of records are told in it, so that clocks
// of nodes may be apart without making anything older or younger.

public struct FleetClock: Hashable, Sendable {
    /// The engine's `TIME`, and our clock when it was asked and when it answered, in milliseconds. Ours never goes back.
    public struct Sample: Hashable, Sendable {
        public var asked: Int64
        public var answered: Int64
        public var engine: Int64

        public init(asked: Int64, answered: Int64, engine: Int64) { (self.asked, self.answered, self.engine) = (asked, answered, engine) }
    }

    public enum Finding: Hashable, Sendable {
        case steady
        /// The engine's clock is another than it was: ages of what was stored before are not to be relied on.
        case jumped
        /// The answer cannot be: nothing was learned.
        case useless
    }

    /// Fleet's time less ours, and by how much it may be wrong.
    private struct Offset: Hashable {
        var difference: Int64
        var error: Int64
        var taken: Int64

        /// Clocks drift: a part in five thousand is more than quartz does.
        func error(at now: Int64) -> Int64 { error + max(0, now - taken) / 5_000 }
    }

    private var offset: Offset?

    /// A jump is more than this beyond what measuring may err by.
    public static let jumpMilliseconds: Int64 = 1_000
    /// A record from further ahead than this is not taken.
    public static let futureMilliseconds: Int64 = 2_000
    /// Times beyond are nonsense: about the year 11000.
    private static let latestTime: Int64 = 1 << 48

    public init() {}

    /// Whether the fleet's time is known at all.
    public var isKnown: Bool { offset != nil }

    public mutating func note(_ sample: Sample) -> Finding {
        let roundTrip = sample.answered - sample.asked
        guard roundTrip >= 0, (0...Self.latestTime).contains(sample.engine) else { return .useless }
        // Rounded up, and one for what the two clocks cut off.
        let new = Offset(
            difference: sample.engine - (sample.asked + roundTrip / 2), error: (roundTrip + 1) / 2 + 1, taken: sample.answered)
        guard let former = offset else {
            offset = new
            return .steady
        }
        let formerError = former.error(at: sample.answered)
        if abs(new.difference - former.difference) > new.error + formerError + Self.jumpMilliseconds {
            offset = new
            return .jumped
        }
        if new.error <= formerError { offset = new }
        return .steady
    }

    // MARK: - Asking

    /// The fleet's time now.
    public func now(_ now: Int64) -> Int64? { offset.map { now + $0.difference } }

    /// By how much it may be wrong; nil: it is not known.
    public func error(_ now: Int64) -> Int64? { offset?.error(at: now) }

    /// Fleet time minus wall clock, less what the measurement explains; nil if unknown.
    /// - Parameters:
    ///   - wallNow: present time of the wall clock; `now` is that of the monotonic clock.
    public func skew(wallNow: Int64, now: Int64) -> Int64? {
        offset.map { offset in
            let (difference, error) = (now + offset.difference - wallNow, offset.error(at: now))
            return difference > 0 ? max(0, difference - error) : min(0, difference + error)
        }
    }

    /// The fleet's time is not later than this now.
    public func latest(_ now: Int64) -> UInt64? {
        offset.map { UInt64(max(0, now + $0.difference + $0.error(at: now))) }
    }

    /// A time of our own wall clock, told to the others.
    /// - Parameters:
    ///   - wallNow: present time of the wall clock; `now` is that of the monotonic clock.
    public func fleetTime(ofWall wall: Int64, wallNow: Int64, now: Int64) -> Int64? {
        self.now(now).map { $0 - max(0, wallNow - wall) }
    }

    /// A time of another's record, by our own wall clock: never later than now.
    /// - Returns: nil where it lies too far ahead, or the fleet's time is not known.
    public func wallTime(ofFleet fleet: Int64, wallNow: Int64, now: Int64) -> Int64? {
        guard let fleetNow = self.now(now), (0...Self.latestTime).contains(fleet) else { return nil }
        let age = fleetNow - fleet
        return age < -Self.futureMilliseconds ? nil : wallNow - max(0, age)
    }
}
