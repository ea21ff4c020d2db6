// The snapshot of the index on disk. It is written at a clean stop and removed at the next start, so that it is never older than the
// segments. One checksum covers the whole file. A snapshot with a wrong checksum, or one that does not match the segment files, is
// ignored. The checksum does not prove authenticity, because everyone who can read the key can compute it. So each number is validated
// against the files before use.

import CSystem
import Glibc
import Reactor

struct IndexSnapshot {
    private static let magic: UInt64 = 0x3150_414e_5343_4943  // "CISCNAP1"
    private static let headerBytes = 48
    private static let entryBytes = 32

    private(set) var index = IndexTable()
    let end: StoreWriter.Position

    private static func path(_ directory: String) -> String { directory + "/index" }

    static func remove(directory: String) { unlink(path(directory)) }

    /// Writes the snapshot to a temporary file and renames it, so that it is complete or missing. Skipped if it would exceed `limit` bytes.
    static func write(_ state: borrowing ResponseStore.State, end: StoreWriter.Position, directory: String, limit: Int, seed: UInt64) {
        guard headerBytes + state.index.count * entryBytes <= limit else { return }
        let parts = (0..<IndexTable.partCount).map { state.index.slots(ofPart: $0) }
        withBytes(parts, state.segments, end, seed) { save($0, directory) }
    }

    /// Writes the snapshot to a file in memory, for another process. The returned descriptor is not open if memory is exhausted.
    /// - Parameter parts: the slots of each part of the index.
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
                bytes.storeBytes(of: (entry.flags & ~IndexEntry.noteIsUnwritten).littleEndian, toByteOffset: at + 28, as: UInt32.self)
                at += entryBytes
            }
        }
        let checksum = RecordHeader.payloadChecksum(bytes.baseAddress! + 8, size - 8, seed: seed)
        bytes.storeBytes(of: checksum.littleEndian, toByteOffset: 0, as: UInt64.self)
        return body(UnsafeRawBufferPointer(bytes))
    }

    /// Returns a checksum of the number and total bytes of all segments.
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

    /// Reads the snapshot of the directory; nil if it is missing, invalid or does not match the existing segments.
    static func read(directory: String, segments: SegmentList, seed: UInt64) -> IndexSnapshot? {
        let file = Descriptor(csystem_open(path(directory), O_RDONLY | Segment.plain, 0))
        return read(file, limit: sizeLimit(segments)) { IndexSnapshot($0, segments, seed: seed) }
    }

    /// Reads the snapshot of another process that continues to write. Entries of removed segments, or beyond the snapshot's end, are
    /// ignored.
    static func readHanded(_ file: borrowing Descriptor, segments: SegmentList, seed: UInt64) -> IndexSnapshot? {
        read(file, limit: .max) { IndexSnapshot(inherited: $0, segments, seed: seed) }
    }

    /// Returns the number of the newest segment that the snapshot of another process covers; nil if it cannot be read.
    static func endOfHanded(_ file: borrowing Descriptor) -> UInt64? {
        var number: UInt64 = 0
        let count = pread(file.number, &number, MemoryLayout<UInt64>.size, off_t(endOffset))
        return count == MemoryLayout<UInt64>.size ? UInt64(littleEndian: number) : nil
    }

    private static let endOffset = 24

    private static func read(
        _ file: borrowing Descriptor, limit: Int, _ body: (UnsafeRawBufferPointer) -> IndexSnapshot?
    ) -> IndexSnapshot? {
        guard file.isOpen else { return nil }
        var status = stat()
        guard fstat(file.number, &status) == 0, status.st_size >= headerBytes, status.st_size <= limit else { return nil }
        let size = Int(status.st_size)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { bytes.deallocate() }
        var got = 0
        while got < size {
            let count = pread(file.number, bytes.baseAddress! + got, size - got, off_t(got))
            guard count > 0 else { return nil }
            got += count
        }
        return body(UnsafeRawBufferPointer(bytes))
    }

    /// Maximum size of a snapshot: each entry refers to a separate record.
    private static func sizeLimit(_ segments: SegmentList) -> Int {
        headerBytes + segments.bytes / RecordHeader.bytes * entryBytes
    }

    private init?(_ bytes: UnsafeRawBufferPointer, _ segments: SegmentList, seed: UInt64) {
        guard let header = Header(bytes, seed: seed), header.seal == Self.segmentsSeal(segments),
            header.end.segment == segments.newest?.number ?? 0, header.end.offset <= segments.newest?.size ?? 0
        else { return nil }
        end = header.end
        for at in stride(from: Self.headerBytes, to: bytes.count, by: Self.entryBytes) {
            guard let entry = Self.entry(bytes, at), Self.isWithin(entry, segments, end) else { return nil }
            index.set(entry)
        }
    }

    private init?(inherited bytes: UnsafeRawBufferPointer, _ segments: SegmentList, seed: UInt64) {
        guard let header = Header(bytes, seed: seed) else { return nil }
        end = header.end
        for at in stride(from: Self.headerBytes, to: bytes.count, by: Self.entryBytes) {
            guard let entry = Self.entry(bytes, at) else { return nil }
            if entry.segment <= end.segment, Self.isWithin(entry, segments, end) { index.set(entry) }
        }
    }

    private struct Header {
        /// Position of the next record; aligned to `RecordHeader.alignment`.
        let end: StoreWriter.Position
        let seal: UInt64

        init?(_ bytes: UnsafeRawBufferPointer, seed: UInt64) {
            let (count, rest) = (bytes.count - headerBytes).quotientAndRemainder(dividingBy: entryBytes)
            guard number(bytes, 0) == RecordHeader.payloadChecksum(bytes.baseAddress! + 8, bytes.count - 8, seed: seed),
                number(bytes, 8) == magic, number(bytes, 16) == UInt64(count), rest == 0, number(bytes, endOffset) < Segment.numberLimit,
                let offset = Int(exactly: number(bytes, 32)), offset % RecordHeader.alignment == 0
            else { return nil }
            end = StoreWriter.Position(segment: number(bytes, endOffset), offset: offset)
            seal = number(bytes, 40)
        }
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: bytes.load(fromByteOffset: offset, as: UInt64.self))
    }

    private static func entry(_ bytes: UnsafeRawBufferPointer, _ at: Int) -> IndexEntry? {
        let packed = number(bytes, at + 24)
        guard number(bytes, at + 16) < Segment.numberLimit else { return nil }
        return IndexEntry(
            hash: KeyHash(low: number(bytes, at), high: number(bytes, at + 8)), segment: number(bytes, at + 16),
            offset: UInt32(truncatingIfNeeded: packed), flags: UInt32(truncatingIfNeeded: packed >> 32) & ~IndexEntry.noteIsUnwritten)
    }

    /// Whether the entry refers to written bytes of an existing segment. The next record must not overwrite a referenced one.
    private static func isWithin(_ entry: IndexEntry, _ segments: SegmentList, _ end: StoreWriter.Position) -> Bool {
        guard let segment = segments[entry.segment] else { return false }
        return entry.byteOffset + RecordHeader.bytes <= (segment.number == end.segment ? end.offset : segment.size)
    }
}
