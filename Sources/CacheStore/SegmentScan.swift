// Walking the records of a segment, and telling what a crash leaves there from what was damaged later. Records lie one behind the other, and a crash
// of the writer cuts the last write short: behind the last record there is the beginning of one, and then nothing. Whatever else is no record was one.

import CSystem
import Descriptors
import Glibc

struct SegmentScan {
    private(set) var records = 0
    /// Where the next record can go.
    private(set) var end: Int
    /// Where there must have been records, one or more.
    private(set) var damagedPlaces = 0
    /// The end of the last one of them.
    private(set) var lastDamage: Int?

    /// Calls `body` with each record whose header is valid, in order. Behind a damaged header the next valid one is looked for: headers are keyed, so
    /// nothing else passes for one.
    /// - Parameter range: of offsets; nil: all of the segment.
    @discardableResult
    static func forEachRecord(
        in segment: Segment, _ range: Range<Int>? = nil, seed: UInt64, _ body: (RecordHeader, Int) -> Void
    ) -> SegmentScan {
        var scan = SegmentScan(end: range?.lowerBound ?? 0)
        var offset = scan.end
        /// Behind the last record.
        var lastWritten: Int?
        let limit = min(segment.size, range?.upperBound ?? segment.size)
        while offset + RecordHeader.bytes <= limit {
            let place = segment.base + offset
            if let header = RecordHeader(at: place, segment: segment.number, offset: offset, limit: segment.size, seed: seed) {
                if offset > scan.end { scan.noteDamage(upTo: offset) }
                body(header, offset)
                scan.records += 1
                offset += header.recordBytes
                (scan.end, lastWritten) = (offset, nil)
            } else {
                if place.load(as: UInt64.self) != 0 { lastWritten = offset }
                offset += RecordHeader.alignment
            }
        }
        while offset < limit {
            if segment.base.load(fromByteOffset: offset, as: UInt8.self) != 0 { lastWritten = offset }
            offset += 1
        }
        scan.judgeTail(lastWritten, limit)
        return scan
    }

    /// A header ends with its checksum: without it, the write ended before. What was damaged stays where it is, so that the next start finds it too.
    private mutating func judgeTail(_ lastWritten: Int?, _ limit: Int) {
        guard let lastWritten, lastWritten >= end + RecordHeader.checkedBytes else { return }
        noteDamage(upTo: limit)
        end = min(limit, (lastWritten / RecordHeader.alignment + 1) * RecordHeader.alignment)
    }

    private mutating func noteDamage(upTo offset: Int) {
        damagedPlaces += 1
        lastDamage = offset
    }

    private init(end: Int) { self.end = end }

    /// What became of a record's content.
    enum ContentState {
        case whole
        /// The writer was killed: it ends at a page, with nothing behind it.
        case cutShort
        case damaged
    }

    static func content(of header: RecordHeader, in segment: Segment, at offset: Int, seed: UInt64) -> ContentState {
        let start = offset + RecordHeader.bytes
        let payload = UnsafeRawBufferPointer(start: segment.base + start, count: header.payloadBytes)
        guard let base = payload.baseAddress, RecordHeader.payloadChecksum(base, payload.count, seed: seed) != header.payloadChecksum else {
            return .whole
        }
        let lastPage = (start + payload.count - 1) / pageBytes * pageBytes
        return lastPage < start || payload[(lastPage - start)...].contains { $0 != 0 } ? .damaged : .cutShort
    }

    /// The smallest there are: larger ones end at multiples of it.
    private static let pageBytes = 4_096
}
