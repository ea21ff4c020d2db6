// What the tests of the failure memory are written in.

import HTTPCore
import Testing

@testable import Upstream

/// A memory with short words for its events, and paths without a route unless one is named.
final class Memory {
    var memory: FailureMemory
    var now: Int64 = 0

    init(_ change: (inout FailureSettings) -> Void = { _ in }) {
        var settings = FailureSettings()
        change(&settings)
        memory = FailureMemory(settings)
    }

    static func scopes(_ target: String, host: String = "", user: UInt64 = 0, route: Int? = nil, client: UInt64 = 0) -> RequestScopes {
        RequestScopes(pathAndQuery: Array(target.utf8)[...], host: Array(host.utf8), route: route, user: user, client: client)
    }

    func ask(_ target: String, user: UInt64 = 0, _ asking: FailureMemory.Asking = .withCopy(mayLookBehind: true)) -> FailureAdmission {
        let stops = memory.stops(Self.scopes(target, user: user), asking, now: now)
        let admission = memory.admit(Self.scopes(target, user: user), asking, now: now)
        #expect(stops == (admission != .go), "what is told without asking is what is done")
        return admission
    }

    /// What stops a request that has a copy.
    func stop(_ target: String, user: UInt64 = 0) -> FailureScopeKind? {
        if case .serveCopy(let stop, _) = ask(target, user: user) { stop.scope } else { nil }
    }

    func good(_ target: String, user: UInt64 = 0, isQuick: Bool = true) {
        memory.succeed(Self.scopes(target, user: user), isQuick: isQuick, now: now)
    }

    func bad(_ target: String, user: UInt64 = 0, _ cause: FailureCause = .status(503), began: Int64? = nil) {
        memory.fail(Self.scopes(target, user: user), cause, began: began ?? now, now: now)
    }

    func refused(began: Int64? = nil) { memory.failToReach(.connectionRefused, began: began ?? now, now: now) }

    func attempt() -> FailureMemory.Look { memory.attempt(now: now) }

    func reach() { memory.reach(now: now) }

    func pause(_ target: String, user: UInt64, seconds: Int64) {
        memory.pause(Self.scopes(target, user: user), 429, retryAfter: seconds * 1000, now: now)
    }

    func look(_ kind: FailureScopeKind, _ target: String) -> FailureMemory.Look { memory.look(kind, Self.scopes(target), now: now) }

    /// What became known, and what did no more, since this was last asked.
    func changes() -> [String] { memory.takeChanges().map { ($0.cause == nil ? "-" : "+") + $0.scope.kind.rawValue } }

    var open: [FailureScopeKind] { memory.openScopes(now: now).map(\.scope.kind) }

    /// Both users fail on so many paths of a family that nothing succeeds in.
    func failFamily(_ directory: String, paths: Int = 5) {
        for number in 0..<paths {
            for user in [1, 2] as [UInt64] { bad("\(directory)\(number)", user: user) }
        }
    }
}
