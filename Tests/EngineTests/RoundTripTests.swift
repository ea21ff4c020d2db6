// Tests of the smoothed round-trip time.

import Testing

@testable import Engine

@Suite("Round trips")
struct RoundTripTests {
    private static func smoothed(_ times: [Int64]) -> Int64 {
        var trips = RoundTrips()
        for time in times { trips.note(time) }
        return trips.smoothedMicroseconds
    }

    @Test("one slow reply among quick ones means little; slow ones in a row count after some, and are forgotten after some")
    func smoothing() {
        let quick = [Int64](repeating: 200, count: 50)
        #expect(Self.smoothed([]) == 0 && Self.smoothed(quick) <= 200)
        #expect(Self.smoothed(quick + [50_000]) < 10_000)
        let slow = [Int64](repeating: 20_000, count: 8)
        #expect(Self.smoothed(quick + slow) > 10_000 && Self.smoothed(slow) > 10_000)
        #expect(Self.smoothed(quick + slow + quick) < 1_000)
    }

    @Test("no clock and no pause takes it beyond two seconds, nor below nothing", arguments: [Int64.max, Int64.min, -1, 1 << 40])
    func extremes(time: Int64) {
        let smoothed = Self.smoothed([Int64](repeating: time, count: 100))
        #expect((0...2_000_000).contains(smoothed))
    }
}
