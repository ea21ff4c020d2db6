// Writes of which nobody knows whether they reached the upstream, since a login or a captive portal answered: what is stored is stale from then on, and stays for
// an outage. They leave marks of their own. As long as all copies are younger than the last such write, nobody looks for these.

import CachePolicy
import CacheStore
import Synchronization

final class DoubtfulWrites: Sendable {
    private let store: ResponseStore
    /// The time of the last one. Set by the shard that sees it, read by all with each look-up.
    private let last: Atomic<Int64>

    /// The key of the record that keeps the time. No other key is this byte alone.
    static let key = [UInt8(ascii: "S")]

    init(store: ResponseStore) {
        self.store = store
        last = Atomic(ResponseCache.time(of: store.lookUp(Self.key.span))?.milliseconds ?? .min)
    }

    /// Whether one may have come since a response was asked for.
    func mayConcern(_ requestTime: Timestamp) -> Bool { requestTime.milliseconds <= last.load(ordering: .acquiring) }

    /// Called before its marks are put into the store: whoever looks up from then on looks for them.
    func note(at time: Timestamp) {
        let metadata = StoredMetadata.invalidation(at: time)
        store.insert(NewItem(key: Self.key, metadata: metadata, head: [], body: [], retention: .always))
        follow(time)
    }

    /// Another process has had the store.
    func readAgain() { if let time = ResponseCache.time(of: store.lookUp(Self.key.span)) { follow(time) } }

    /// The record is in the store.
    func follow(_ time: Timestamp) {
        let change = last.max(time.milliseconds, ordering: .acquiringAndReleasing)
        // Hits of a moment ago were looked up without the marks.
        if change.newValue != change.oldValue { store.noteChange() }
    }

    /// Of the mark beside a key that says so of what lies there. It is none that takes out.
    static func markKey(_ key: [UInt8]) -> [UInt8] { key.followed(by: UInt8(ascii: "S")) }
}
