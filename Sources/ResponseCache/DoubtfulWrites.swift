// Writes with an unclear outcome (`Invalidation.Effect.makesStale`): it is unknown whether the upstream performed them. Separate marks make
// affected responses stale and keep them for rescues. While all stored responses are newer than the last such write, these marks are not
// looked up.

import CachePolicy
import CacheStore
import HTTPCore
import Synchronization

final class DoubtfulWrites: Sendable {
    private let store: ResponseStore
    /// Time of the last such write. Set by the shard that sees it, read by all shards for each lookup.
    private let last: Atomic<Int64>

    /// Key of the record that stores the time. No other key consists of this byte alone.
    static let key = [UInt8(ascii: "S")]

    init(store: ResponseStore) {
        self.store = store
        last = Atomic(ResponseCache.time(of: store.lookUp(Self.key.span))?.milliseconds ?? .min)
    }

    /// Returns whether such a write may have happened since a response was requested.
    func mayConcern(_ requestTime: Timestamp) -> Bool { requestTime.milliseconds <= last.load(ordering: .acquiring) }

    /// Must be called before the marks are stored: later lookups then check them.
    func note(at time: Timestamp) {
        let metadata = StoredMetadata.invalidation(at: time)
        store.insert(NewItem(key: Self.key, metadata: metadata, head: [], body: [], retention: .always))
        follow(time)
    }

    /// Reads the record again after another process has used the store.
    func readAgain() { if let time = ResponseCache.time(of: store.lookUp(Self.key.span)) { follow(time) } }

    /// Applies the time of a record that was stored.
    func follow(_ time: Timestamp) {
        let change = last.max(time.milliseconds, ordering: .acquiringAndReleasing)
        // Earlier hits were looked up without these marks, so they must be looked up again.
        if change.newValue != change.oldValue { store.noteChange() }
    }

    /// Key of the mark next to a key that makes responses stale. Different from the mark that removes them.
    static func markKey(_ key: [UInt8]) -> [UInt8] { key.followed(by: UInt8(ascii: "S")) }
}
