// Memory of unexpected responses for targets with stored responses, shared by all shards: open crowds, targets with several
// representations, and recent writes. Not used on the hot path of hits.

import CachePolicy
import CacheStore
import HTTPCore
import Reactor

public final class SurpriseMemory: Sendable {
    private let state: Mutex<State>

    private struct State {
        var crowds: Crowds<StoredItemID>
        var forms: OtherForms
        var writes: RecentWrites
        /// Partitions whose credentials the upstream has refused since their last good response.
        var refused: Set<UInt64> = []
    }

    /// Maximum number of partitions in `refused`. Only credentials with a stored response are recorded.
    private static let refusedLimit = 4_096

    /// - Parameter window: milliseconds (`failure.window`).
    init(window: Int64) {
        state = Mutex(State(crowds: Crowds(window: window), forms: OtherForms(window: window), writes: RecentWrites(window: window)))
    }

    /// Records an unexpected response.
    /// - Parameters:
    ///   - key: key of the stored response.
    ///   - isEvidence: whether the request is like the one that fetched the stored response.
    ///   - now: milliseconds of the monotonic clock.
    /// - Returns: whether the stored response is served instead, and the 404 records of the targets in a crowd that opens now.
    func odd(
        _ surprise: Surprise, _ key: [UInt8], by witness: UInt64, isEvidence: Bool, now: Int64
    ) -> (isReplaced: Bool, notes: [StoredItemID]) {
        let (number, user) = (Self.number(key), Self.user(key))
        return state.withLock { $0.crowds.odd(surprise, number, by: witness, of: user, isEvidence: isEvidence, now: now) }
    }

    /// Records that a 404 was stored next to a stored response. A crowd that opens later removes it.
    func attach(_ item: StoredItemID, to key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.attach(item, to: number, now: now) }
    }

    func isOtherForm(_ key: [UInt8], accept: UInt64, now: Int64) -> Bool {
        let number = Self.number(key)
        return state.withLock { $0.forms.other(number, accept: accept, now: now) }
    }

    /// Records that the upstream failed for a target with a stored response.
    public func failed(_ key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.failed(number, now: now) }
    }

    /// Records a good response for a target with a stored response.
    /// - Parameter accept: hash of the request's Accept field; nil for a response of another type than the stored one.
    func found(_ key: [UInt8], accept: UInt64?, by witness: UInt64, now: Int64) {
        let (number, user) = (Self.number(key), Self.user(key))
        state.withLock { state in
            state.crowds.found(number, by: witness, of: user, now: now)
            state.refused.remove(user)
            if let accept { state.forms.found(number, accept: accept, now: now) }
        }
    }

    // MARK: Refused credentials

    /// Records that the upstream refused the credentials of a stored response.
    func noteRefused(_ key: [UInt8]) {
        let user = Self.user(key)
        guard user != 0 else { return }
        state.withLock { state in
            if state.refused.count >= Self.refusedLimit { state.refused.removeFirst() }
            state.refused.insert(user)
        }
    }

    func hasRefused(_ key: [UInt8]) -> Bool {
        let user = Self.user(key)
        return user != 0 && state.withLock { $0.refused.contains(user) }
    }

    // MARK: Writes

    /// - Parameter writer: hash of the client and the target; never 0.
    public func noteWrite(_ writer: UInt64, now: Int64) { state.withLock { $0.writes.note(writer, now: now) } }

    public func hasWritten(_ writer: UInt64, now: Int64) -> Bool { state.withLock { $0.writes.contains(writer, now: now) } }

    /// Number for the partition of a key; 0 if it has none.
    private static func user(_ key: [UInt8]) -> UInt64 {
        guard let partition = StoredKey.partition(of: key), !partition.isEmpty else { return 0 }
        return max(1, ContentHash.number(of: partition.span))
    }

    private static func number(_ key: [UInt8]) -> UInt64 { max(1, ContentHash.number(of: key.span)) }
}
