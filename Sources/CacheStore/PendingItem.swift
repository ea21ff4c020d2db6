// What waits to be written: it answers look-ups until it lies in a segment. Nothing of it is copied when it is put in: with eight megabytes of
// content that would hold up an event loop, and with little each piece of memory costs more than its bytes do.

import Glibc

import struct Synchronization.Atomic

/// An item that waits to be written.
///
/// `@unchecked Sendable` because nothing but the note changes after `init`.
final class PendingItem: @unchecked Sendable {
    let hash: KeyHash
    let isMarkedStale: Bool
    private let item: NewItem
    private let keptNote = Atomic<UInt32>(0)

    init(_ item: NewItem, hash: KeyHash) {
        self.hash = hash
        self.item = item
        isMarkedStale = false
    }

    /// The same item, marked as stale.
    init(markingStale other: PendingItem) {
        hash = other.hash
        item = other.item
        isMarkedStale = true
        raiseNote(to: other.note)
    }

    var retention: Retention { item.retention }
    var bytes: Int { item.payloadBytes }

    /// `IndexEntry.note`.
    var note: UInt32 { keptNote.load(ordering: .relaxed) }

    /// With the store's state locked.
    func raiseNote(to note: UInt32) { keptNote.store(max(note, self.note), ordering: .relaxed) }

    /// Of its record; the payload's checksum is not known yet.
    var header: RecordHeader {
        RecordHeader(
            kind: .item, retention: retention, isMarkedStale: isMarkedStale, keyBytes: item.key.count, metadataBytes: item.metadata.count,
            headBytes: item.head.count, bodyBytes: body.count, hash: hash)
    }

    func matches(_ other: UnsafeRawBufferPointer) -> Bool {
        guard other.count == item.key.count, let one = key.baseAddress, let two = other.baseAddress else { return false }
        return memcmp(one, two, other.count) == 0
    }

    var key: UnsafeRawBufferPointer { Self.bytes(of: item.key) }

    /// Appends the parts of its record, in their order.
    func appendPayload(to out: inout [UInt8]) {
        out.append(contentsOf: item.key)
        out.append(contentsOf: item.metadata)
        out.append(contentsOf: item.head)
        out.append(contentsOf: body)
    }

    /// They stay where they are, since the array is held here and never changed.
    private static func bytes(of array: [UInt8]) -> UnsafeRawBufferPointer { array.withUnsafeBytes { $0 } }

    private var body: UnsafeRawBufferPointer {
        switch item.body {
        case .bytes(let bytes): Self.bytes(of: bytes)
        case .stored(let bytes, _): bytes
        }
    }

    var stored: StoredItem {
        StoredItem(
            metadata: Self.bytes(of: item.metadata), head: Self.bytes(of: item.head), body: body, isMarkedStale: isMarkedStale, note: note,
            owner: self)
    }
}
