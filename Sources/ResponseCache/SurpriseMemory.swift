// What is remembered of unexpected responses for targets with stored responses, by all shards: which crowds are open, which targets have several
// representations, and who has just written where. Off the path of a hit.

import CachePolicy
import CacheStore
import HTTPCore
import Hashing
import Locking

public final class SurpriseMemory: Sendable {
    private let state: Mutex<State>

    private struct State {
        var crowds: Crowds<StoredItemID>
        var forms: OtherForms
        var writes: RecentWrites
    }

    /// - Parameter window: milliseconds (`failure.window`).
    init(window: Int64) {
        state = Mutex(State(crowds: Crowds(window: window), forms: OtherForms(window: window), writes: RecentWrites(window: window)))
    }

    /// An unexpected response came.
    /// - Parameters:
    ///   - key: of the stored response.
    ///   - now: milliseconds of the loop's clock.
    /// - Returns: whether the stored response goes out instead, and what was remembered beside the targets whose crowd opens now.
    func odd(_ surprise: Surprise, _ key: [UInt8], by witness: UInt64, now: Int64) -> (isReplaced: Bool, notes: [StoredItemID]) {
        let number = Self.number(key)
        return state.withLock { $0.crowds.odd(surprise, number, by: witness, now: now) }
    }

    /// A 404 was remembered beside a stored response: its crowd may prove it wrong.
    func attach(_ item: StoredItemID, to key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.attach(item, to: number, now: now) }
    }

    func isOtherForm(_ key: [UInt8], accept: UInt64, now: Int64) -> Bool {
        let number = Self.number(key)
        return state.withLock { $0.forms.other(number, accept: accept, now: now) }
    }

    /// The upstream has failed for a target with a stored response.
    func failed(_ key: [UInt8], now: Int64) {
        let number = Self.number(key)
        state.withLock { $0.crowds.failed(number, now: now) }
    }

    /// A good response came for a target with a stored response.
    /// - Parameter accept: a hash of the request's Accept field; nil for a response of another type than the stored one.
    func found(_ key: [UInt8], accept: UInt64?, by witness: UInt64, now: Int64) {
        let number = Self.number(key)
        state.withLock { state in
            state.crowds.found(number, by: witness, now: now)
            if let accept { state.forms.found(number, accept: accept, now: now) }
        }
    }

    // MARK: Writes

    /// - Parameter writer: a hash of the client and the target; never 0.
    public func noteWrite(_ writer: UInt64, now: Int64) { state.withLock { $0.writes.note(writer, now: now) } }

    public func hasWritten(_ writer: UInt64, now: Int64) -> Bool { state.withLock { $0.writes.contains(writer, now: now) } }

    private static func number(_ key: [UInt8]) -> UInt64 { max(1, key.withUnsafeBytes { ContentHash.number(of: $0) }) }
}
