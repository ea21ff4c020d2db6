// Properties of eviction: look-ups keep items, whatever else is stored, and used items displace each other by their uses.

import TestSupport
import Testing

@testable import CacheStore

@Suite("Items that eviction keeps")
struct EvictionTests {
    private static let (capacity, segment) = (4 << 20, 256 << 10)

    /// Stores items that nobody looks up.
    /// - Parameter bytes: total size of the items.
    private static func scan(_ store: ResponseStore, _ bytes: Int, from first: inout Int, _ random: inout SeededGenerator) {
        var rest = bytes
        while rest > 0 {
            let size = random.pick([500, 5_000, 50_000]) + random.below(1_000)
            store.insert(item(first, size, retention: random.chance(90) ? .mayRescue : .whenUsed))
            (first, rest) = (first + 1, rest - size)
            if random.chance(20) { store.flush() }
        }
        store.flush()
    }

    @Test("random schedules: items that look-ups used survive items of many times the store's size that nobody looks up", arguments: 0..<4)
    func scan(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let directory = try Directory()
        var store = try directory.open(Self.capacity, segment: Self.segment)
        let used = (0..<(20 + random.below(100))).map { ($0, 200 + random.below(6_000)) }
        var next = 1_000
        for (number, size) in used {
            store.insert(item(number, size))
            store.flush()
            for _ in 0..<2 { #expect(stored(store, number) != nil) }
            if random.chance(50) { Self.scan(store, 1 + random.below(Self.segment), from: &next, &random) }
            _ = stored(store, random.below(number + 1))
        }
        for _ in 0..<3 {
            Self.scan(store, Self.capacity * (1 + random.below(3)), from: &next, &random)
            // A clean restart keeps what is known about the items.
            if random.chance(50) {
                store.close()
                store = try directory.open(Self.capacity, segment: Self.segment)
            }
        }
        #expect(store.statistics.reinserted > 0 || store.statistics.opening.isFromSnapshot)
        let lost = used.filter { number, size in stored(store, number) != body(number, size) }.map(\.0)
        #expect(lost.isEmpty, "seed \(seed)")
    }

    @Test("a newer response to a used key is used")
    func replaced() throws {
        let directory = try Directory()
        let store = try directory.open(Self.capacity, segment: Self.segment)
        var random = SeededGenerator(seed: 1)
        var next = 1_000
        for number in 1...2 { store.insert(item(number)) }
        store.flush()
        #expect(stored(store, 1) == body(1))
        for number in 1...2 { store.insert(item(number, 600)) }
        store.flush()
        Self.scan(store, Self.capacity * 2, from: &next, &random)
        let isKept = stored(store, 1) == body(1, 600)
        #expect(isKept && stored(store, 2) == nil)
    }

    @Test("items that were used in several rounds outlive more items that were used once")
    func pressed() throws {
        let directory = try Directory()
        let store = try directory.open(Self.capacity, segment: Self.segment)
        let (size, favourites) = (4_000, Array(0..<20))
        var next = 1_000
        /// Stores items that take half of the store. Each of them is looked up once.
        func replaceHalf() {
            for _ in 0..<Self.capacity / 2 / size / 20 {
                for number in next..<next + 20 { store.insert(item(number, size)) }
                store.flush()
                for number in next..<next + 20 { _ = stored(store, number) }
                next += 20
            }
        }
        for number in favourites { store.insert(item(number, size)) }
        store.flush()
        for _ in 0..<5 {
            #expect(favourites.allSatisfy { stored(store, $0) != nil })
            replaceHalf()
        }
        replaceHalf()
        #expect(favourites.allSatisfy { stored(store, $0) != nil })
        for _ in 0..<24 { replaceHalf() }
        #expect(favourites.allSatisfy { stored(store, $0) == nil }, "items that nobody looks up any more are displaced")
    }

    @Test(
        "the uses of an item grow with used records, and fall only under pressure",
        arguments: [
            (0, true, true, 1), (0, true, false, 1), (2, true, true, 3), (3, true, true, 3), (1, false, false, 1), (3, false, true, 2),
            (1, false, true, 0),
        ] as [(UInt32, Bool, Bool, UInt32)])
    func uses(before: UInt32, isUsed: Bool, isPressed: Bool, after: UInt32) {
        let header = RecordHeader(kind: .item, hash: .zero, uses: before)
        let record = EvictedRecord(header: header, offset: 0, isUsed: isUsed)
        #expect(record.isWanted && record.usesAfter(isPressed: isPressed) == after)
    }

    @Test("items are kept in the order of their retention and then of their uses; unused items are not kept")
    func order() {
        func record(_ retention: Retention, _ uses: UInt32, isUsed: Bool = false) -> EvictedRecord {
            EvictedRecord(header: RecordHeader(kind: .item, retention: retention, hash: .zero, uses: uses), offset: 0, isUsed: isUsed)
        }
        let all = [
            record(.always, 0), record(.outlives, 0), record(.mayRescue, 2, isUsed: true), record(.mayRescue, 2), record(.mayRescue, 1),
            record(.whenUsed, 3),
        ]
        for (index, one) in all.enumerated() {
            #expect(one.isWanted)
            for other in all[(index + 1)...] { #expect(EvictedRecord.precedes(one, other) && !EvictedRecord.precedes(other, one)) }
        }
        #expect(!record(.mayRescue, 0).isWanted && !record(.whenUsed, 0).isWanted)
    }
}
