// Tests of the three additional values that an index entry packs into the bits left by its location. None may change another.

import Testing

@testable import CacheStore

@Suite("Entries of the index")
struct IndexEntryTests {
    private static let lastSegment = Segment.numberLimit - 1
    private static let largestNote: UInt32 = (1 << 27) - 1

    @Test("an index entry takes 32 bytes")
    func size() { #expect(MemoryLayout<IndexEntry>.stride == 32) }

    @Test("address, note, mark and flags are stored independently", arguments: [1, lastSegment], [0, 1, largestNote])
    func parts(segment: UInt64, note: UInt32) {
        for mark: UInt32 in [0, 1, 65_535] {
            var entry = IndexEntry(hash: KeyHash(low: 1, high: 2), segment: segment, byteOffset: 4_096, isMarkedStale: true)
            entry.inMemoryMark = mark
            entry.note = note
            entry.flags |= IndexEntry.used
            #expect(entry.inMemoryMark == mark && entry.note == note && entry.leads(to: segment, 4_096))
            #expect(entry.flags & ~(IndexEntry.noteMask << 4) == IndexEntry.markedStale | IndexEntry.used && !entry.isNoteUnwritten)
            (entry.note, entry.inMemoryMark) = (0, 0)
            #expect(entry.flags == IndexEntry.markedStale | IndexEntry.used && entry.segment == segment)
        }
    }

    @Test("loading an item keeps its note, and setting a note keeps its in-memory mark")
    func table() {
        let hash = KeyHash(low: 1, high: 2)
        var table = IndexTable()
        let entry = IndexEntry(hash: hash, segment: Self.lastSegment, byteOffset: 8, isMarkedStale: false)
        table.set(entry)
        table.setNote(7, of: hash)
        table.noteInMemory(entry, 9)
        #expect(table.find(hash)?.note == 7 && table.find(hash)?.inMemoryMark == 9)
        table.setNote(Self.largestNote, of: hash)
        table.markUsed(hash)
        table.markAllStale()
        #expect(table.find(hash)?.note == Self.largestNote && table.find(hash)?.inMemoryMark == 9)
        table.noteInMemory(IndexEntry(hash: hash, segment: 1, byteOffset: 8, isMarkedStale: false), 3)
        #expect(table.find(hash)?.inMemoryMark == 9, "a mark of another address does not apply")
    }
}
