// The fleet's time: the clock of the engine that holds the log. Record times use it, because nodes' clocks may differ.

public struct FleetClock: Hashable, Sendable {
    /// The engine's `TIME`, and our monotonic clock when the request was sent and the reply arrived, in milliseconds.
    public struct Sample: Hashable, Sendable {
        public var asked: Int64
        public var answered: Int64
        public var engine: Int64

        public init(asked: Int64, answered: Int64, engine: Int64) { (self.asked, self.answered, self.engine) = (asked, answered, engine) }
    }

    public enum Finding: Hashable, Sendable {
        case steady
        /// The engine's clock was set: ages of stored responses are unreliable.
        case jumped
        case useless
    }

    /// Fleet time minus our monotonic time, and its maximum error, in milliseconds.
    private struct Offset: Hashable {
        var difference: Int64
        var error: Int64
        var taken: Int64

        /// Maximum error at a later time. Clocks drift by less than one part in five thousand.
        func error(at now: Int64) -> Int64 { error + max(0, now - taken) / 5_000 }
    }

    private var offset: Offset?

    /// Minimum change beyond the measurement error that counts as a jump of the engine's clock, in milliseconds.
    public static let jumpMilliseconds: Int64 = 1_000
    /// Maximum time that a record may be ahead, in milliseconds. A record from further ahead is refused.
    public static let futureMilliseconds: Int64 = 2_000
    /// Latest plausible time, about the year 11000.
    private static let latestTime: Int64 = 1 << 48

    public init() {}

    public mutating func note(_ sample: Sample) -> Finding {
        let roundTrip = sample.answered - sample.asked
        guard roundTrip >= 0, (0...Self.latestTime).contains(sample.engine) else { return .useless }
        // Rounded up, plus one millisecond for the truncation of both clocks.
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

    public func now(_ now: Int64) -> Int64? { offset.map { now + $0.difference } }

    /// Maximum error in milliseconds; nil if the fleet's time is unknown.
    public func error(_ now: Int64) -> Int64? { offset?.error(at: now) }

    /// Fleet time minus wall clock in milliseconds, reduced by the measurement error; nil if unknown. `now` is the monotonic clock.
    public func skew(wallNow: Int64, now: Int64) -> Int64? {
        offset.map { offset in
            let (difference, error) = (now + offset.difference - wallNow, offset.error(at: now))
            return difference > 0 ? max(0, difference - error) : min(0, difference + error)
        }
    }

    public func latest(_ now: Int64) -> UInt64? {
        offset.map { UInt64(max(0, now + $0.difference + $0.error(at: now))) }
    }

    public func fleetTime(ofWall wall: Int64, wallNow: Int64, now: Int64) -> Int64? {
        self.now(now).map { $0 - max(0, wallNow - wall) }
    }

    /// Converts a record's time to our wall clock, at most now.
    /// - Returns: nil if the time is too far ahead, or the fleet's time is unknown.
    public func wallTime(ofFleet fleet: Int64, wallNow: Int64, now: Int64) -> Int64? {
        guard let fleetNow = self.now(now), (0...Self.latestTime).contains(fleet) else { return nil }
        let age = fleetNow - fleet
        return age < -Self.futureMilliseconds ? nil : wallNow - max(0, age)
    }
}
