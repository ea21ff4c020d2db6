// The index on disk, written at a clean stop and taken away at the next start: so it is never older than the segments. One checksum over
// all of it; a snapshot that does not check out, or does not fit the files that are there, is as good as none. The checksum alone proves
// nothing: who can read the key can make one. So no number in it is used before it was held against the files.

import CSystem
import Descriptors
import Glibc

struct IndexSnapshot {
    private static let magic: UInt64 = 0x3150_414e_5343_4943  // "CISCNAP1"
    private static let headerBytes = 48
    private static let entryBytes = 32

    private(set) var index = IndexTable()
    let end: StoreWriter.Position

    private static func path(_ directory: String) -> String { directory + "/index" }

    static func remove(directory: String) { unlink(path(directory)) }

    /// Written under another name and renamed: it is there whole or not at all. Left out where it would exceed `limit` bytes.
    static func write(_ state: borrowing ResponseStore.State, end: StoreWriter.Position, directory: String, limit: Int, seed: UInt64) {
        guard headerBytes + state.index.count * entryBytes <= limit else { return }
        let parts = (0..<IndexTable.partCount).map { state.index.slots(ofPart: $0) }
        withBytes(parts, state.segments, end, seed) { save($0, directory) }
    }

    /// The same in memory only, for another process; not open where the machine has none left.
    /// - Parameter parts: of the index, its slots.
    static func inMemory(_ parts: [[IndexEntry]], _ segments: SegmentList, end: StoreWriter.Position, seed: UInt64) -> Descriptor {
        let file = Descriptor(csystem_memory_file("cistern-index"))
        guard file.isOpen else { return file }
        let isWhole = withBytes(parts, segments, end, seed) { WholeWrite.write($0, to: file.number) == $0.count }
        return isWhole ? file : Descriptor(-1)
    }

    private static func withBytes<Result>(
        _ parts: [[IndexEntry]], _ segments: SegmentList, _ end: StoreWriter.Position, _ seed: UInt64,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let count = parts.reduce(0) { $0 + $1.count(where: \.isOccupied) }
        let size = headerBytes + count * entryBytes
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { bytes.deallocate() }
        let numbers = [0, magic, UInt64(count), end.segment, UInt64(end.offset), segmentsSeal(segments)]
        for (index, number) in numbers.enumerated() {
            bytes.storeBytes(of: number.littleEndian, toByteOffset: index * 8, as: UInt64.self)
        }
        var at = headerBytes
        for part in parts {
            for entry in part where entry.isOccupied {
                bytes.storeBytes(of: entry.hash.low.littleEndian, toByteOffset: at, as: UInt64.self)
                bytes.storeBytes(of: entry.hash.high.littleEndian, toByteOffset: at + 8, as: UInt64.self)
                bytes.storeBytes(of: entry.segment.littleEndian, toByteOffset: at + 16, as: UInt64.self)
                bytes.storeBytes(of: entry.offset.littleEndian, toByteOffset: at + 24, as: UInt32.self)
                bytes.storeBytes(of: (entry.flags & IndexEntry.lastingFlags).littleEndian, toByteOffset: at + 28, as: UInt32.self)
                at += entryBytes
            }
        }
        let checksum = RecordHeader.payloadChecksum(bytes.baseAddress! + 8, size - 8, seed: seed)
        bytes.storeBytes(of: checksum.littleEndian, toByteOffset: 0, as: UInt64.self)
        return body(UnsafeRawBufferPointer(bytes))
    }

    /// Number and bytes of all segments.
    private static func segmentsSeal(_ segments: SegmentList) -> UInt64 {
        UInt64(truncatingIfNeeded: segments.count) << 40 | UInt64(truncatingIfNeeded: segments.bytes)
    }

    private static func save(_ bytes: UnsafeRawBufferPointer, _ directory: String) {
        let temporary = path(directory) + ".new"
        unlink(temporary)
        let file = Descriptor(csystem_open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard file.isOpen else { return }
        let isWhole = WholeWrite.write(bytes, to: file.number) == bytes.count && fsync(file.number) == 0
        if isWhole { rename(temporary, path(directory)) } else { unlink(temporary) }
    }

    /// nil where there is none, or it does not fit the segments that are there.
    static func read(directory: String, segments: SegmentList, seed: UInt64) -> IndexSnapshot? {
        read(Descriptor(csystem_open(path(directory), O_RDONLY | Segment.plain, 0)), segments: segments, seed: seed)
    }

    /// The same from a file that is open.
    static func read(_ file: borrowing Descriptor, segments: SegmentList, seed: UInt64) -> IndexSnapshot? {
        guard file.isOpen else { return nil }
        var status = stat()
        guard fstat(file.number, &status) == 0, status.st_size >= headerBytes, status.st_size <= sizeLimit(segments) else { return nil }
        let size = Int(status.st_size)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { bytes.deallocate() }
        var got = 0
        while got < size {
            let count = pread(file.number, bytes.baseAddress! + got, size - got, off_t(got))
            guard count > 0 else { return nil }
            got += count
        }
        return IndexSnapshot(UnsafeRawBufferPointer(bytes), segments, seed: seed)
    }

    /// Each entry has a record of its own.
    private static func sizeLimit(_ segments: SegmentList) -> Int {
        headerBytes + segments.bytes / RecordHeader.bytes * entryBytes
    }

    private init?(_ bytes: UnsafeRawBufferPointer, _ segments: SegmentList, seed: UInt64) {
        func number(_ offset: Int) -> UInt64 { UInt64(littleEndian: bytes.load(fromByteOffset: offset, as: UInt64.self)) }
        let (count, rest) = (bytes.count - Self.headerBytes).quotientAndRemainder(dividingBy: Self.entryBytes)
        guard number(0) == RecordHeader.payloadChecksum(bytes.baseAddress! + 8, bytes.count - 8, seed: seed), number(8) == Self.magic,
            number(16) == UInt64(count), rest == 0, number(40) == Self.segmentsSeal(segments),
            let end = Self.end(segment: number(24), offset: number(32), segments)
        else { return nil }
        self.end = end
        for at in stride(from: Self.headerBytes, to: bytes.count, by: Self.entryBytes) {
            let place = number(at + 24)
            guard number(at + 16) < Segment.numberLimit else { return nil }
            let entry = IndexEntry(
                hash: KeyHash(low: number(at), high: number(at + 8)), segment: number(at + 16),
                offset: UInt32(truncatingIfNeeded: place), flags: UInt32(truncatingIfNeeded: place >> 32) & IndexEntry.lastingFlags)
            guard Self.isWithin(entry, segments, end) else { return nil }
            index.set(entry)
        }
    }

    /// Where the next record goes: within the newest segment, at a place where a record can be found again.
    private static func end(segment: UInt64, offset: UInt64, _ segments: SegmentList) -> StoreWriter.Position? {
        guard segment == segments.newest?.number ?? 0, let offset = Int(exactly: offset), offset <= segments.newest?.size ?? 0,
            offset % RecordHeader.alignment == 0
        else { return nil }
        return StoreWriter.Position(segment: segment, offset: offset)
    }

    /// Whether a record may lie there: what is written next must not take its place.
    private static func isWithin(_ entry: IndexEntry, _ segments: SegmentList, _ end: StoreWriter.Position) -> Bool {
        guard let segment = segments[entry.segment] else { return false }
        return entry.byteOffset + RecordHeader.bytes <= (segment.number == end.segment ? end.offset : segment.size)
    }
}
