// Tests of snapshots with a valid checksum and invalid content, as written by an attacker with the key, or because of a bug.

import CSystem
import Glibc
import Reactor
import Testing

@testable import CacheStore

/// Eight bytes of the snapshot, with their replacement.
struct SnapshotRow: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let place: Int
    let number: UInt64
    /// Number of bytes added at the end; negative if removed.
    var growth = 0

    static let end = 32
    static let firstEntry = 48
    static let segmentOfEntry = firstEntry + 16
    static let placeOfEntry = firstEntry + 24
}

@Suite("Snapshots with a valid checksum and wrong content")
struct SnapshotTests {
    private static let rows = [
        SnapshotRow(testDescription: "an entry in segment 2^63", place: SnapshotRow.segmentOfEntry, number: 1 << 63),
        SnapshotRow(testDescription: "an entry in the last possible segment", place: SnapshotRow.segmentOfEntry, number: .max),
        SnapshotRow(testDescription: "an entry in segment 2^48 + 1", place: SnapshotRow.segmentOfEntry, number: 1 << 48 + 1),
        SnapshotRow(testDescription: "an entry in a missing segment", place: SnapshotRow.segmentOfEntry, number: 2),
        SnapshotRow(testDescription: "an entry after its segment's end", place: SnapshotRow.placeOfEntry, number: UInt64(UInt32.max)),
        SnapshotRow(testDescription: "an entry after the end of the written data", place: SnapshotRow.placeOfEntry, number: 100_000),
        SnapshotRow(testDescription: "an end that is not a multiple of 8", place: SnapshotRow.end, number: 4_097),
        SnapshotRow(testDescription: "an end after its segment", place: SnapshotRow.end, number: 1 << 20 + 8),
        SnapshotRow(testDescription: "an end that exceeds Int", place: SnapshotRow.end, number: .max),
        SnapshotRow(testDescription: "an end near the largest Int", place: SnapshotRow.end, number: UInt64(Int.max) & ~7),
        SnapshotRow(testDescription: "an end before the entries", place: SnapshotRow.end, number: 0),
        SnapshotRow(testDescription: "a truncated last entry", place: 16, number: 20, growth: 8),
        SnapshotRow(testDescription: "one entry fewer than declared", place: 16, number: 20, growth: -32),
    ]

    @Test("the snapshot is refused, all records are found without it, and new ones are stored", arguments: rows)
    func isRefused(_ row: SnapshotRow) throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<20 { store.insert(item(number, 60)) }
            store.flush()
            store.close()
            try rewrite(directory.path + "/index", row, seed: store.seed)
        }
        do {
            let store = try directory.open()
            #expect(!store.statistics.opening.isFromSnapshot)
            for number in 0..<20 { #expect(stored(store, number) == body(number, 60)) }
            #expect(store.insert(item(20)) == .accepted)
            store.flush()
            #expect(stored(store, 20) == body(20))
        }
        // Without a valid snapshot, the records alone are read.
        let store = try directory.open()
        for number in 0..<20 { #expect(stored(store, number) == body(number, 60)) }
        #expect(stored(store, 20) == body(20))
    }

    private func rewrite(_ path: String, _ row: SnapshotRow, seed: UInt64) throws {
        var bytes = try #require(FileContent.read(path))
        try #require(bytes.count == 48 + 20 * 32)
        bytes = row.growth < 0 ? bytes.dropLast(-row.growth) : bytes + Array(repeating: 0, count: row.growth)
        bytes.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(of: row.number.littleEndian, toByteOffset: row.place, as: UInt64.self)
            let checksum = RecordHeader.payloadChecksum(bytes.baseAddress! + 8, bytes.count - 8, seed: seed)
            bytes.storeBytes(of: checksum.littleEndian, as: UInt64.self)
        }
        let descriptor = csystem_open(path, O_WRONLY | O_TRUNC, 0)
        defer { close(descriptor) }
        try #require(write(descriptor, bytes, bytes.count) == bytes.count)
    }
}
