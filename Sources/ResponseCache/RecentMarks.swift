// When something was made invalid lately, by key: a small store may evict a mark while a fetch that began before it is still under way, and what
// that brings must not be stored. The store's own marks are for what lies in the store; these are for what comes into it.

import CachePolicy
import HTTPCore
import Locking

final class RecentMarks: Sendable {
    private struct State {
        /// By the key's hash, milliseconds. Two keys with one hash cost a response that is not stored.
        var young: [Int: Int64] = [:]
        var old: [Int: Int64] = [:]
        /// The latest of those that had to go: whatever was asked for until then may be overtaken.
        var forgotten = Int64.min
        /// Marks until then count for what was under way only.
        var cleared = Int64.min

        /// When this key was last made invalid; nil where that is not remembered.
        func last(_ hash: Int) -> Int64? { young[hash] ?? old[hash] }
    }

    /// Set by the shards that see writes, read by those that store.
    private let state = Mutex(State())

    /// Marks of either age: with a thousand writes a second a fetch may take 16 s before it is not stored for that alone. 1 MiB in all.
    private static let limit = 1 << 14

    func note(_ key: [UInt8], at time: Timestamp) {
        let hash = ByteKey(key).hashValue
        state.withLock { state in
            if state.young.count >= Self.limit {
                state.forgotten = state.old.values.reduce(state.forgotten, max)
                (state.old, state.young) = (state.young, [:])
            }
            state.young[hash] = max(state.young[hash] ?? .min, time.milliseconds)
        }
    }

    /// Whether a response that was asked for then, and is not under way, has been made invalid since, as far as that is remembered.
    func hasOvertaken(_ key: [UInt8], _ requestTime: Timestamp) -> Bool {
        state.withLock { state in
            state.last(ByteKey(key).hashValue).map { requestTime.milliseconds <= $0 && $0 > state.cleared } ?? false
        }
    }

    /// All that was stored has been removed, with the marks in the store. What was archived may be stored again.
    func noteRemovalOfAll() {
        state.withLock { state in
            state.cleared = [state.young, state.old].reduce(state.cleared) { max($0, $1.values.max() ?? .min) }
        }
    }

    /// Whether what was asked for then may have been made invalid since.
    func mayHaveOvertaken(_ key: [UInt8], _ requestTime: Timestamp) -> Bool {
        state.withLock { state in
            if requestTime.milliseconds <= state.forgotten { return true }
            guard !state.young.isEmpty || !state.old.isEmpty else { return false }
            return state.last(ByteKey(key).hashValue).map { requestTime.milliseconds <= $0 } ?? false
        }
    }
}
