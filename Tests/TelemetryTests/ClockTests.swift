// Detection of clock differences and clock steps, with random delays, caches and adjustments. Also the use of limits.

import TestSupport
import Testing

@testable import Telemetry

@Suite("Clocks")
struct ClockTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Date, receipt and duration of each response, a minute apart; milliseconds.
        let responses: [(date: Int64, received: Int64, duration: Int64)]
        let expected: Int64?
    }

    @Test(
        "the smallest difference of the last minutes counts, and what a second and the duration explain is none",
        arguments: [
            Row(testDescription: "no response", responses: [], expected: nil),
            Row(testDescription: "in the same second", responses: [(5_000, 5_900, 10)], expected: 0),
            Row(testDescription: "one that took long", responses: [(5_000, 9_000, 3_500)], expected: 0),
            Row(testDescription: "ahead", responses: [(20_000, 5_900, 10)], expected: 14_100),
            Row(testDescription: "behind", responses: [(5_000, 20_000, 10)], expected: -13_991),
            Row(
                testDescription: "a cached response among others", responses: [(0, 600_000, 10), (655_000, 660_000, 10)], expected: -3_991),
            Row(testDescription: "both ways", responses: [(1_000_000, 600_000, 10), (620_000, 660_000, 10)], expected: -38_991),
        ])
    func rows(_ row: Row) {
        var skew = ClockSkew()
        for (minute, response) in row.responses.enumerated() {
            skew.note(
                date: response.date, received: response.received, duration: response.duration, now: 1_000_000 + Int64(minute) * 60_000)
        }
        let now = 1_000_000 + Int64(max(0, row.responses.count - 1)) * 60_000
        #expect(skew.latest(now: now) == row.expected)
        #expect(skew.latest(now: now + 7 * 60_000) == nil)
    }

    @Test(
        "whatever the delays: never more than the true difference, and not less by more than measuring errs",
        arguments: 0..<40 as Range<UInt64>)
    func random(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let truth = Int64.random(in: -100_000...100_000, using: &generator)
        var (one, other, wall, quickest) = (ClockSkew(), ClockSkew(), 1_750_000_000_000 as Int64, Int64.max)
        for number in 0..<40 {
            wall += Int64.random(in: 0...5_000, using: &generator)
            let duration = Int64.random(in: 0...3_000, using: &generator)
            let made = wall - Int64.random(in: 0...duration, using: &generator)
            // Every second response comes from a cache and is older, but only if the upstream's clock is behind.
            let isCached = number % 2 == 1
            let age = isCached && truth < 0 ? Int64.random(in: 0...500_000, using: &generator) : 0
            let date = (made + truth - age) / 1_000 * 1_000
            if age == 0 { quickest = min(quickest, duration) }
            if Bool.random(using: &generator) {
                one.note(date: date, received: wall, duration: duration, now: wall)
            } else {
                other.note(date: date, received: wall, duration: duration, now: wall)
            }
        }
        one.merge(other)
        let found = one.latest(now: wall) ?? .max
        #expect(abs(found) <= abs(truth) && found * truth >= 0)
        #expect(abs(found) >= abs(truth) - 1_000 - 3_000)
    }

    @Test("steps are counted by their direction, whatever small adjustments there are", arguments: 0..<20 as Range<UInt64>)
    func steps(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var (steps, wall, monotonic, forward, back) = (ClockSteps(), 1_750_000_000_000 as Int64, 0 as Int64, 0 as UInt64, 0 as UInt64)
        #expect(steps.note(wall: wall, monotonic: monotonic) == nil)
        for _ in 0..<200 {
            let passed = Int64.random(in: 0...5_000, using: &generator)
            var step = Int64.random(in: -999...999, using: &generator)
            if Int.random(in: 0..<10, using: &generator) == 0 {
                step = Int64.random(in: 1_000...10_000_000, using: &generator) * (Bool.random(using: &generator) ? 1 : -1)
                if step > 0 { forward += 1 } else { back += 1 }
            }
            (wall, monotonic) = (wall + passed + step, monotonic + passed)
            #expect(steps.note(wall: wall, monotonic: monotonic) == (abs(step) < 1_000 ? nil : step))
        }
        #expect(steps.forward == forward && steps.back == back)
    }

    @Test("of several with a limit of their own the fullest is shown, and what has no limit is not")
    func limits() {
        var use = LimitUse()
        for (used, limit) in [(1, 4), (3, 4), (0, 2), (5, 0)] { use.note("upstream.connections", used, of: limit) }
        use.note("limits.unsent", 9, of: 0)
        #expect(use.ratios == ["upstream.connections": 0.75])
    }
}
