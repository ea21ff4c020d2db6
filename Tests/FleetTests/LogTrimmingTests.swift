// Tests when the log is trimmed.

import Testing

@testable import Fleet

@Suite("Trimming the fleet log by age")
struct LogTrimmingTests {
    private static let keep: Int64 = 1_000_000

    private func trimming(node: UInt64 = 0) -> LogTrimming { LogTrimming(keep: Self.keep, node: node) }

    @Test(
        "the log is trimmed once its first entry is a minute older than the retention time",
        arguments: [
            (first: nil, now: 5_000_000, expected: nil), (first: 3_940_000, now: 5_000_000, expected: nil),
            (first: 3_939_999, now: 5_000_000, expected: 4_000_000), (first: 0, now: 1_000_000, expected: nil),
            (first: 0, now: 1_060_001, expected: 60_001), (first: 0, now: nil, expected: nil), (first: 0, now: -5, expected: nil),
        ] as [(first: UInt64?, now: Int64?, expected: UInt64?)])
    func due(first: UInt64?, now: Int64?, expected: UInt64?) {
        var trimming = trimming()
        #expect(trimming.noteInfo(first: first.map { LogPosition($0) }, fleetNow: now, now: 0) == expected.map { LogPosition($0) })
    }

    @Test("nodes use different delays, so that one of them trims for all")
    func differentDelays() {
        var (one, other) = (trimming(node: 10), trimming(node: 20_000))
        #expect(one.noteInfo(first: LogPosition(3_939_000), fleetNow: 5_000_000, now: 0) != nil)
        #expect(other.noteInfo(first: LogPosition(3_939_000), fleetNow: 5_000_000, now: 0) == nil)
        #expect(trimming(node: .max).slack < 120_000)
    }

    @Test("trimming runs at most once a minute, and every ten minutes after it removed nothing")
    func rests() {
        var trimming = trimming()
        let oldest = LogPosition(4_000_000)
        #expect(trimming.noteInfo(first: LogPosition(1), fleetNow: 5_000_000, now: 0) == oldest)
        #expect(trimming.noteInfo(first: LogPosition(2), fleetNow: 5_000_000, now: 59_999) == nil)
        #expect(trimming.noteInfo(first: LogPosition(2), fleetNow: 5_000_000, now: 60_000) == oldest)
        #expect(trimming.noteInfo(first: LogPosition(2), fleetNow: 5_000_000, now: 659_999) == nil)
        #expect(trimming.noteInfo(first: LogPosition(2), fleetNow: 5_000_000, now: 660_000) == oldest)
    }

    @Test("a full Redis server triggers trimming at once, and then at most once a second")
    func full() {
        var trimming = trimming()
        #expect(trimming.refused(fleetNow: nil, now: 0) == nil)
        #expect(trimming.refused(fleetNow: 900_000, now: 0) == nil)
        #expect(trimming.refused(fleetNow: 5_000_000, now: 0) == LogPosition(4_000_000))
        #expect(trimming.refused(fleetNow: 5_000_000, now: 999) == nil)
        #expect(trimming.refused(fleetNow: 5_001_000, now: 1_000) == LogPosition(4_001_000))
    }
}
