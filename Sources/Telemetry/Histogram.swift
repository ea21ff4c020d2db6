// A histogram with fixed bounds: an array of counts, nothing else.

package struct Histogram: Sendable {
    /// Upper bounds, inclusive, rising.
    let bounds: [Int64]
    /// One for each bound and one for what is above; in place, so that counting touches no other memory.
    private(set) var counts = InlineArray<20, UInt64>(repeating: 0)
    private(set) var sum: Int64 = 0

    init(bounds: [Int64]) {
        self.bounds = bounds
        precondition(bounds.count < 20, "a histogram has at most 19 bounds")
    }

    /// Microseconds: from a hit's tens to an upstream's minute.
    static let durations: [Int64] = [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000,
        30_000_000, 60_000_000,
    ]
    /// Seconds: from the freshest copy to one of a month.
    static let ages: [Int64] = [1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000]

    mutating func observe(_ value: Int64) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
        counts[bucket] += 1
        sum += value
    }

    mutating func merge(_ other: Histogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }

    var total: UInt64 { (0...bounds.count).reduce(0) { $0 + counts[$1] } }
}
