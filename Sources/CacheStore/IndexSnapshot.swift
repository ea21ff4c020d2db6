// The index on disk, written at a clean stop and taken away at the next start: so it is never older than the segments. One checksum over
// all of it; a snapshot that does not check out, or does not fit the files that are there, is as good as none.

import CSystem
import Glibc

struct IndexSnapshot {
    private static let magic: UInt64 = 0x3150_414e_5343_4943  // "CISCNAP1"
    private static let headerBytes = 48
    private static let entryBytes = 32

    private(set) var index = IndexTable()
    private(set) var end = StoreWriter.Position(segment: 0, offset: 0)
    private var segmentCount = 0
    private var segmentBytes = 0

    private static func path(_ directory: String) -> String { directory + "/index" }

    static func remove(directory: String) { unlink(path(directory)) }

    /// Whether exactly the segments are there that were there when it was written.
    func fits(_ segments: SegmentList) -> Bool {
        segments.count == segmentCount && segments.newest?.number ?? 0 == end.segment && segments.bytes == segmentBytes
    }

    /// Written under another name and renamed: it is there whole or not at all. Left out where it would exceed `limit` bytes.
    static func write(_ state: borrowing ResponseStore.State, end: StoreWriter.Position, directory: String, limit: Int, seed: UInt64) {
        let size = headerBytes + state.index.count * entryBytes
        guard size <= limit else { return }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { bytes.deallocate() }
        let numbers = [
            0, magic, UInt64(state.index.count), end.segment, UInt64(end.offset),
            UInt64(state.segments.count) << 40 | UInt64(state.segments.bytes),
        ]
        for (index, number) in numbers.enumerated() {
            bytes.storeBytes(of: number.littleEndian, toByteOffset: index * 8, as: UInt64.self)
        }
        var at = headerBytes
        state.index.visitAll { entry in
            bytes.storeBytes(of: entry.hash.low.littleEndian, toByteOffset: at, as: UInt64.self)
            bytes.storeBytes(of: entry.hash.high.littleEndian, toByteOffset: at + 8, as: UInt64.self)
            bytes.storeBytes(of: entry.segment.littleEndian, toByteOffset: at + 16, as: UInt64.self)
            bytes.storeBytes(of: entry.offset.littleEndian, toByteOffset: at + 24, as: UInt32.self)
            bytes.storeBytes(of: entry.flags.littleEndian, toByteOffset: at + 28, as: UInt32.self)
            at += entryBytes
        }
        let checksum = RecordHeader.payloadChecksum(bytes.baseAddress! + 8, size - 8, seed: seed)
        bytes.storeBytes(of: checksum.littleEndian, toByteOffset: 0, as: UInt64.self)
        save(UnsafeRawBufferPointer(bytes), directory)
    }

    private static func save(_ bytes: UnsafeRawBufferPointer, _ directory: String) {
        let temporary = path(directory) + ".new"
        unlink(temporary)
        let descriptor = csystem_open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return }
        var written = 0
        while written < bytes.count {
            let count = Glibc.write(descriptor, bytes.baseAddress! + written, bytes.count - written)
            guard count > 0 else { break }
            written += count
        }
        let isWhole = written == bytes.count && fsync(descriptor) == 0
        close(descriptor)
        if isWhole { rename(temporary, path(directory)) } else { unlink(temporary) }
    }

    static func read(directory: String, seed: UInt64) -> IndexSnapshot? {
        let descriptor = csystem_open(path(directory), O_RDONLY | Segment.plain, 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_size >= headerBytes else { return nil }
        let size = Int(status.st_size)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { bytes.deallocate() }
        var got = 0
        while got < size {
            let count = Glibc.read(descriptor, bytes.baseAddress! + got, size - got)
            guard count > 0 else { return nil }
            got += count
        }
        return parse(UnsafeRawBufferPointer(bytes), seed: seed)
    }

    private static func parse(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> IndexSnapshot? {
        func number(_ offset: Int) -> UInt64 { UInt64(littleEndian: bytes.load(fromByteOffset: offset, as: UInt64.self)) }
        guard number(0) == RecordHeader.payloadChecksum(bytes.baseAddress! + 8, bytes.count - 8, seed: seed), number(8) == magic,
            number(16) == UInt64((bytes.count - headerBytes) / entryBytes)
        else { return nil }
        var snapshot = IndexSnapshot()
        snapshot.end = StoreWriter.Position(segment: number(24), offset: Int(number(32)))
        snapshot.segmentCount = Int(number(40) >> 40)
        snapshot.segmentBytes = Int(number(40) & (1 << 40 - 1))
        for at in stride(from: headerBytes, to: bytes.count, by: entryBytes) {
            let place = number(at + 24)
            snapshot.index.set(
                IndexEntry(
                    hash: KeyHash(low: number(at), high: number(at + 8)), segment: number(at + 16),
                    offset: UInt32(truncatingIfNeeded: place), flags: UInt32(truncatingIfNeeded: place >> 32)))
        }
        return snapshot
    }
}
