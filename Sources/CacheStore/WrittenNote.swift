// The notes of stored items on disk. A note is a number that changes often, such as the time at which a response was last confirmed. One
// record holds the notes of many items, so that such a change costs 32 bytes instead of a copy of the item.

import CSystem

/// The note of one record. It applies only while the index refers to that record, so it never applies to a later item of the key.
struct WrittenNote: Equatable {
    let hash: KeyHash
    /// The position of the item's record.
    let segment: UInt64
    let offset: UInt32
    let note: UInt32

    init(_ entry: IndexEntry) { (hash, segment, offset, note) = (entry.hash, entry.segment, entry.offset, entry.note) }

    private init(at source: UnsafeRawPointer) {
        func number(_ offset: Int) -> UInt64 { UInt64(littleEndian: source.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        (hash, segment) = (KeyHash(low: number(0), high: number(8)), number(16))
        let packed = number(24)
        (offset, note) = (UInt32(truncatingIfNeeded: packed), UInt32(truncatingIfNeeded: packed >> 32) & IndexEntry.noteMask)
    }

    private static let bytes = 32
    /// Maximum number of notes in a record. The smallest segment has space for it.
    static let countLimit = 1_024

    func applies(to entry: IndexEntry) -> Bool { entry.segment == segment && entry.offset == offset }

    /// Header of a record of notes. Older versions read it as an item that no look-up finds.
    static func header(count: Int) -> RecordHeader { RecordHeader(kind: .item, bodyBytes: count * bytes, hash: .zero) }

    func append(to out: inout [UInt8]) {
        for number in [hash.low, hash.high, segment, UInt64(note) << 32 | UInt64(offset)] {
            withUnsafeBytes(of: number.littleEndian) { out.append(contentsOf: $0) }
        }
    }

    /// Calls `body` with each note of a record.
    static func forEach(in segment: Segment, at offset: Int, _ header: RecordHeader, _ body: (WrittenNote) -> Void) {
        let start = segment.base + offset + RecordHeader.bytes
        for at in stride(from: 0, through: header.bodyBytes - bytes, by: bytes) where header.payloadBytes == header.bodyBytes {
            body(WrittenNote(at: start + at))
        }
    }
}
