// Recent invalidations by key, in memory. A small store may evict a mark while an earlier fetch is still in flight, and the response to
// that fetch must not be stored. Marks in the store concern stored responses; these concern responses about to be stored.

import CachePolicy
import HTTPCore
import Reactor

final class RecentMarks: Sendable {
    private struct State {
        /// Milliseconds by hash of the key. If two keys have equal hashes, a response may be rejected unnecessarily.
        var young: [Int: Int64] = [:]
        var old: [Int: Int64] = [:]
        /// Time of the latest dropped mark: responses requested until then may be invalid.
        var forgotten = Int64.min
        /// Marks until this time apply only to responses in flight.
        var cleared = Int64.min

        /// Time of the key's last invalidation in milliseconds; nil if none is remembered.
        func last(_ hash: Int) -> Int64? { young[hash] ?? old[hash] }
    }

    /// Written by the shards that process writes, read by those that store.
    private let state = Mutex(State())

    /// Maximum number of marks in each generation; 1 MiB in total. At a thousand writes per second, a response is rejected because of
    /// dropped marks only if its fetch takes more than 16 s.
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

    /// Returns whether a response requested at this time, and not in flight, was invalidated later, as far as remembered.
    func hasOvertaken(_ key: [UInt8], _ requestTime: Timestamp) -> Bool {
        state.withLock { state in
            state.last(ByteKey(key).hashValue).map { requestTime.milliseconds <= $0 && $0 > state.cleared } ?? false
        }
    }

    /// Records that everything was removed from the store, including marks. Archived responses may be stored again.
    func noteRemovalOfAll() {
        state.withLock { state in
            state.cleared = [state.young, state.old].reduce(state.cleared) { max($0, $1.values.max() ?? .min) }
        }
    }

    /// Returns whether a response requested at this time may have been invalidated later.
    func mayHaveOvertaken(_ key: [UInt8], _ requestTime: Timestamp) -> Bool {
        state.withLock { state in
            if requestTime.milliseconds <= state.forgotten { return true }
            guard !state.young.isEmpty || !state.old.isEmpty else { return false }
            return state.last(ByteKey(key).hashValue).map { requestTime.milliseconds <= $0 } ?? false
        }
    }
}
