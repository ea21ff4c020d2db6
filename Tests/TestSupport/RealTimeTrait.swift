// Tests that depend on real time: the proxy uses the system clock, so a deadline may pass on a busy machine. `Tests/run` first skips these
// tests, and then runs them alone. Only these tests are repeated after a failure, and repeats are counted.

import Glibc
import Reactor
import Testing

package struct RealTimeTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    @TaskLocal private static var isActive = false

    /// Maximum number of repeats in a run. Another repeat fails the run.
    package static let repeats = 3
    /// Number of repeats in this run, shared by all tests.
    private static let repeated = Mutex(0)

    /// In the first part of a run, skips the test, and appends its name to the file of tests that run alone.
    package func prepare(for test: Test) async throws {
        guard !test.isSuite, let path = TestRun.environment("REAL_TIME_TESTS") else { return }
        guard let file = fopen(path, "a") else { throw TestTools.Failed(what: path) }
        fputs("\(test.id)\n", file)
        fclose(file)
        try Test.cancel("depends on real time: runs alone afterwards")
    }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await Self.$isActive.withValue(true) {
            if TestRun.environment("REAL_TIME_REPEATS") != nil, try await !Self.mustRepeat(test, function) { return }
            try await function()
        }
    }

    /// Runs a test for the first time. Its failures are known issues while repeats are left.
    private static func mustRepeat(_ test: Test, _ function: @Sendable () async throws -> Void) async throws -> Bool {
        let isRepeated = Mutex<Bool?>(nil)
        try await withKnownIssue("first attempt", isIntermittent: true) {
            try await function()
        } matching: { _ in
            isRepeated.withLock { isRepeated in
                let isAllowed =
                    isRepeated
                    ?? (repeated.withLock { count in
                        count += 1
                        return count <= repeats
                    })
                if isRepeated == nil, isAllowed { print("repeated: \(test.id)") }
                isRepeated = isAllowed
                return isAllowed
            }
        }
        return isRepeated.withLock { $0 } == true
    }

    /// Fails a test that uses the system clock without this trait.
    package static func expect(_ location: SourceLocation = #_sourceLocation) {
        #expect(isActive, "a play by the clock of the system has the trait .realTime", sourceLocation: location)
    }
}

extension Trait where Self == RealTimeTrait {
    /// The test depends on real time.
    package static var realTime: Self { RealTimeTrait() }
}
