// Tests of the numbers that are kept with stored items.

import Testing

@testable import CacheStore

@Suite("Notes on stored items")
struct NoteTests {
    private static let largest: UInt32 = (1 << 27) - 1

    private func found(_ store: ResponseStore, _ number: Int) -> StoredItem? {
        let bytes = key(number)
        return store.lookUp(bytes.span)
    }

    private func note(_ store: ResponseStore, _ number: Int) -> UInt32? { found(store, number)?.note }

    private func set(_ store: ResponseStore, _ note: UInt32, of number: Int) throws {
        let item = try #require(found(store, number))
        let bytes = key(number)
        store.setNote(note, of: bytes.span, ifStill: item)
    }

    @Test("a note stays with its item: waiting, written, and kept during eviction")
    func stays() throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        store.insert(item(1))
        #expect(note(store, 1) == 0)
        try set(store, 7, of: 1)
        #expect(note(store, 1) == 7)
        store.flush()
        #expect(note(store, 1) == 7)
        try set(store, Self.largest, of: 1)
        #expect(note(store, 1) == Self.largest)
        try set(store, 9, of: 1)
        #expect(note(store, 1) == Self.largest, "an older value does not replace a newer one")
        for number in 100..<104 {
            for other in 0..<1_500 { store.insert(item(number * 10_000 + other)) }
            store.flush()
            #expect(stored(store, 1) == body(1))
        }
        #expect(note(store, 1) == Self.largest)
        #expect(store.statistics.reinserted > 0)
    }

    @Test("a replacement has no note, and a note survives a restart")
    func goes() throws {
        let directory = try Directory()
        var store = try directory.open()
        store.insert(item(1))
        store.flush()
        let old = try #require(found(store, 1))
        store.insert(item(1))
        let bytes = key(1)
        store.setNote(5, of: bytes.span, ifStill: old)
        #expect(note(store, 1) == 0)
        store.flush()
        #expect(note(store, 1) == 0)
        try set(store, 5, of: 1)
        store.close()
        store = try directory.open()
        #expect(note(store, 1) == 5)
        #expect(stored(store, 1) == body(1))
    }

    @Test("marking an item stale keeps its note, and then the item takes no other")
    func marks() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        try set(store, 5, of: 1)
        store.markAllStale()
        #expect(found(store, 1)?.isMarkedStale == true && note(store, 1) == 5)
        store.flush()
        try set(store, 6, of: 1)
        #expect(found(store, 1)?.isMarkedStale == true && note(store, 1) == 5)
    }

    @Test("a replaced head leaves the rest of the item unchanged")
    func heads() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        let changed = try #require(found(store, 1)).replacingHead([1, 2])
        #expect(Array(changed.head) == [1, 2])
        #expect(withExtendedLifetime(changed.owner) { Array(changed.body) } == body(1))
    }
}
