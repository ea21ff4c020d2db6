// How long events waited on one loop. An event that arrives during a batch waits for the end of that batch. The duration of a batch is
// therefore the maximum wait, measured with one reading of the clock.

/// Durations of batches of events, since the start and recently. Pure: times are arguments, in microseconds.
public struct LoopWaits: Sendable {
    /// Number of histogram buckets. The last one counts all durations above 2^18 µs, a quarter of a second.
    public static let buckets = 20
    /// Number of batches that took at most 2^index microseconds, and more than half of that. The last one counts all longer batches.
    public private(set) var counts = InlineArray<20, UInt64>(repeating: 0)
    /// Total duration of all batches.
    public private(set) var sum: Int64 = 0

    /// Maximum duration in each of the last few time spans, by the span's number.
    private var longest = InlineArray<7, Int64>(repeating: 0)
    private var newestSpan: Int64 = 0

    private static let spanMicroseconds: Int64 = 10_000_000

    public init() {}

    /// - Parameter now: time of a monotonic clock.
    public mutating func note(_ duration: Int64, at now: Int64) {
        let duration = max(0, duration)
        // 0 and 1 are in the first bucket, 2 in the second, 3 and 4 in the third.
        counts[min(Self.buckets - 1, Int64.bitWidth - max(0, duration - 1).leadingZeroBitCount)] += 1
        sum += duration
        let span = now / Self.spanMicroseconds
        if span != newestSpan { begin(span) }
        let index = Int(span % Int64(longest.count))
        if duration > longest[index] { longest[index] = duration }
    }

    /// The maximum duration within the last minute, or slightly more.
    public func longestLately(now: Int64) -> Int64 {
        var most: Int64 = 0
        let span = now / Self.spanMicroseconds
        for back in 0..<Int64(longest.count) {
            let wanted = span - back
            if wanted >= 0, wanted <= newestSpan, wanted > newestSpan - Int64(longest.count) {
                most = max(most, longest[Int(wanted % Int64(longest.count))])
            }
        }
        return most
    }

    private mutating func begin(_ span: Int64) {
        // No batches ended in the spans between.
        var old = max(newestSpan + 1, span - Int64(longest.count) + 1)
        while old <= span {
            longest[Int(old % Int64(longest.count))] = 0
            old += 1
        }
        newestSpan = span
    }
}
