// Tests that clock differences and clock steps are detected, with random delays, caches and adjustments. Also tests the use of limits.

import TestSupport
import Testing

@testable import Figures

@Suite("Clock differences")
struct ClockTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Date, receipt and duration of each response, a minute apart; milliseconds.
        let responses: [(date: Int64, received: Int64, duration: Int64)]
        let expected: Int64?
    }

    @Test(
        "the smallest recent difference counts, less the resolution and the request's duration",
        arguments: [
            Row(testDescription: "no response", responses: [], expected: nil),
            Row(testDescription: "in the same second", responses: [(5_000, 5_900, 10)], expected: 0),
            Row(testDescription: "a slow response", responses: [(5_000, 9_000, 3_500)], expected: 0),
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

    private struct Delays {
        let truth: Int64
        var (one, other) = (ClockSkew(), ClockSkew())
        var (wall, quickest) = (Int64(1_750_000_000_000), Int64.max)

        init(_ random: inout SeededGenerator) { truth = Int64.random(in: -100_000...100_000, using: &random) }

        mutating func step(_ random: inout SeededGenerator) {
            wall += Int64(random.below(5_001))
            let duration = Int64(random.below(3_001))
            let made = wall - Int64.random(in: 0...duration, using: &random)
            // Every second response comes from a cache and is older, but only if the upstream's clock is behind.
            let age = random.isTrue() && truth < 0 ? Int64(random.below(500_001)) : 0
            let date = (made + truth - age) / 1_000 * 1_000
            if age == 0 { quickest = min(quickest, duration) }
            if random.isTrue() {
                one.note(date: date, received: wall, duration: duration, now: wall)
            } else {
                other.note(date: date, received: wall, duration: duration, now: wall)
            }
        }

        mutating func end() throws {
            one.merge(other)
            guard quickest < .max else { return }
            let found = one.latest(now: wall) ?? .max
            try demand(abs(found) <= abs(truth) && found * truth >= 0, "\(found) of \(truth)")
            try demand(abs(found) >= abs(truth) - 1_000 - 3_000, "\(found) of \(truth)")
        }
    }

    @Test("the estimate never exceeds the true difference, and is below it by at most the measurement error")
    func random() {
        RandomSchedules.run(200, steps: 40) {
            Delays(&$0)
        } step: {
            $0.step(&$1)
        } end: {
            try $0.end()
        }
    }

    private struct Steps {
        var steps = ClockSteps()
        var (wall, monotonic) = (Int64(1_750_000_000_000), Int64(0))
        var (forward, back) = (UInt64(0), UInt64(0))

        init() { _ = steps.note(wall: wall, monotonic: monotonic) }

        mutating func step(_ random: inout SeededGenerator) throws {
            let passed = Int64(random.below(5_001))
            var step = Int64(random.below(1_999)) - 999
            if random.isTrue(oneIn: 10) {
                step = Int64.random(in: 1_000...10_000_000, using: &random) * (random.isTrue() ? 1 : -1)
                if step > 0 { forward += 1 } else { back += 1 }
            }
            (wall, monotonic) = (wall + passed + step, monotonic + passed)
            try demand(steps.note(wall: wall, monotonic: monotonic) == (abs(step) < 1_000 ? nil : step))
            try demand(steps.forward == forward && steps.back == back)
        }
    }

    @Test("clock steps are counted by direction, and small adjustments are not counted")
    func steps() {
        RandomSchedules.run(20, steps: 200) { _ in
            Steps()
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("the most used of several pools with their own limits is reported, and resources without a limit are not")
    func limits() {
        var use = LimitUse()
        for (used, limit) in [(1, 4), (3, 4), (0, 2), (5, 0)] { use.note("upstream.connections", used, of: limit) }
        use.note("limits.unsent", 9, of: 0)
        #expect(use.ratios == ["upstream.connections": 0.75])
    }
}
