// Persists the latest request time of all stored responses. After a restart with a clock that was set back, a write must not get an earlier
// time than the responses that it invalidates.

import CachePolicy
import CacheStore
import Reactor

final class StoredTimes: Sendable {
    private let store: ResponseStore
    private let times: CausalTimes
    /// Upper bound of the request times of stored responses, in milliseconds. Raised by the shards that store.
    private let bound: Mutex<Int64>

    /// Key of the record. No other key consists of this byte alone.
    static let key = [UInt8(ascii: "B")]
    /// Milliseconds by which the bound is raised at once, so that the record is written rarely. After a crash, times of writes may be
    /// ahead by this amount.
    private static let step: Int64 = 10_000

    /// - Parameter isInherited: whether another process still stores responses. `readAgain` then reads the record later.
    init(store: ResponseStore, _ times: CausalTimes, isInherited: Bool) {
        (self.store, self.times) = (store, times)
        let known = isInherited ? nil : ResponseCache.time(of: store.lookUp(Self.key.span))
        if let known { times.note(requestAt: known) }
        bound = Mutex(known?.milliseconds ?? .min)
    }

    /// Must be called before a response is stored: the record is written first.
    func note(_ requestTime: Timestamp) {
        times.note(requestAt: requestTime)
        bound.withLock { bound in
            guard requestTime.milliseconds > bound else { return }
            bound = requestTime.milliseconds + Self.step
            insert(bound)
        }
    }

    /// Reads the record again after another process has used the store.
    func readAgain() {
        guard let time = ResponseCache.time(of: store.lookUp(Self.key.span)) else { return }
        times.note(requestAt: time)
        bound.withLock { $0 = max($0, time.milliseconds) }
    }

    /// Resets the bound after everything was removed from the store.
    func forget() { bound.withLock { $0 = .min } }

    /// Writes the exact time before the store is closed in an orderly way, or handed over.
    func writeExactTime() {
        bound.withLock { bound in
            // Read under the lock, so that it includes all times noted before. A later time raises the bound again.
            guard let latest = times.latestRequest, latest.milliseconds < bound else { return }
            bound = latest.milliseconds
            insert(bound)
        }
    }

    private func insert(_ bound: Int64) {
        let metadata = StoredMetadata.invalidation(at: Timestamp(milliseconds: bound))
        store.insert(NewItem(key: Self.key, metadata: metadata, head: [], body: [], retention: .always))
    }
}
