// Helpers for tests of the failure memory.

import HTTPCore
import Testing

@testable import Upstream

/// A failure memory with short names for its events. Paths have no route by default.
final class Memory {
    var memory: FailureMemory
    var now: Int64 = 0

    init(_ change: (inout FailureSettings) -> Void = { _ in }) {
        var settings = FailureSettings()
        change(&settings)
        memory = FailureMemory(settings)
    }

    static func scopes(
        _ target: String, host: String = "", variant: UInt64 = 0, user: UInt64 = 0, route: Int? = nil, client: UInt64 = 1
    ) -> RequestScopes {
        RequestScopes(
            pathAndQuery: Array(target.utf8)[...], host: Array(host.utf8), variant: variant, route: route, user: user, client: client)
    }

    func ask(
        _ target: String, client: UInt64 = 1, user: UInt64 = 0, route: Int? = nil,
        _ asking: FailureMemory.RequestKind = .withCopy(mayCheckInBackground: true)
    ) -> FailureAdmission {
        let scopes = Self.scopes(target, user: user, route: route, client: client)
        let stops = memory.stops(scopes, asking, now: now)
        let admission = memory.admit(scopes, asking, now: now)
        #expect(stops == (admission != .go), "stops(_:) agrees with admit(_:)")
        return admission
    }

    /// The scope that stops a request with a stored response; nil if none does.
    func stop(_ target: String, client: UInt64 = 1, user: UInt64 = 0, route: Int? = nil) -> FailureScopeKind? {
        if case .serveCopy(let stop, _) = ask(target, client: client, user: user, route: route) { stop.scope } else { nil }
    }

    /// Whether the request is stopped and repeated in the background; nil if it is sent.
    func checks(_ target: String, client: UInt64 = 1, user: UInt64 = 0) -> Bool? {
        if case .serveCopy(_, let checksInBackground) = ask(target, client: client, user: user) { checksInBackground } else { nil }
    }

    func good(_ target: String, client: UInt64 = 1, user: UInt64 = 0, route: Int? = nil, took: Int64 = 10) {
        memory.succeed(Self.scopes(target, user: user, route: route, client: client), took: took, limit: 1_500, provesUser: true, now: now)
    }

    func bad(
        _ target: String, client: UInt64 = 1, user: UInt64 = 0, route: Int? = nil, _ cause: FailureCause = .status(503),
        began: Int64? = nil
    ) {
        memory.fail(Self.scopes(target, user: user, route: route, client: client), cause, began: began ?? now, now: now)
    }

    func refused(began: Int64? = nil) { memory.failToReach(.connectionRefused, began: began ?? now, now: now) }

    func attempt() -> FailureMemory.CheckState { memory.attempt(now: now) }

    func reach() { memory.reach(now: now) }

    func pause(_ target: String, client: UInt64 = 1, user: UInt64 = 0, route: Int? = nil, _ status: Status = 429, seconds: Int64) {
        let scopes = Self.scopes(target, user: user, route: route, client: client)
        memory.pause(scopes, status, retryAfter: seconds * 1000, now: now)
    }

    func check(_ target: String, client: UInt64 = 1) -> FailureMemory.CheckState {
        memory.check(Self.scopes(target, client: client), now: now)
    }

    /// The scopes that opened and closed since the last call.
    func changes() -> [String] { memory.takeChanges().map { ($0.cause == nil ? "-" : "+") + $0.scope.kind.rawValue } }

    var open: [FailureScopeKind] { memory.openScopes(now: now).map(\.scope.kind) }

    /// Every request of two clients fails.
    func failAll(_ directory: String = "/x/", keys: Int = 5, route: Int? = nil) {
        for number in 0..<keys {
            for client in [1, 2] as [UInt64] { bad("\(directory)\(number)", client: client, route: route) }
        }
    }
}

extension FailureMemory {
    /// Whether the scope of the address or of the whole upstream is open.
    var isDown: Bool { openScopes(now: 0).contains { $0.scope == .address || $0.scope == .upstream } }
}
