// What suites and tests say of themselves beside their sentence.

import Glibc
import Testing
import Upstream

extension Trait where Self == ConditionTrait {
    /// Takes seconds of a processor: left out by `make test FAST=1`.
    package static var slow: Self { .disabled(if: TestRun.isFast, "left out, since it is slow") }
}

/// Settings of a whole test run, by its environment.
package enum TestRun {
    package static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// `make test FAST=1`.
    package static let isFast = environment("FAST_TESTS") != nil
}

/// Each test of the suite is played once through each door by which clients come in, or through some. In a fast run it is played through one of them,
/// which its name decides: together they go through all.
package struct DoorsTrait: SuiteTrait, TestTrait, TestScoping {
    let doors: [ProxyPlay.Door]

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        // What a test says of itself comes before what its suite says.
        let own = test.traits.compactMap { $0 as? DoorsTrait }.last?.doors ?? doors
        guard own == doors else { return try await function() }
        let place = test.name.utf8.reduce(0) { $0 + Int($1) } % doors.count
        for door in TestRun.isFast ? [doors[place]] : doors { try await ProxyPlay.$door.withValue(door) { try await function() } }
    }
}

/// Each test is played once for each protocol that the upstream may speak: over HTTP/2 through the first door alone, since the one does not depend on
/// the other.
package struct UpstreamsTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await function()
        guard ProxyPlay.door == .clear else { return }
        try await ProxyPlay.$upstream.withValue(.http2) { try await function() }
    }
}

extension Trait where Self == UpstreamsTrait {
    package static var upstreams: Self { UpstreamsTrait() }
}

extension Trait where Self == DoorsTrait {
    package static var doors: Self { DoorsTrait(doors: ProxyPlay.Door.allCases) }
    /// Those of HTTP/1.1: for what is said of its bytes.
    package static var http1Doors: Self { DoorsTrait(doors: [.clear, .tls]) }
    package static func door(_ door: ProxyPlay.Door) -> Self { DoorsTrait(doors: [door]) }
}
