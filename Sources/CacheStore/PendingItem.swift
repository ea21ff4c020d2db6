// What waits to be written: it answers look-ups until it lies in a segment. Nothing of it is copied when it is put in: with eight megabytes of
// content that would hold up an event loop, and with little each piece of memory costs more than its bytes do.

import Glibc
import TakeOver

import struct Synchronization.Atomic

/// An item that waits to be written.
///
/// `@unchecked Sendable` because nothing but the note changes after `init`, and `hasStaleMark`, which only the writer's queue uses.
final class PendingItem: @unchecked Sendable {
    let hash: KeyHash
    let isMarkedStale: Bool
    /// A mark says that a former item of its key in a file is stale: the writer need not write another.
    var hasStaleMark = false
    private let item: NewItem
    private let number = contentNumbers.add(1, ordering: .relaxed).newValue | 1 << 63
    private let keptNote = Atomic<UInt32>(0)

    /// Places in segments have numbers below these.
    private static let contentNumbers = Atomic<UInt64>(0)

    init(_ item: NewItem, hash: KeyHash) {
        self.hash = hash
        self.item = item
        isMarkedStale = false
    }

    /// That of a record, in memory of its own; nil where its checksum does not hold.
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
    /// - Parameter encoded: its content with the coding that it is to have, where something is won.
    func header(_ encoded: [UInt8]?) -> RecordHeader {
        let form = encoded == nil ? item.body.form : ContentForm(coding: item.wantedCoding, plainBytes: body.count)
        return RecordHeader(
            kind: .item, retention: retention, isMarkedStale: isMarkedStale, keyBytes: item.key.count, metadataBytes: item.metadata.count,
            headBytes: item.head.count, bodyBytes: encoded?.count ?? body.count, form: form, hash: hash)
    }

    var isToBeEncoded: Bool { item.wantedCoding != 0 && item.body.form.coding == 0 }

    /// Its content with the coding that it is to have; nil where nothing is won.
    func encoded(by settings: StoreSettings) -> [UInt8]? { settings.encode?(body, item.wantedCoding) }

    /// For another process, where it must not be lost.
    var passed: PassedChange? {
        guard item.retention.isNeeded else { return nil }
        return .item(key: item.key, metadata: item.metadata, head: item.head, body: Array(body), retention: item.retention.rawValue)
    }

    func matches(_ other: UnsafeRawBufferPointer) -> Bool {
        guard other.count == item.key.count, let one = key.baseAddress, let two = other.baseAddress else { return false }
        return memcmp(one, two, other.count) == 0
    }

    var key: UnsafeRawBufferPointer { Self.bytes(of: item.key) }

    /// Appends the parts of its record, in their order.
    func appendPayload(_ encoded: [UInt8]?, to out: inout [UInt8]) {
        out.append(contentsOf: item.key)
        out.append(contentsOf: item.metadata)
        out.append(contentsOf: item.head)
        if let encoded { out.append(contentsOf: encoded) } else { out.append(contentsOf: body) }
    }

    /// They stay where they are, since the array is held here and never changed.
    private static func bytes(of array: [UInt8]) -> UnsafeRawBufferPointer { array.withUnsafeBytes { $0 } }

    private var body: UnsafeRawBufferPointer {
        switch item.body {
        case .bytes(let bytes), .coded(let bytes, _): Self.bytes(of: bytes)
        case .stored(let bytes, _, _): bytes
        }
    }

    var stored: StoredItem {
        StoredItem(
            metadata: Self.bytes(of: item.metadata), head: Self.bytes(of: item.head), body: body, form: item.body.form,
            contentNumber: number,
            isMarkedStale: isMarkedStale, note: note, owner: self)
    }
}
