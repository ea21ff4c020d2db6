// Tests of listing stored items, and of durable purges.

import Testing

@testable import CacheStore

@Suite("Listing and purging the store")
struct ListingTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try #require(TemporaryDirectory("cistern-store")) }

    private func open() throws -> ResponseStore {
        try ResponseStore(StoreSettings(directory: directory.path, capacityBytes: 8 << 20, segmentBytes: 1 << 20))
    }

    private func key(_ number: Int) -> [UInt8] { Array("key-\(number)".utf8) }

    private func put(_ numbers: Range<Int>, in store: ResponseStore) {
        for number in numbers {
            store.insert(NewItem(key: key(number), metadata: [1], head: [2], body: key(number), retention: .mayRescue))
        }
    }

    private func keys(of store: ResponseStore) -> [String] {
        var keys: [String] = []
        store.visitAll { keys.append(String(decoding: $0.key, as: UTF8.self)) }
        return keys.sorted()
    }

    private func isMarked(_ number: Int, in store: ResponseStore) -> Bool? { store.lookUp(key(number).span)?.isMarkedStale }

    @Test("every item is visited once, waiting or written, and found by its ID")
    func visiting() throws {
        let store = try open()
        put(0..<300, in: store)
        #expect(keys(of: store) == (0..<300).map { "key-\($0)" }.sorted())
        store.flush()
        #expect(keys(of: store) == (0..<300).map { "key-\($0)" }.sorted())
        let id = store.id(of: key(7))
        #expect(StoredItemID(id.description) == id)
        #expect(store.item(id).map { Array($0.key) } == key(7))
        #expect(store.item(store.id(of: key(301))) == nil)
        for text in [
            "", "0", String(repeating: "g", count: 32), String(repeating: "+", count: 32), "é" + String(repeating: "0", count: 30),
        ] {
            #expect(StoredItemID(text) == nil)
        }
    }

    @Test("a stale mark survives clean and unclean restarts, until a newer item is stored", arguments: [false, true])
    func marks(isClean: Bool) throws {
        do {
            let store = try open()
            put(0..<10, in: store)
            #expect(store.markStale(store.id(of: key(1))))
            store.flush()
            #expect(store.markStale(store.id(of: key(2))))
            #expect(!store.markStale(store.id(of: key(99))))
            #expect(isMarked(1, in: store) == true && isMarked(2, in: store) == true && isMarked(3, in: store) == false)
            store.synchronize()
            if isClean { store.close() }
        }
        do {
            let store = try open()
            #expect(store.statistics.opening.isFromSnapshot == isClean)
            #expect(isMarked(1, in: store) == true && isMarked(2, in: store) == true && isMarked(3, in: store) == false)
            put(1..<2, in: store)
            #expect(isMarked(1, in: store) == false)
            store.flush()
            #expect(isMarked(1, in: store) == false)
        }
        let store = try open()
        #expect(isMarked(1, in: store) == false && isMarked(2, in: store) == true)
    }

    @Test("everything can be marked stale at once, including waiting items; later items are not marked")
    func markAll() throws {
        do {
            let store = try open()
            put(0..<5, in: store)
            store.flush()
            put(5..<10, in: store)
            store.markAllStale()
            put(10..<12, in: store)
            store.flush()
        }
        let store = try open()
        for number in 0..<12 { #expect(isMarked(number, in: store) == (number < 10)) }
    }

    @Test("an item purged during the eviction of its segment does not return, and a mark outlives its segment")
    func eviction() throws {
        let store = try open()
        put(0..<10, in: store)
        store.flush()
        for number in 0..<10 { _ = store.lookUp(key(number).span) }
        _ = store.markStale(store.id(of: key(1)))
        _ = store.remove(store.id(of: key(2)))
        for number in 0..<12_000 {
            store.insert(
                NewItem(key: key(1_000 + number), metadata: [1], head: [2], body: Array(repeating: 7, count: 1_000), retention: .mayRescue))
            if number % 500 == 0 {
                store.flush()
                for number in 0..<10 { _ = store.lookUp(key(number).span) }
            }
        }
        store.flush()
        #expect(store.statistics.evicted > 0)
        #expect(isMarked(0, in: store) == false)
        #expect(isMarked(1, in: store) == true)
        #expect(isMarked(2, in: store) == nil)
    }
}
