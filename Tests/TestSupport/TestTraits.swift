// What suites and tests say of themselves beside their sentence.

import Glibc
import Testing

extension Trait where Self == ConditionTrait {
    /// Takes seconds of a processor: left out by `make test FAST=1`.
    package static var slow: Self { .disabled(if: getenv("FAST_TESTS") != nil, "left out, since it is slow") }
}

extension Trait where Self == TimeLimitTrait {
    /// For plays over sockets: one that waits for ever ends with its name. All tests begin together, so on a busy machine each has the time of all.
    package static var play: Self { .timeLimit(.minutes(10)) }
}

/// Each test of the suite is played once through each door by which clients come in.
package struct DoorsTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for door in ProxyPlay.Door.allCases { try await ProxyPlay.$door.withValue(door) { try await function() } }
    }
}

extension Trait where Self == DoorsTrait {
    package static var doors: Self { DoorsTrait() }
}
