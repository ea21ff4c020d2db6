// Tests of lowering the store's limit: evictions do not lose marks that younger items need.

import CSystem
import Glibc
import TakeOver
import Testing

@testable import CacheStore

@Suite("A store with a reduced size")
struct SmallerStoreTests {
    private let directory: Directory

    init() throws { directory = try Directory() }

    private func fill(cleanly: Bool) throws {
        let store = try fill()
        if cleanly { store.close() }
    }

    /// Two marks, and enough segments to push them out of a store of 4 MiB.
    private func fill() throws -> ResponseStore {
        let store = try directory.open(16 << 20)
        store.insert(item(1, retention: .outlives))
        store.insert(item(2, retention: .always))
        for number in 10..<100 { store.insert(item(number, 100_000)) }
        store.flush()
        return store
    }

    @Test("records that outlive their segment are kept at this start and the next", arguments: [true, false])
    func keepsMarks(cleanly: Bool) throws {
        try fill(cleanly: cleanly)
        try #require(directory.segments.count > 8)
        for isFirst in [true, false] {
            let store = try directory.open(4 << 20)
            let overLimit = store.statistics.opening.overLimit
            #expect(isFirst ? (40...88).contains(overLimit) : overLimit == 0, "\(overLimit)")
            #expect(stored(store, 1) == body(1) && stored(store, 2) == body(2))
            #expect(stored(store, 10) == nil && stored(store, 99) == body(99, 100_000))
            #expect(directory.segments.reduce(0) { $0 + directory.size($1) } <= 4 << 20)
            #expect(store.statistics.pendingBytes == 0 && store.statistics.writeErrors == 0)
            var visited = 0
            store.visitAll { _ in visited += 1 }
            #expect(store.statistics.entries == visited)
        }
    }

    @Test("records that outlive their segment are kept if the segment size changes too", arguments: [1 << 19, 1 << 20])
    func otherSegments(segment: Int) throws {
        try fill(cleanly: true)
        for _ in 0..<2 {
            let store = try directory.open(4 << 20, segment: segment)
            #expect(stored(store, 1) == body(1) && stored(store, 2) == body(2))
            for number in 200..<250 {
                store.insert(item(number, 100_000))
                store.flush()
                #expect(directory.segments.reduce(0) { $0 + directory.size($1) } <= 4 << 20)
            }
            #expect(stored(store, 249) == body(249, 100_000))
        }
    }

    @Test("marks that were updated, replaced or removed keep their last state")
    func changedMarks() throws {
        do {
            let store = try fill()
            store.insert(NewItem(key: key(1), metadata: [1, 2, 3], head: Array("head 1".utf8), body: body(77), retention: .outlives))
            store.remove(key(2).span)
            store.flush()
        }
        let store = try directory.open(4 << 20)
        #expect(stored(store, 1) == body(77) && stored(store, 2) == nil)
    }

    @Test("an unreadable mark makes everything stored stale permanently")
    func unreadableMark() throws {
        try fill(cleanly: true)
        directory.flip(try #require(directory.segments.first), at: 70)
        for _ in 0..<2 {
            let store = try directory.open(4 << 20)
            #expect(store.lookUp(key(99).span)?.isMarkedStale == true)
        }
    }

    @Test("a process that takes over a larger store keeps its marks, also those replaced during the hand-over", arguments: [false, true])
    func takenOver(isReplaced: Bool) throws {
        do {
            let old = try fill()
            let offer = try #require(old.offer())
            let settings = StoreSettings(directory: directory.path, capacityBytes: 4 << 20, segmentBytes: 1 << 20)
            let new = try ResponseStore(settings, inherited: offer)
            if isReplaced {
                old.insert(NewItem(key: key(1), metadata: [1, 2, 3], head: Array("head 1".utf8), body: body(77), retention: .outlives))
            }
            let end = old.pass { _ in }
            old.leave()
            new.own(upTo: end)
            #expect(stored(new, 1) == body(isReplaced ? 77 : 1) && stored(new, 2) == body(2) && stored(new, 10) == nil)
            #expect(directory.segments.reduce(0) { $0 + directory.size($1) } <= 4 << 20)
        }
        let store = try directory.open(4 << 20)
        #expect(stored(store, 1) == body(isReplaced ? 77 : 1) && stored(store, 2) == body(2))
    }
}
