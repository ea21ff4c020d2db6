// Differences of other machines' clocks from this machine's clock, and steps of this clock. Pure: times are arguments, in milliseconds.

/// Difference of an upstream's clock, by the Date fields of its responses. A Date has a resolution of a second and may be older than its
/// response, such as in a cached one. So the smallest difference of the last minutes counts, less what the resolution and the request's
/// duration explain.
public struct ClockSkew: Sendable {
    /// The smallest difference of each minute, by the minute's number. Positive: the upstream's clock is ahead.
    private var smallest: [Int64: Int64] = [:]

    private static let spanMilliseconds: Int64 = 60_000
    /// The current minute, and five complete ones.
    private static let spans: Int64 = 6

    public init() {}

    /// - Parameters:
    ///   - date: Date field, in milliseconds since 1970.
    ///   - received: receipt of the response's head, by this machine's clock.
    ///   - duration: milliseconds from sending the request to receiving the head.
    ///   - now: milliseconds of the monotonic clock.
    public mutating func note(date: Int64, received: Int64, duration: Int64, now: Int64) {
        let (least, most) = (date - received, date + 999 - (received - duration))
        add(least > 0 ? least : most < 0 ? most : 0, at: now / Self.spanMilliseconds)
    }

    private mutating func add(_ difference: Int64, at span: Int64) {
        if let known = smallest[span] {
            if abs(difference) < abs(known) { smallest[span] = difference }
        } else {
            smallest = smallest.filter { $0.key > span - Self.spans }
            smallest[span] = difference
        }
    }

    /// Adds the differences of another event loop.
    mutating func merge(_ other: ClockSkew) { for (span, difference) in other.smallest { add(difference, at: span) } }

    /// Milliseconds; nil if no response of the last five minutes had a usable Date.
    public func latest(now: Int64) -> Int64? {
        let first = now / Self.spanMilliseconds - Self.spans
        return smallest.filter { $0.key > first }.values.min { abs($0) < abs($1) }
    }
}

/// Number of times that the machine's clock was set, or the machine was suspended. Detected by comparison with the monotonic clock.
public struct ClockSteps: Sendable {
    public private(set) var forward: UInt64 = 0
    public private(set) var back: UInt64 = 0
    /// Wall clock minus monotonic clock.
    private var offset: Int64?

    /// Minimum change that counts as a step. Time services make smaller adjustments all the time, and HTTP dates do not show them.
    public static let leastMilliseconds: Int64 = 1_000

    public init() {}

    /// - Returns: the step since the last call; nil if there was none.
    public mutating func note(wall: Int64, monotonic: Int64) -> Int64? {
        let current = wall - monotonic
        defer { offset = current }
        guard let offset, abs(current - offset) >= Self.leastMilliseconds else { return nil }
        if current > offset { forward += 1 } else { back += 1 }
        return current - offset
    }
}
