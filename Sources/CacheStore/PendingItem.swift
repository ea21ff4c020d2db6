// What waits to be written: it answers look-ups until it lies in a segment.

import Glibc

import struct Synchronization.Atomic

/// An item that waits to be written. Its bytes lie in one piece, as they will in the segment.
///
/// `@unchecked Sendable` because nothing but the note changes after `init`.
final class PendingItem: @unchecked Sendable {
    let hash: KeyHash
    let retention: Retention
    let isMarkedStale: Bool
    let counts: (key: Int, metadata: Int, head: Int, body: Int)
    let payload: UnsafeMutableRawBufferPointer
    private let keptNote = Atomic<UInt32>(0)

    var bytes: Int { payload.count }

    /// `IndexEntry.note`.
    var note: UInt32 { keptNote.load(ordering: .relaxed) }

    /// With the store's state locked.
    func raiseNote(to note: UInt32) { keptNote.store(max(note, self.note), ordering: .relaxed) }

    init(_ item: NewItem, hash: KeyHash) {
        self.hash = hash
        isMarkedStale = false
        retention = item.retention
        counts = (item.key.count, item.metadata.count, item.head.count, item.body.count)
        payload = .allocate(byteCount: max(1, item.payloadBytes), alignment: 8)
        var at = 0
        for part in [item.key, item.metadata, item.head, item.body] {
            part.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: payload[at...]).copyMemory(from: $0) }
            at += part.count
        }
    }

    /// The same item, marked as stale.
    init(markingStale item: PendingItem) {
        hash = item.hash
        isMarkedStale = true
        retention = item.retention
        counts = item.counts
        payload = .allocate(byteCount: item.payload.count, alignment: 8)
        payload.copyMemory(from: UnsafeRawBufferPointer(item.payload))
        raiseNote(to: item.note)
    }

    deinit { payload.deallocate() }

    private func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(payload)[start..<start + count])
    }

    func matches(_ key: UnsafeRawBufferPointer) -> Bool {
        key.count == counts.key && memcmp(payload.baseAddress!, key.baseAddress!, key.count) == 0
    }

    var key: UnsafeRawBufferPointer { part(0, counts.key) }

    var stored: StoredItem {
        StoredItem(
            metadata: part(counts.key, counts.metadata), head: part(counts.key + counts.metadata, counts.head),
            body: part(counts.key + counts.metadata + counts.head, counts.body), isMarkedStale: isMarkedStale,
            note: note, owner: self)
    }
}
