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

    /// Whether what was asked for then may have been made invalid since.
    func mayHaveOvertaken(_ key: [UInt8], _ requestTime: Timestamp) -> Bool {
        state.withLock { state in
            if requestTime.milliseconds <= state.forgotten { return true }
            guard !state.young.isEmpty || !state.old.isEmpty else { return false }
            let hash = ByteKey(key).hashValue
            return requestTime.milliseconds <= max(state.young[hash] ?? .min, state.old[hash] ?? .min)
        }
    }
}
