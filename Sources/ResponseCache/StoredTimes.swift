// The latest time of a request whose response is stored, kept in the store itself. After a restart with a clock that was set back, a write must not get an
// earlier time than what it makes invalid.

import CachePolicy
import CacheStore
import Locking

final class StoredTimes: Sendable {
    private let store: ResponseStore
    private let times: CausalTimes
    /// No stored response has a later time. Raised by the shards that store.
    private let bound: Mutex<Int64>

    /// The record's key. No other key is this byte alone.
    static let key = [UInt8(ascii: "B")]
    /// Milliseconds by which the bound is raised at once, so that storing seldom writes the record. After a crash, writes may have times ahead by this much.
    private static let step: Int64 = 10_000

    init(store: ResponseStore, _ times: CausalTimes) {
        (self.store, self.times) = (store, times)
        let known = ResponseCache.time(of: store.lookUp(Self.key.span))
        if let known { times.note(requestAt: known) }
        bound = Mutex(known?.milliseconds ?? .min)
    }

    /// Called before a response is put into the store: the record is written first.
    func note(_ requestTime: Timestamp) {
        times.note(requestAt: requestTime)
        bound.withLock { bound in
            guard requestTime.milliseconds > bound else { return }
            bound = requestTime.milliseconds + Self.step
            insert(bound)
        }
    }

    /// Another process has had the store.
    func readAgain() { if let time = ResponseCache.time(of: store.lookUp(Self.key.span)) { follow(time) } }

    /// Another process has raised the bound.
    func follow(_ time: Timestamp) {
        times.note(requestAt: time)
        bound.withLock { $0 = max($0, time.milliseconds) }
    }

    /// The record has gone with all else in the store.
    func forget() { bound.withLock { $0 = .min } }

    /// The store is closed in order: times are exact from now on.
    func close() {
        guard let latest = times.latestRequest else { return }
        bound.withLock { bound in
            guard latest.milliseconds < bound else { return }
            bound = latest.milliseconds
            insert(bound)
        }
    }

    private func insert(_ bound: Int64) {
        let metadata = StoredMetadata.invalidation(at: Timestamp(milliseconds: bound))
        store.insert(NewItem(key: Self.key, metadata: metadata, head: [], body: [], retention: .always))
    }
}
