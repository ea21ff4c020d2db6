// The index beside a dictionary: above all, that closing the gap of what is removed loses nothing that lies behind it.

import TestSupport
import Testing

@testable import CacheStore

@Suite("The index")
struct IndexTableTests {
    /// Hashes that crowd into few slots of one part, so that almost every removal has a gap to close.
    private static func hash(_ number: UInt64) -> KeyHash { KeyHash(low: number % 5 &+ number << 32, high: 64 &* number) }

    private static func entry(_ number: UInt64, offset: Int) -> IndexEntry {
        IndexEntry(hash: hash(number), segment: number, byteOffset: offset * RecordHeader.alignment, isMarkedStale: false)
    }

    @Test("setting, replacing and removing in any order agree with a dictionary", arguments: 1...8 as ClosedRange<UInt64>)
    func walk(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var table = IndexTable()
        var reference: [UInt64: Int] = [:]
        for step in 0..<4_000 {
            let number = UInt64.random(in: 1...60, using: &random)
            if Bool.random(using: &random) {
                #expect(table.set(Self.entry(number, offset: step)) == (reference.updateValue(step, forKey: number) != nil))
            } else {
                #expect(table.remove(Self.hash(number)) == (reference.removeValue(forKey: number) != nil))
            }
            let asked = UInt64.random(in: 1...60, using: &random)
            #expect(table.find(Self.hash(asked))?.byteOffset == reference[asked].map { $0 * RecordHeader.alignment })
            #expect(table.count == reference.count)
        }
        for number: UInt64 in 1...60 {
            #expect((table.find(Self.hash(number)) != nil) == (reference[number] != nil))
        }
    }

    @Test("a gap at the end of the slots is closed by what went round to their beginning")
    func goingRound() {
        var table = IndexTable()
        // The last slot of the smallest part is their home, whatever the part's size.
        let hashes = (1...3).map { KeyHash(low: .max, high: 64 * UInt64($0)) }
        for (place, hash) in hashes.enumerated() {
            table.set(IndexEntry(hash: hash, segment: 1, byteOffset: place * RecordHeader.alignment, isMarkedStale: false))
        }
        table.remove(hashes[0])
        #expect(table.find(hashes[1])?.byteOffset == RecordHeader.alignment)
        #expect(table.find(hashes[2])?.byteOffset == 2 * RecordHeader.alignment)
    }
}
