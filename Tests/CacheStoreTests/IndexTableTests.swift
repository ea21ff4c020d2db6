// Compares the index with a dictionary. In particular, closing the gap of a removed entry must not lose later entries.

import TestSupport
import Testing

@testable import CacheStore

@Suite("The index")
struct IndexTableTests {
    /// Hashes that collide in a few slots of one part, so that almost every removal has a gap to close.
    private static func hash(_ number: UInt64) -> KeyHash { KeyHash(low: number % 5 &+ number << 32, high: 64 &* number) }

    private static func entry(_ number: UInt64, offset: Int) -> IndexEntry {
        IndexEntry(hash: hash(number), segment: number, byteOffset: offset * RecordHeader.alignment, isMarkedStale: false)
    }

    private struct Walk {
        var table = IndexTable()
        var reference: [UInt64: Int] = [:]

        mutating func step(_ random: inout SeededGenerator) throws {
            let (number, offset) = (UInt64.random(in: 1...60, using: &random), random.below(4_000))
            if random.isTrue() {
                try demand(table.set(entry(number, offset: offset)) == (reference.updateValue(offset, forKey: number) != nil))
            } else {
                try demand(table.remove(hash(number)) == (reference.removeValue(forKey: number) != nil))
            }
            try demand(table.count == reference.count)
            for number in 1...60 as ClosedRange<UInt64> {
                try demand(table.find(hash(number))?.byteOffset == reference[number].map { $0 * RecordHeader.alignment }, "\(number)")
            }
        }
    }

    @Test("setting, replacing and removing in any order agree with a dictionary")
    func walk() {
        RandomSchedules.run(8, steps: 1_000) { _ in
            Walk()
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("a gap at the end of the slots is filled by entries that wrapped to the beginning")
    func wrapAround() {
        var table = IndexTable()
        // Their home slot is the last of the smallest part, whatever its size.
        let hashes = (1...3).map { KeyHash(low: .max, high: 64 * UInt64($0)) }
        for (place, hash) in hashes.enumerated() {
            table.set(IndexEntry(hash: hash, segment: 1, byteOffset: place * RecordHeader.alignment, isMarkedStale: false))
        }
        table.remove(hashes[0])
        #expect(table.find(hashes[1])?.byteOffset == RecordHeader.alignment)
        #expect(table.find(hashes[2])?.byteOffset == 2 * RecordHeader.alignment)
    }

    @Test("changed notes are taken from a limited number of slots at a time, and each of them once")
    func notes() {
        var table = IndexTable()
        // All in one part.
        let hashes = (1...40_000 as ClosedRange<UInt64>).map { KeyHash(low: $0 &* 0x9e37_79b9_7f4a_7c15, high: 64 &* $0) }
        for hash in hashes {
            table.set(IndexEntry(hash: hash, segment: 1, byteOffset: 0, isMarkedStale: false))
            table.setNote(7, of: hash)
        }
        var (taken, calls): ([KeyHash], Int) = ([], 0)
        var next: IndexTable.SlotPosition? = .init()
        while let position = next, position.part == 0 {
            let found = table.takeUnwrittenNotes(from: position)
            #expect(found.notes.count <= IndexTable.slotsAtOnce)
            (taken, next, calls) = (taken + found.notes.map(\.hash), found.next, calls + 1)
        }
        #expect(Set(taken) == Set(hashes) && taken.count == hashes.count && table.unwrittenNotes == 0 && calls >= 4)
    }
}
