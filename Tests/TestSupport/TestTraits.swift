// Traits of suites and tests.

import Glibc
import Testing
import Upstream

extension Trait where Self == ConditionTrait {
    /// For tests that need seconds of CPU time; skipped by `make test FAST=1`.
    package static var slow: Self { .disabled(if: TestRun.isFast, "skipped: a slow test") }
}

/// Settings of a test run from the environment.
package enum TestRun {
    package static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// Set by `make test FAST=1`.
    package static let isFast = environment("FAST_TESTS") != nil
}

/// Runs each test of the suite with several client protocols. A fast run uses one of them, selected by the test's name, so that all
/// protocols are used by some tests.
package struct ClientProtocolsTrait: SuiteTrait, TestTrait, TestScoping {
    let clientProtocols: [ProxyPlay.ClientProtocol]

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        // A trait of the test takes precedence over one of its suite.
        let own = test.traits.compactMap { $0 as? ClientProtocolsTrait }.last?.clientProtocols ?? clientProtocols
        guard own == clientProtocols else { return try await function() }
        let index = test.name.utf8.reduce(0) { $0 + Int($1) } % clientProtocols.count
        for clientProtocol in TestRun.isFast ? [clientProtocols[index]] : clientProtocols {
            try await ProxyPlay.$clientProtocol.withValue(clientProtocol) { try await function() }
        }
    }
}

/// Runs each test with each upstream protocol. HTTP/2 upstreams are combined with one client protocol only, since the two are independent.
package struct UpstreamsTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await function()
        guard ProxyPlay.clientProtocol == .clear else { return }
        try await ProxyPlay.$upstream.withValue(.http2) { try await function() }
    }
}

extension Trait where Self == UpstreamsTrait {
    package static var upstreams: Self { UpstreamsTrait() }
}

extension Trait where Self == ClientProtocolsTrait {
    package static var clientProtocols: Self { ClientProtocolsTrait(clientProtocols: ProxyPlay.ClientProtocol.allCases) }
    /// Protocols of HTTP/1.1, for tests of its bytes.
    package static var http1Protocols: Self { ClientProtocolsTrait(clientProtocols: [.clear, .tls]) }
    package static func clientProtocol(_ clientProtocol: ProxyPlay.ClientProtocol) -> Self {
        ClientProtocolsTrait(clientProtocols: [clientProtocol])
    }
}
