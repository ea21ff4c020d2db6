// The harness of random schedules: what it runs, shrinks and reports.

import TestSupport
import Testing

@Suite("Random schedules")
struct RandomSchedulesTests {
    /// Fails once the world has met a 1 before a 2, among a hundred other numbers.
    private struct World {
        var numbers: [Int] = []
    }

    private static func step(_ world: inout World, _ random: inout SeededGenerator) throws {
        world.numbers.append(random.below(100))
        guard let first = world.numbers.firstIndex(of: 1) else { return }
        try demand(!world.numbers[first...].contains(2), "a 2 behind a 1")
    }

    private let schedules = RandomSchedules(steps: 2_000, make: { _ in World() }, step: Self.step, end: { _ in })

    @Test("a failing schedule is reduced to the relevant steps, and replaying them by number fails again")
    func shrinks() throws {
        for seed in 1...5 as ClosedRange<UInt64> {
            let report = try #require(schedules.report(seed))
            #expect(report.steps.count == 2 && report.problem.hasSuffix("a 2 behind a 1"))
            #expect(try #require(schedules.report(seed, report.steps)).steps == report.steps)
            #expect(schedules.report(seed, [report.steps[0]]) == nil && schedules.report(seed, report.steps.reversed()) == nil)
        }
    }

    @Test("the report contains the command line that replays the schedule")
    func line() throws {
        let report = try #require(schedules.report(3))
        let steps = report.steps.map(String.init).joined(separator: ",")
        let line = "CISTERN_SEED=3 CISTERN_STEPS=\(steps) swift test --filter 'TestSupportTests.RandomSchedulesTests/line'"
        #expect(report.text(2_000, of: Test.current).hasSuffix("seed 3, 2 of 2000 steps; replay: \(line)"))
        #expect(report.text(2, of: Test.current).contains("replay: CISTERN_SEED=3 swift test"))
    }

    @Test("a failure at the end is reported, and a failure at the beginning needs no steps")
    func ends() throws {
        let last = RandomSchedules(
            steps: 50, make: { _ in World() }, step: { world, _ in world.numbers.append(1) }, end: { try demand($0.numbers.count < 7) })
        #expect(try #require(last.report(1)).steps.count == 7)
        let first = RandomSchedules(steps: 50, make: { _ in throw ScheduleFailure("no world") }, step: Self.step, end: { _ in })
        #expect(try #require(first.report(1)).steps.isEmpty)
    }

    @Test(
        "environment variables set the seeds",
        arguments: [
            ([:], 4711..<4721), (["CISTERN_SEED": "5"], 5..<6), (["CISTERN_SEED": "5", "CISTERN_WALKS": "3"], 5..<8),
            (["CISTERN_WALKS": "3"], 4711..<4714), (["CISTERN_SEED": "5", "CISTERN_WALKS": "2x"], 5..<25),
            (["CISTERN_WALKS": "0.01x"], 4711..<4712),
        ] as [([String: String], Range<UInt64>)])
    func environment(_ environment: [String: String], _ seeds: Range<UInt64>) {
        #expect(ScheduleSettings({ environment[$0] }, isFast: false).seeds(10) == seeds)
    }

    @Test("a fast run executes a tenth of the schedules")
    func fast() { #expect(ScheduleSettings({ _ in nil }, isFast: true).seeds(40).count == 4) }

    @Test("schedules without failures run completely")
    func holds() {
        var (worlds, steps, ends) = (0, 0, 0)
        let isWhole = RandomSchedules.run(10, steps: 5) { _ in
            worlds += 1
        } step: { _, _ in
            steps += 1
        } end: { _ in
            ends += 1
        }
        #expect(steps == 5 * worlds && ends == worlds && (worlds == 10 || !isWhole))
    }
}
