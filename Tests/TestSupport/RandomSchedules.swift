// Random schedules: random steps change a world. Each step has independent random numbers, so a schedule can be shrunk by leaving steps
// out. A failing schedule is shrunk, and its report contains the line that replays it.

import Testing

/// A condition of a random schedule that does not hold.
package struct ScheduleFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Ends a schedule if a condition is false. `#expect` would report each attempt of shrinking.
package func demand(
    _ condition: Bool, _ comment: @autoclosure () -> String = "", file: StaticString = #fileID, line: Int = #line
) throws(ScheduleFailure) {
    if !condition { throw ScheduleFailure("\(file):\(line): \(comment())") }
}

package struct RandomSchedules<World> {
    package typealias Step = (inout World, inout SeededGenerator) throws -> Void

    /// Number of steps in each schedule.
    let steps: Int
    let make: (inout SeededGenerator) throws -> World
    let step: Step
    let end: (inout World) throws -> Void

    package init(
        steps: Int, make: @escaping (inout SeededGenerator) throws -> World, step: @escaping Step,
        end: @escaping (inout World) throws -> Void
    ) { (self.steps, self.make, self.step, self.end) = (steps, make, step, end) }

    /// A failure, with the steps that lead to it.
    package struct Report {
        package let seed: UInt64
        package var steps: [Int]
        package var problem: String
    }

    /// - Parameters:
    ///   - count: number of schedules; a tenth of them in a fast run. `CISTERN_WALKS` sets another number, or multiplies it: `5x`.
    ///     `CISTERN_SEED` is the seed of the first, and alone replays one. `CISTERN_STEPS` names the steps to take: `3,17`.
    ///   - steps: number of steps in each schedule.
    ///   - make: the world at the beginning.
    ///   - step: changes the world, and throws if something is wrong.
    ///   - end: called after the last step.
    /// - Returns: whether all schedules ran as they are declared. Then the test may check how often something happened.
    @discardableResult
    package static func run(
        _ count: Int, steps: Int = 0, at location: SourceLocation = #_sourceLocation,
        _ make: @escaping (inout SeededGenerator) throws -> World,
        step: @escaping Step = { _, _ in }, end: @escaping (inout World) throws -> Void = { _ in }
    ) -> Bool {
        let schedules = RandomSchedules(steps: steps, make: make, step: step, end: end)
        let wanted = ScheduleSettings.current
        for seed in wanted.seeds(count) {
            guard let report = schedules.report(seed, wanted.steps) else { continue }
            Issue.record("\(report.text(steps, of: Test.current))", sourceLocation: location)
            return false
        }
        return wanted.isDefault
    }

    /// The failure of one schedule after shrinking; nil if it does not fail.
    package func report(_ seed: UInt64, _ wanted: [Int]? = nil) -> Report? {
        guard var failed = failure(seed, wanted ?? Array(0..<steps)) else { return nil }
        let end = ContinuousClock.now + ScheduleSettings.shrinkingTime
        var length = failed.steps.count / 2
        while length > 0 {
            var start = 0
            while start < failed.steps.count {
                guard ContinuousClock.now < end else { return failed }
                var fewer = failed.steps
                fewer.removeSubrange(start..<min(start + length, fewer.count))
                if let failure = failure(seed, fewer) { failed = failure } else { start += length }
            }
            length = length == 1 ? 0 : (length + 1) / 2
        }
        return failed
    }

    private func failure(_ seed: UInt64, _ steps: [Int]) -> Report? {
        var taken = 0
        do {
            var random = SeededGenerator(seed: seed)
            var world = try make(&random)
            for number in steps {
                taken += 1
                var random = SeededGenerator(seed: seed, step: number)
                try step(&world, &random)
            }
            try end(&world)
            return nil
        } catch { return Report(seed: seed, steps: Array(steps.prefix(taken)), problem: "\(error)") }
    }
}

extension RandomSchedules.Report {
    /// - Parameters:
    ///   - count: number of steps in the whole schedule.
    ///   - test: the test to run again; nil if it is unknown.
    package func text(_ count: Int, of test: Test?) -> String {
        // Module.Suite/function(labels)/file
        let name = test.map { "\($0.id)".split(separator: "/").prefix(2).map { $0.prefix { $0 != "(" } }.joined(separator: "/") }
        let some = steps.count < count ? " CISTERN_STEPS=\(steps.map(String.init).joined(separator: ","))" : ""
        return
            "\(problem)\nseed \(seed), \(steps.count) of \(count) steps; replay: CISTERN_SEED=\(seed)\(some) swift test --filter '\(name ?? "")'"
    }
}

/// Environment variables of random schedules.
package struct ScheduleSettings {
    /// Maximum time to shrink one schedule.
    static let shrinkingTime = Duration.seconds(30)
    private static let usualSeed: UInt64 = 4711

    let seed: UInt64?
    let walks: String?
    let steps: [Int]?

    private let isFast: Bool

    package init(_ environment: (String) -> String?, isFast: Bool) {
        self.isFast = isFast
        seed = environment("CISTERN_SEED").flatMap { UInt64($0) }
        walks = environment("CISTERN_WALKS")
        steps = environment("CISTERN_STEPS").map { $0.split(separator: ",").compactMap { Int($0) } }
    }

    static var current: ScheduleSettings { ScheduleSettings(TestRun.environment, isFast: TestRun.isFast) }

    var isDefault: Bool { seed == nil && walks == nil && steps == nil && !isFast }

    /// Seeds of all schedules of a test.
    package func seeds(_ count: Int) -> Range<UInt64> {
        let first = seed ?? Self.usualSeed
        let usual = isFast ? max(1, count / 10) : count
        guard let walks else { return first..<first + (seed == nil ? UInt64(usual) : 1) }
        if walks.last == "x", let factor = Double(walks.dropLast()) { return first..<first + max(1, UInt64(Double(usual) * factor)) }
        return first..<first + max(1, UInt64(walks) ?? 1)
    }
}
