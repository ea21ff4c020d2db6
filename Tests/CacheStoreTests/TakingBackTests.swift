// What takes back what was stored, removals and marks: it outlives what it takes back, whatever the load and the disk do.

import CSystem
import Glibc
import Locking
import Testing

@testable import CacheStore

@Suite("What takes back")
struct TakingBackTests {
    private func large(_ number: Int, _ bytes: Int) -> NewItem {
        NewItem(key: key(number), metadata: [], head: [], body: [UInt8](repeating: 7, count: bytes), retention: .mayRescue)
    }

    @Test("marks are kept once however many there are, and however large what comes next is", arguments: [200_000, 900_000])
    func manyMarks(next: Int) throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        // More than a quarter of a segment.
        let marks = 1..<600
        for number in marks { store.insert(item(number, retention: .outlives)) }
        for number in 10_000..<10_007 { store.insert(large(number, 300_000)) }
        store.flush()
        #expect(store.statistics.evicted == 0 && directory.segments.count == store.settings.maximumSegments)
        store.insert(large(10_007, 300_000))
        store.insert(large(10_009, next))
        store.flush()
        #expect(store.statistics.reinserted == marks.count)
        #expect(marks.allSatisfy { store.lookUp(key($0).span) != nil } && store.lookUp(key(10_009).span) != nil)
        #expect(store.statistics.pendingBytes == 0 && store.statistics.writeErrors == 0)
        #expect(directory.segments.allSatisfy { directory.size($0) == 1 << 20 })
    }

    @Test("what a full disk keeps from being replaced leaves nothing behind when it is evicted")
    func replacedOnFullDisk() throws {
        let directory = try Directory()
        let isFull = Mutex(false)
        var settings = StoreSettings(directory: directory.path, capacityBytes: 4 << 20, segmentBytes: 1 << 20)
        settings.allocate = { descriptor, bytes in isFull.withLock { $0 } ? ENOSPC : csystem_allocate(descriptor, bytes) }
        let store = try ResponseStore(settings)
        for number in 0..<9 { store.insert(large(number, 300_000)) }
        store.flush()
        isFull.withLock { $0 = true }
        store.insert(large(0, 300_001))
        store.flush()
        var visited = 0
        store.visitAll { _ in visited += 1 }
        #expect(store.statistics.entries == visited)
    }
}
