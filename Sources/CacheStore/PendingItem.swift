// What waits to be written: it answers look-ups until it lies in a segment. Content is not copied when it is put in: with eight megabytes that
// would hold up an event loop.

import Glibc

import struct Synchronization.Atomic

/// An item that waits to be written.
///
/// `@unchecked Sendable` because nothing but the note changes after `init`.
final class PendingItem: @unchecked Sendable {
    let hash: KeyHash
    let retention: Retention
    let isMarkedStale: Bool
    let counts: (key: Int, metadata: Int, head: Int, body: Int)
    /// Key, metadata and head, one after the other.
    private let front: UnsafeMutableRawBufferPointer
    private let content: ItemBody
    private let keptNote = Atomic<UInt32>(0)

    var bytes: Int { counts.key + counts.metadata + counts.head + counts.body }

    /// `IndexEntry.note`.
    var note: UInt32 { keptNote.load(ordering: .relaxed) }

    /// With the store's state locked.
    func raiseNote(to note: UInt32) { keptNote.store(max(note, self.note), ordering: .relaxed) }

    init(_ item: NewItem, hash: KeyHash) {
        self.hash = hash
        isMarkedStale = false
        retention = item.retention
        counts = (item.key.count, item.metadata.count, item.head.count, item.body.count)
        front = .allocate(byteCount: max(1, item.key.count + item.metadata.count + item.head.count), alignment: 8)
        content = item.body
        var at = 0
        for part in [item.key, item.metadata, item.head] {
            part.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: front[at...]).copyMemory(from: $0) }
            at += part.count
        }
    }

    /// The same item, marked as stale.
    init(markingStale item: PendingItem) {
        hash = item.hash
        isMarkedStale = true
        retention = item.retention
        counts = item.counts
        content = item.content
        front = .allocate(byteCount: item.front.count, alignment: 8)
        front.copyMemory(from: UnsafeRawBufferPointer(item.front))
        raiseNote(to: item.note)
    }

    deinit { front.deallocate() }

    private func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(front)[start..<start + count])
    }

    func matches(_ key: UnsafeRawBufferPointer) -> Bool {
        key.count == counts.key && memcmp(front.baseAddress!, key.baseAddress!, key.count) == 0
    }

    var key: UnsafeRawBufferPointer { part(0, counts.key) }

    /// The parts of its record, in their order.
    var payload: [UnsafeRawBufferPointer] { [part(0, counts.key + counts.metadata + counts.head), body] }

    private var body: UnsafeRawBufferPointer {
        switch content {
        // It stays where it is, since the array is held here and never changed.
        case .bytes(let bytes): bytes.withUnsafeBytes { $0 }
        case .stored(let bytes, _): bytes
        }
    }

    var stored: StoredItem {
        StoredItem(
            metadata: part(counts.key, counts.metadata), head: part(counts.key + counts.metadata, counts.head), body: body,
            isMarkedStale: isMarkedStale, note: note, owner: self)
    }
}
