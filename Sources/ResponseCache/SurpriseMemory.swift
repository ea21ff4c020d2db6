// Memory of unexpected responses for targets with stored responses, shared by all shards: open crowds, targets with several
// representations, and recent writes. Not used on the hot path of hits.

import CachePolicy
import CacheStore
import HTTPCore
import Reactor

public final class SurpriseMemory: Sendable {
    private let state: Mutex<State>
    private let window: Int64

    private struct State {
        var crowds: Crowds<StoredItemID>
        var forms: OtherForms
        var writes: RecentWrites
        /// Credentials that the upstream has refused, with the target that it refused last.
        var refused: [UInt64: UInt64] = [:]
        /// Targets that the upstream has refused to requests without known credentials. The URL or an unknown field may contain them.
        /// Separate from `refused`, so that such requests cannot displace credentials.
        var refusedTargets: Set<UInt64> = []
        /// The last good response to a request with credentials, and the last one to another user.
        var good: (user: UInt64, time: Int64) = (0, .min / 2)
        var otherGood: Int64 = .min / 2

        mutating func noteGood(_ user: UInt64, _ now: Int64) {
            // Public data may be available while the gateway that checks credentials fails.
            guard user != 0 else { return }
            if good.user != user { otherGood = good.time }
            good = (user, now)
        }
    }

    /// Maximum number of `refused`, and of `refusedTargets`. Only requests with a stored response are recorded.
    private static let refusedLimit = 4_096

    /// - Parameter window: milliseconds (`failure.window`).
    init(window: Int64) {
        self.window = window
        state = Mutex(State(crowds: Crowds(window: window), forms: OtherForms(window: window), writes: RecentWrites(window: window)))
    }

    /// Records an unexpected response.
    /// - Parameters:
    ///   - key: key of the stored response.
    ///   - user: number for the user to whom the stored response belongs; 0 if it belongs to several.
    ///   - isEvidence: whether the request is like the one that fetched the stored response.
    ///   - now: milliseconds of the monotonic clock.
    /// - Returns: whether the stored response is served instead, and the 404 records of the targets in a crowd that opens now.
    func note(
        _ surprise: Surprise, _ key: [UInt8], by witness: UInt64, of user: UInt64, isEvidence: Bool, now: Int64
    ) -> (isReplaced: Bool, notes: [StoredItemID]) {
        let number = Self.number(key)
        return state.withLock { $0.crowds.odd(surprise, number, by: witness, of: user, isEvidence: isEvidence, now: now) }
    }

    /// Records that a 404 was stored next to a stored response. A crowd that opens later removes it.
    func attach(_ item: StoredItemID, to key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.attach(item, to: number, now: now) }
    }

    func noteOtherForm(_ key: [UInt8], accept: UInt64, now: Int64) -> Bool {
        let number = Self.number(key)
        return state.withLock { $0.forms.other(number, accept: accept, now: now) }
    }

    /// Records that the upstream failed for a target with a stored response.
    public func failed(_ key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.failed(number, now: now) }
    }

    /// Records a good response for a target with a stored response.
    /// - Parameters:
    ///   - accept: hash of the request's Accept field; nil for a response of another type than the stored one.
    ///   - requester: number for the user who sent the request; 0 without credentials.
    /// - Returns: whether `noteAccepted` must be called, because credentials were refused.
    func found(
        _ key: [UInt8], accept: UInt64?, by witness: UInt64, of user: UInt64, requestedBy requester: UInt64, now: Int64
    ) -> Bool {
        let number = Self.number(key)
        return state.withLock { state in
            state.crowds.found(number, by: witness, of: user, isAlike: accept != nil, now: now)
            if let accept {
                state.forms.found(number, accept: accept, now: now)
                state.noteGood(requester, now)
            }
            return !state.refused.isEmpty || !state.refusedTargets.isEmpty
        }
    }

    /// Records a good response for a target without a stored response.
    /// - Parameter requester: number for the user who sent the request; 0 without credentials.
    func noteGood(_ requester: UInt64, now: Int64) { state.withLock { $0.noteGood(requester, now) } }

    // MARK: Refused credentials

    /// Records that the upstream refused these credentials for a target with a stored response.
    func noteRefused(_ key: [UInt8], _ credentials: UInt64) {
        let number = Self.number(key)
        state.withLock { state in
            if state.refused.count >= Self.refusedLimit, let other = state.refused.keys.first { state.refused[other] = nil }
            state.refused[credentials] = number
        }
    }

    /// Whether another user got a good response within the window.
    func isGood(besides user: UInt64, now: Int64) -> Bool {
        state.withLock { now - ($0.good.user == user ? $0.otherGood : $0.good.time) < window }
    }

    /// Records a good response. Another target may not depend on credentials, so only the refused one shows that they are accepted again.
    func noteAccepted(_ key: [UInt8], _ credentials: UInt64) {
        let number = Self.number(key)
        state.withLock { if $0.refused[credentials] == number { $0.refused[credentials] = nil } }
    }

    func hasRefused(_ credentials: UInt64) -> Bool { state.withLock { $0.refused[credentials] != nil } }

    /// - Parameter key: the request's own key.
    func noteRefusedTarget(_ key: [UInt8]) {
        let number = Self.number(key)
        state.withLock { state in
            if state.refusedTargets.count >= Self.refusedLimit { state.refusedTargets.removeFirst() }
            state.refusedTargets.insert(number)
        }
    }

    func noteAcceptedTarget(_ key: [UInt8]) {
        let number = Self.number(key)
        state.withLock { _ = $0.refusedTargets.remove(number) }
    }

    func hasRefusedTarget(_ key: [UInt8]) -> Bool {
        let number = Self.number(key)
        return state.withLock { $0.refusedTargets.contains(number) }
    }

    // MARK: Writes

    /// - Parameter writer: hash of the client and the target; never 0.
    public func noteWrite(_ writer: UInt64, now: Int64) { state.withLock { $0.writes.note(writer, now: now) } }

    public func hasWritten(_ writer: UInt64, now: Int64) -> Bool { state.withLock { $0.writes.contains(writer, now: now) } }

    private static func number(_ key: [UInt8]) -> UInt64 { max(1, ContentHash.number(of: key.span)) }
}
