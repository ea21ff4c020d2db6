// How far the clocks of others differ from this machine's, and how often this machine's was set. Pure: times are passed in, in milliseconds.

/// The difference of an upstream's clock, by the Date fields of its responses. A Date may be late, such as that of a cached response, and never
/// says more than a second: so the smallest difference of the last minutes counts, and what a second and the request's duration explain is none.
public struct ClockSkew: Sendable {
    /// The smallest difference of each minute, by the minute's number. Positive: the upstream's clock is ahead.
    private var smallest: [Int64: Int64] = [:]

    private static let spanMilliseconds: Int64 = 60_000
    /// The minute that is filled, and five whole ones.
    private static let spans: Int64 = 6

    public init() {}

    /// - Parameters:
    ///   - date: the Date field, in milliseconds since 1970.
    ///   - received: when the response's head came, by this machine's clock.
    ///   - duration: milliseconds from the request's sending until then.
    ///   - now: of the clock that is never set.
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

    /// Of another event loop.
    mutating func merge(_ other: ClockSkew) { for (span, difference) in other.smallest { add(difference, at: span) } }

    /// Milliseconds; nil: no response in the last five minutes told.
    public func latest(now: Int64) -> Int64? {
        let first = now / Self.spanMilliseconds - Self.spans
        return smallest.filter { $0.key > first }.values.min { abs($0) < abs($1) }
    }
}

/// How often the machine's clock was set, or stood still with the machine: seen where it moves otherwise than the clock that is never set.
public struct ClockSteps: Sendable {
    public private(set) var forward: UInt64 = 0
    public private(set) var back: UInt64 = 0
    /// The clock less that which is never set.
    private var offset: Int64?

    /// A smaller change is no step: clocks are adjusted in small ones all the time, and no HTTP date shows them.
    public static let leastMilliseconds: Int64 = 1_000

    public init() {}

    /// - Returns: by how much the clock was set since the last time; nil: it was not.
    public mutating func note(wall: Int64, monotonic: Int64) -> Int64? {
        let current = wall - monotonic
        defer { offset = current }
        guard let offset, abs(current - offset) >= Self.leastMilliseconds else { return nil }
        if current > offset { forward += 1 } else { back += 1 }
        return current - offset
    }
}
