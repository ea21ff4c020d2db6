// What hits sent a moment ago, by the bytes of the request: one that comes again, byte for byte, gets the same response without being parsed,
// looked up and put together. That holds for as long as nothing of what the response was made of can have changed: the store, the modes (then all
// is forgotten), and the age that the response tells. So an entry lives for a second at most, and a popular target takes the long way once a second.

import CachePolicy
import Explanation
import Glibc
import HTTPCore
import Hashing
import ResponseCache
import Telemetry

/// Touched on its shard's loop only.
package final class HitMemo {
    /// For how long a hit can be given again.
    package struct Validity {
        /// The store's, from before anything of it was looked at for the request.
        package let changes: UInt64
        /// Until then its age is what it is.
        package let end: Timestamp

        package init(changes: UInt64, end: Timestamp) { (self.changes, self.end) = (changes, end) }
    }

    /// What went out, and what is recorded each time it does.
    package final class Entry {
        fileprivate let request: [UInt8]
        fileprivate let times: Range<Int64>
        /// The request's, and the store's changes from before the look-up.
        fileprivate var hash: UInt64 = 0
        fileprivate var changes = UInt64.max
        package let response: [UInt8]
        package let head: RequestHead
        package let record: ExchangeRecord
        package let trace: ExchangeTrace

        /// - Parameter times: milliseconds since 1970 at which the response can be given again. They have a beginning for clocks that are set
        ///   back.
        package init(
            _ request: UnsafeRawBufferPointer, _ response: UnsafeRawBufferPointer, times: Range<Int64>, _ head: RequestHead,
            _ record: ExchangeRecord, _ trace: ExchangeTrace
        ) {
            self.request = Array(request)
            self.response = Array(response)
            self.times = times
            self.head = head
            self.record = record
            self.trace = trace
        }

        fileprivate var bytes: Int { request.count + response.count }
    }

    private struct Slot {
        var entry: Entry?
        /// Of the last request that came here, and the store's changes then: only what comes twice is kept.
        var hash: UInt64 = 0
        var changes = UInt64.max
    }

    private let cache: SharedCacheState
    private var slots = [Slot](repeating: Slot(), count: HitMemo.slotCount)
    private var keptBytes = 0
    /// Of the request that was looked for last.
    private var hash: UInt64 = 0

    private static let slotCount = 256
    /// Of requests and responses. Beyond it all are forgotten.
    private static let limitBytes = 1 << 20

    package init(cache: SharedCacheState) { self.cache = cache }

    /// What this request got before, where it would get that again.
    /// - Parameter now: milliseconds since 1970.
    package func find(_ request: UnsafeRawBufferPointer, now: Int64) -> Entry? {
        hash = ContentHash.number(of: request)
        guard let entry = slots[place].entry, entry.hash == hash, entry.request.count == request.count,
            entry.times.contains(now), entry.changes == cache.changes,
            entry.request.withUnsafeBytes({ memcmp($0.baseAddress!, request.baseAddress!, request.count) }) == 0
        else { return nil }
        return entry
    }

    /// Keeps what the request that was looked for last got, if it has come before since the store changed.
    /// - Parameter changes: `SharedCacheState.changes` from before the look-up.
    package func keep(since changes: UInt64, _ makeEntry: () -> Entry) {
        guard slots[place].hash == hash, slots[place].changes == changes else {
            (slots[place].hash, slots[place].changes) = (hash, changes)
            return
        }
        if keptBytes > Self.limitBytes { forget() }
        let entry = makeEntry()
        (entry.hash, entry.changes) = (hash, changes)
        keptBytes += entry.bytes - (slots[place].entry?.bytes ?? 0)
        slots[place].entry = entry
    }

    package func forget() {
        for place in slots.indices { slots[place].entry = nil }
        keptBytes = 0
    }

    private var place: Int { Int(truncatingIfNeeded: hash % UInt64(Self.slotCount)) }
}
