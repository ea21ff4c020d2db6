// A histogram with fixed bounds.

public struct Histogram: Sendable {
    /// Inclusive upper bounds, in increasing order.
    public let bounds: [Int64]
    /// One count for each bound, and one for larger values. Stored inline, so that counting touches no other memory.
    public private(set) var counts = InlineArray<20, UInt64>(repeating: 0)
    private(set) var sum: Int64 = 0

    /// Creates an empty histogram of durations.
    public init() { self.init(bounds: Self.durations) }

    init(bounds: [Int64]) {
        self.bounds = bounds
        precondition(bounds.count < 20, "a histogram has at most 19 bounds")
    }

    /// Bounds in microseconds, from hits to slow upstream responses.
    static let durations: [Int64] = [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000,
        30_000_000, 60_000_000,
    ]
    /// Bounds in seconds, up to a month.
    static let ages: [Int64] = [1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000]

    /// Creates a histogram from counts: one for each bound, and one for larger values.
    public init(bounds: [Int64], counts: [UInt64], sum: Int64) {
        self.init(bounds: bounds)
        precondition(counts.count == bounds.count + 1, "a histogram has a count for each bound and one above")
        for (index, count) in counts.enumerated() { self.counts[index] = count }
        self.sum = sum
    }

    public mutating func observe(_ value: Int64) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
        counts[bucket] += 1
        sum += value
    }

    public mutating func merge(_ other: Histogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }

    /// The bound below which this share of the values lies (0.99: all but one in a hundred); nil if the histogram is empty.
    public func quantile(_ share: Double) -> Int64? {
        let wanted = Double(total) * share
        guard wanted > 0 else { return nil }
        var seen: UInt64 = 0
        for (index, bound) in bounds.enumerated() {
            seen += counts[index]
            if Double(seen) >= wanted { return bound }
        }
        return bounds.last
    }

    public func since(_ earlier: Histogram) -> Histogram {
        var change = self
        for index in counts.indices { change.counts[index] -= min(counts[index], earlier.counts[index]) }
        change.sum -= earlier.sum
        return change
    }

    /// Number of values above a bound.
    /// - Parameter bound: one of the bounds.
    func count(above bound: Int64) -> UInt64 { total - zip(bounds.indices, bounds).reduce(0) { $0 + ($1.1 <= bound ? counts[$1.0] : 0) } }

    public var total: UInt64 { (0...bounds.count).reduce(0) { $0 + counts[$1] } }
}
