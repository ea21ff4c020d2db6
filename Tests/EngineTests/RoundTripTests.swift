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

    @Test("one slow reply has little effect on the smoothed time; consecutive slow replies raise it, and quick ones lower it")
    func smoothing() {
        let quick = [Int64](repeating: 200, count: 50)
        #expect(Self.smoothed([]) == 0 && Self.smoothed(quick) <= 200)
        #expect(Self.smoothed(quick + [50_000]) < 10_000)
        let slow = [Int64](repeating: 20_000, count: 8)
        #expect(Self.smoothed(quick + slow) > 10_000 && Self.smoothed(slow) > 10_000)
        #expect(Self.smoothed(quick + slow + quick) < 1_000)
    }

    @Test("the smoothed time stays between zero and two seconds for any input", arguments: [Int64.max, Int64.min, -1, 1 << 40])
    func extremes(time: Int64) {
        let smoothed = Self.smoothed([Int64](repeating: time, count: 100))
        #expect((0...2_000_000).contains(smoothed))
    }
}
