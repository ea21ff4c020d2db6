// Counts of the fetches of a path in a span of time.

import CachePolicy

public struct ObservedCounts: Sendable {
    /// Milliseconds of the monotonic clock at the first and the last fetch.
    public var firstAt: Int64 = .max
    public var lastAt: Int64 = .min
    /// Fetches that the upstream answered, or failed to answer.
    public var requests: UInt32 = 0
    /// Good responses for targets whose data is followed; `effects` and changes cover these only.
    public var followed: UInt32 = 0
    /// Good responses with the data of the one before, and with other data.
    public var unchanged: UInt32 = 0
    public var changed: UInt32 = 0
    /// Shortest time in milliseconds between two changes of one target; `.max` if none changed twice.
    public var shortestChange: Int64 = .max
    /// Good responses that state their freshness themselves.
    public var stated: UInt32 = 0
    /// Good responses in a partition of one user.
    public var partitioned: UInt32 = 0
    /// By the index of the candidate.
    var simulated = FreshnessEffects()
    /// Times to the first byte; see `waitBounds`.
    public var waits = Array(repeating: UInt32(0), count: ObservedCounts.waitBounds.count + 1)
    /// 404 and 410 that could be stored, and those that followed another one for the target within `repeatedWithin`.
    public var missing: UInt32 = 0
    public var missingAgain: UInt32 = 0
    /// By the index of the cause in `MetricNames.rescueCauses`.
    public var failures: [UInt8: UInt32] = [:]
    public var unstored: [NotStoredReason: UInt32] = [:]

    public init() {}

    /// By the index of the candidate.
    public var effects: [FreshnessEffect] {
        get { FreshnessCandidates.seconds.indices.map { simulated[$0] } }
        set { for index in newValue.indices { simulated[index] = newValue[index] } }
    }

    /// Upper bounds of `waits` in milliseconds, two for each power of two.
    public static let waitBounds: [Int64] = [1] + (1..<17).flatMap { [Int64(1) << $0, Int64(3) << ($0 - 1)] }
    /// Milliseconds.
    public static let repeatedWithin: Int64 = 10_000

    /// Index in `waits`. A wait that equals a bound is below it.
    static func index(ofWait milliseconds: Int64) -> Int {
        guard milliseconds > 1 else { return 0 }
        let power = Int64.bitWidth - 1 - (milliseconds - 1).leadingZeroBitCount
        let isAboveHalf = power > 0 && milliseconds > Int64(3) << (power - 1)
        return min(power * 2 + (power == 0 || isAboveHalf ? 1 : 0), waitBounds.count)
    }

    mutating func noteRequest(at now: Int64, firstByte: Int64) {
        requests &+= 1
        (firstAt, lastAt) = (min(firstAt, now), max(lastAt, now))
        if firstByte >= 0 { waits[Self.index(ofWait: firstByte / 1_000)] &+= 1 }
    }

    public mutating func add(_ other: ObservedCounts) {
        (firstAt, lastAt) = (min(firstAt, other.firstAt), max(lastAt, other.lastAt))
        requests &+= other.requests
        followed &+= other.followed
        unchanged &+= other.unchanged
        changed &+= other.changed
        shortestChange = min(shortestChange, other.shortestChange)
        stated &+= other.stated
        partitioned &+= other.partitioned
        missing &+= other.missing
        missingAgain &+= other.missingAgain
        simulated.add(other.simulated)
        for index in waits.indices { waits[index] &+= other.waits[index] }
        failures.merge(other.failures, uniquingKeysWith: &+)
        unstored.merge(other.unstored, uniquingKeysWith: &+)
    }

    /// Milliseconds between the first and the last fetch.
    public var span: Int64 { max(0, lastAt &- firstAt) }

    /// Upper bound in milliseconds of a quantile of the times to the first byte; nil if none was measured.
    public func wait(_ quantile: Double) -> Int64? {
        let total = waits.reduce(0) { $0 + UInt64($1) }
        guard total > 0 else { return nil }
        var left = UInt64((Double(total) * quantile).rounded(.up))
        for (index, count) in waits.enumerated() {
            if UInt64(count) >= left { return index < Self.waitBounds.count ? Self.waitBounds[index] : Self.waitBounds[index - 1] * 2 }
            left -= UInt64(count)
        }
        return nil
    }

    /// Number of fetches with a longer time to the first byte, as far as the bounds show.
    public func waits(above milliseconds: Int64) -> UInt64 {
        zip(waits.indices, waits).reduce(0) { sum, one in
            let lower = one.0 == 0 ? 0 : Self.waitBounds[one.0 - 1]
            return lower >= milliseconds ? sum + UInt64(one.1) : sum
        }
    }
}
