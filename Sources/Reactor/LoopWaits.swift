// How long events waited on one loop. An event that comes while others are being handled waits for the end of their batch, so the length of a
// batch is the longest that anybody waited: one reading of the clock for all of them.

/// How long batches of events took, since the start and lately. Pure: times are passed in, in microseconds.
public struct LoopWaits: Sendable {
    /// One more than the highest power of two that is counted apart: beyond 2^18 µs, a quarter of a second, all is one.
    public static let buckets = 20
    /// How many batches took at most 2^index microseconds, and more than half of that; the last has all longer ones.
    public private(set) var counts = InlineArray<20, UInt64>(repeating: 0)
    /// Of all batches together.
    public private(set) var sum: Int64 = 0

    /// The longest of each of the last few spans of time, by the span's number.
    private var longest = InlineArray<7, Int64>(repeating: 0)
    private var newestSpan: Int64 = 0

    private static let spanMicroseconds: Int64 = 10_000_000

    public init() {}

    /// - Parameter now: of a clock that never goes back.
    public mutating func note(_ duration: Int64, at now: Int64) {
        let duration = max(0, duration)
        // 0 and 1 in the first, 2 in the second, 3 and 4 in the third.
        counts[min(Self.buckets - 1, Int64.bitWidth - max(0, duration - 1).leadingZeroBitCount)] += 1
        sum += duration
        let span = now / Self.spanMicroseconds
        if span != newestSpan { begin(span) }
        let place = Int(span % Int64(longest.count))
        if duration > longest[place] { longest[place] = duration }
    }

    /// The longest within the last minute, or a little more.
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
        // Nothing was noted in the spans between.
        var old = max(newestSpan + 1, span - Int64(longest.count) + 1)
        while old <= span {
            longest[Int(old % Int64(longest.count))] = 0
            old += 1
        }
        newestSpan = span
    }
}
