// Tests that a memorized look-up is valid until any entry under its keys changes, and no longer.

import Testing

@testable import CacheStore

@Suite("The basis of a lookup")
struct ChangeCountsTests {
    struct Row: CustomTestStringConvertible {
        let testDescription: String
        let holds: Bool
        let change: @Sendable (ResponseStore) -> Void

        init(_ sentence: String, holds: Bool = false, _ change: @escaping @Sendable (ResponseStore) -> Void) {
            (testDescription, self.holds, self.change) = (sentence, holds, change)
        }
    }

    @Test(
        "a basis ends with each change under its keys, including insertions where nothing was stored",
        arguments: [
            Row("the item is replaced") { $0.insert(item(1)) },
            Row("an item is inserted under an empty key") { $0.insert(item(2)) },
            Row("the item is removed") { $0.remove(key(1).span) },
            Row("the item is removed on disk") {
                $0.flush()
                $0.remove(key(1).span)
            },
            Row("the item is removed if unchanged") { store in
                _ = store.see(key(1).span).item.map { store.remove(key(1).span, ifStill: $0) }
            },
            Row("an empty key is removed") { $0.remove(key(2).span) },
            Row("the item is marked stale before it is written") { _ = $0.markStale($0.id(of: key(1))) },
            Row("the item is marked stale on disk") {
                $0.flush()
                _ = $0.markStale($0.id(of: key(1)))
            },
            Row("all items are marked stale") { $0.markAllStale() },
            Row("all items are removed") { $0.removeAll() },
            Row("a note is set on the item") { store in
                if let item = store.see(key(1).span).item { store.setNote(7, of: key(1).span, ifStill: item) }
            },
            Row("lookups use other keys from now on") { $0.noteChange() },
            Row("the item is evicted") { store in
                for number in 100..<180 { store.insert(item(number, 100_000)) }
                store.flush()
            },
            Row("another item is inserted", holds: true) { $0.insert(item(3)) },
            Row("another item is removed", holds: true) { $0.remove(key(3).span) },
            Row("waiting items are written", holds: true) { $0.flush() },
            Row("the item is looked up", holds: true) { _ = $0.lookUp(key(1).span) },
        ])
    func changes(_ row: Row) throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        store.insert(item(1))
        var basis = LookUpBasis()
        #expect(store.lookUp(key(1).span, &basis) != nil && store.lookUp(key(2).span, &basis) == nil)
        #expect(store.holds(basis))
        row.change(store)
        #expect(store.holds(basis) == row.holds)
    }

    @Test("dropping a damaged item ends the basis")
    func damaged() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        store.flush()
        var basis = LookUpBasis()
        #expect(store.lookUp(key(1).span, &basis) != nil)
        directory.flip(try #require(directory.segments.first), at: RecordHeader.bytes + 20)
        #expect(store.lookUp(key(1).span) == nil && !store.holds(basis))
    }

    @Test("a basis with too many keys or an uncounted dependency never holds")
    func unknown() throws {
        let store = try Directory().open()
        var basis = LookUpBasis()
        for number in 1...8 { _ = store.lookUp(key(number).span, &basis) }
        #expect(store.holds(basis))
        _ = store.lookUp(key(9).span, &basis)
        #expect(!store.holds(basis))
        var unknown = LookUpBasis()
        #expect(store.holds(unknown))
        unknown.noteUnknown()
        #expect(!store.holds(unknown))
        _ = store.lookUp(key(1).span, &unknown)
        #expect(!store.holds(unknown))
    }
}

extension ResponseStore {
    fileprivate func lookUp(_ key: Span<UInt8>, _ basis: inout LookUpBasis) -> StoredItem? { try? find(key, &basis, mayWait: true) }
}
