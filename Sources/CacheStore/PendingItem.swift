// Items that wait to be written. Lookups find them here until they are in a segment. Inserting copies nothing, because copying eight
// megabytes of content would block an event loop, and each small allocation costs more than copying its bytes.

import Glibc
import TakeOver

import struct Synchronization.Atomic

/// An item that waits to be written.
/// `@unchecked Sendable` because only the note and `hasStaleMark` change after `init`; the writer's queue alone uses `hasStaleMark`.
final class PendingItem: @unchecked Sendable {
    let hash: KeyHash
    let isMarkedStale: Bool
    /// Whether a stale mark has been written for an older item of this key on disk, so that the writer does not write another one. Used on
    /// the writer's queue only.
    var hasStaleMark = false
    private let item: NewItem
    private let number = contentNumbers.add(1, ordering: .relaxed).newValue | 1 << 63
    private let keptNote = Atomic<UInt32>(0)

    /// Counter for content numbers. The top bit distinguishes them from numbers of segment positions.
    private static let contentNumbers = Atomic<UInt64>(0)

    init(_ item: NewItem, hash: KeyHash) {
        self.hash = hash
        self.item = item
        isMarkedStale = false
    }

    /// Copies the item of a record into memory; nil if the checksum of the payload does not match.
    convenience init?(_ header: RecordHeader, in segment: Segment, at offset: Int, as retention: Retention, seed: UInt64) {
        let start = segment.base + offset + RecordHeader.bytes
        guard RecordHeader.payloadChecksum(start, header.payloadBytes, seed: seed) == header.payloadChecksum else { return nil }
        var at = 0
        func part(_ count: Int) -> [UInt8] {
            defer { at += count }
            return Array(UnsafeRawBufferPointer(start: start + at, count: count))
        }
        let item = NewItem(
            key: part(header.keyBytes), metadata: part(header.metadataBytes), head: part(header.headBytes),
            body: .coded(part(header.bodyBytes), header.form), retention: retention)
        self.init(item, hash: header.hash)
    }

    /// Copies an item and marks it as stale.
    init(markingStale other: PendingItem) {
        hash = other.hash
        item = other.item
        isMarkedStale = true
        raiseNote(to: other.note)
    }

    var retention: Retention { item.retention }
    var bytes: Int { item.payloadBytes }

    /// The item's note (`IndexEntry.note`).
    var note: UInt32 { keptNote.load(ordering: .relaxed) }

    /// Raises the note to the given value if that is larger. The store's state must be locked.
    func raiseNote(to note: UInt32) { keptNote.store(max(note, self.note), ordering: .relaxed) }

    /// Header of the item's record, without the checksum of the payload.
    /// - Parameter encoded: the encoded content; nil to write the content as it is.
    func header(_ encoded: [UInt8]?) -> RecordHeader {
        let form = encoded == nil ? item.body.form : ContentForm(coding: item.wantedCoding, plainBytes: body.count)
        return RecordHeader(
            kind: .item, retention: retention, isMarkedStale: isMarkedStale, keyBytes: item.key.count, metadataBytes: item.metadata.count,
            headBytes: item.head.count, bodyBytes: encoded?.count ?? body.count, coding: form.coding, plainBytes: form.plainBytes,
            hash: hash, note: note)
    }

    var isToBeEncoded: Bool { item.wantedCoding != 0 && item.body.form.coding == 0 }

    /// Returns the encoded content; nil if encoding does not make it smaller or is not configured.
    func encoded(by settings: StoreSettings) -> [UInt8]? { settings.encode?(body, item.wantedCoding) }

    /// The change for the other process during a take-over; nil for ordinary responses, which may be lost.
    var passed: PassedChange? {
        guard item.retention.isNeeded else { return nil }
        return .item(key: item.key, metadata: item.metadata, head: item.head, body: Array(body), retention: item.retention.rawValue)
    }

    func matches(_ other: UnsafeRawBufferPointer) -> Bool {
        guard other.count == item.key.count, let one = key.baseAddress, let two = other.baseAddress else { return false }
        return memcmp(one, two, other.count) == 0
    }

    var key: UnsafeRawBufferPointer { Self.bytes(of: item.key) }

    /// Appends the parts of the record in their order.
    func appendPayload(_ encoded: [UInt8]?, to out: inout [UInt8]) {
        out.append(contentsOf: item.key)
        out.append(contentsOf: item.metadata)
        out.append(contentsOf: item.head)
        if let encoded { out.append(contentsOf: encoded) } else { out.append(contentsOf: body) }
    }

    /// Returns a pointer to the array's bytes. It stays valid because this object retains the array and never changes it.
    private static func bytes(of array: [UInt8]) -> UnsafeRawBufferPointer { array.withUnsafeBytes { $0 } }

    private var body: UnsafeRawBufferPointer {
        switch item.body {
        case .bytes(let bytes), .coded(let bytes, _): Self.bytes(of: bytes)
        case .stored(let bytes, _, _): bytes
        }
    }

    var stored: StoredItem {
        StoredItem(
            metadata: Self.bytes(of: item.metadata).assumingMemoryBound(to: UInt8.self),
            head: Self.bytes(of: item.head).assumingMemoryBound(to: UInt8.self), body: body, form: item.body.form, contentNumber: number,
            isMarkedStale: isMarkedStale, note: note, owner: self)
    }
}
