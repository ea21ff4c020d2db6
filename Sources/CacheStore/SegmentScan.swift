// Iterates over the records of a segment, and distinguishes effects of a crash from later damage. Records follow each other without gaps,
// and a crash of the writer truncates the last write. Then the last record is followed by the beginning of one more record, and by zeros.
// Any other bytes that are not a record count as damage.

import CSystem
import Glibc
import Reactor

struct SegmentScan {
    private(set) var records = 0
    /// Offset for the next record.
    private(set) var end: Int
    /// Ranges that contain one or more damaged records, in order.
    private(set) var damage: [Range<Int>] = []

    /// Calls `body` with each record that has a valid header, in order. After a damaged header the scan searches for the next valid one.
    /// Headers have a keyed checksum, so other bytes are not mistaken for one.
    /// - Parameter range: range of offsets; nil for the whole segment.
    @discardableResult
    static func forEachRecord(
        in segment: Segment, _ range: Range<Int>? = nil, seed: UInt64, _ body: (RecordHeader, Int) -> Void
    ) -> SegmentScan {
        var scan = SegmentScan(end: range?.lowerBound ?? 0)
        var offset = scan.end
        /// Offset of the last non-zero bytes after the last record.
        var lastWritten: Int?
        let limit = min(segment.size, range?.upperBound ?? segment.size)
        while offset + RecordHeader.bytes <= limit {
            let address = segment.base + offset
            if let header = RecordHeader(at: address, segment: segment.number, offset: offset, limit: segment.size, seed: seed) {
                if offset > scan.end { scan.damage.append(scan.end..<offset) }
                body(header, offset)
                scan.records += 1
                offset += header.recordBytes
                (scan.end, lastWritten) = (offset, nil)
            } else {
                if address.load(as: UInt64.self) != 0 { lastWritten = offset }
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

    /// Decides whether bytes after the last record are an interrupted write or damage. The checksum is at the end of a header, so an
    /// interrupted write has none. Damaged bytes are not overwritten, so that the next start detects them too.
    private mutating func judgeTail(_ lastWritten: Int?, _ limit: Int) {
        guard let lastWritten, lastWritten >= end + RecordHeader.checkedBytes else { return }
        damage.append(end..<limit)
        end = min(limit, (lastWritten / RecordHeader.alignment + 1) * RecordHeader.alignment)
    }

    /// State of a record's content.
    enum ContentState {
        case whole
        /// The writer was killed: the content ends at a page boundary and is zero from there on.
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

    /// The smallest page size. Larger pages end at multiples of it.
    private static let pageBytes = 4_096
}
