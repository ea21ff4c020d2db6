// Tests that tombstones, removals and marks outlive the items that they affect, whatever the load and the disk do.

import CSystem
import Glibc
import Reactor
import Testing

@testable import CacheStore

@Suite("Tombstones")
struct TombstoneTests {
    private func large(_ number: Int, _ bytes: Int) -> NewItem {
        NewItem(key: key(number), metadata: [], head: [], body: [UInt8](repeating: 7, count: bytes), retention: .mayRescue)
    }

    @Test("each mark is kept once, however many marks there are and however large the next item is", arguments: [200_000, 900_000])
    func manyMarks(next: Int) throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        // Marks of more than a quarter of a segment.
        let marks = 1..<600
        for number in marks { store.insert(item(number, retention: .outlives)) }
        for number in 10_000..<10_007 { store.insert(large(number, 300_000)) }
        store.flush()
        #expect(store.statistics.evicted == 0 && directory.segments.count == 3)
        store.insert(large(10_007, 300_000))
        store.insert(large(10_009, next))
        store.flush()
        #expect(store.statistics.reinserted == marks.count)
        #expect(marks.allSatisfy { store.lookUp(key($0).span) != nil } && store.lookUp(key(10_009).span) != nil)
        #expect(store.statistics.pendingBytes == 0 && store.statistics.writeErrors == 0)
        // One of the files may have been the reserve.
        #expect(directory.segments.allSatisfy { [1 << 20, MarkReserve.bytes].contains(directory.size($0)) })
    }

    @Test("an item that could not be replaced on a full disk leaves nothing behind after its eviction")
    func replacedOnFullDisk() throws {
        let directory = try Directory()
        let isFull = Mutex(false)
        let store = try directory.open(4 << 20) { descriptor, bytes in
            isFull.withLock { $0 } ? ENOSPC : csystem_allocate(descriptor, bytes)
        }
        for number in 0..<9 { store.insert(large(number, 300_000)) }
        store.flush()
        isFull.withLock { $0 = true }
        store.insert(large(0, 300_001))
        store.flush()
        var visited = 0
        store.visitAll { _ in visited += 1 }
        #expect(store.statistics.entries == visited)
    }

    @Test("changes that a failing disk did not accept are written before later ones")
    func failedWrites() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 1 << 30)
        do {
            let store = try ResponseStore(disk.settings(directory.path, capacity: 4 << 20, segment: 1 << 20))
            for number in 0..<4 { store.insert(item(number)) }
            store.flush()
            disk.failWrites(EIO)
            store.insert(item(11))
            store.flush()
            for number in 0..<2 { store.remove(key(number).span) }
            #expect(store.markStale(store.id(of: key(2))))
            store.insert(item(10, retention: .outlives))
            #expect(store.insert(item(12)) == .unwritable)
            store.flush()
            // Items accepted before the failure stay in memory.
            #expect(stored(store, 10) != nil && stored(store, 11) != nil && stored(store, 12) == nil && store.statistics.pendingBytes > 0)
            disk.failWrites(0)
            store.writer.tryAgainNow(store)
            #expect(store.insert(item(1)) == .accepted)
            store.flush()
            #expect(store.statistics.pendingBytes == 0 && !store.hasUnwrittenMarks)
        }
        let store = try directory.open(4 << 20)
        #expect((0..<12).filter { stored(store, $0) != nil } == [1, 2, 3, 10, 11])
        #expect(store.lookUp(key(2).span)?.isMarkedStale == true)
    }

    @Test("repeated marks of one key that cannot be written take no more memory than one")
    func sameMark() throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20) { _, _ in EIO }
        let mark = item(1, 5_000, retention: .outlives)
        for _ in 0..<5_000 {
            store.insert(mark)
            store.flush()
        }
        #expect(store.statistics.pendingBytes < 8 << 20 && stored(store, 1) == body(1, 5_000))
    }

    @Test("marks and removals lose nothing in a directory that is not writable")
    func unwritable() throws {
        let directory = try Directory()
        do {
            let store = try directory.open(4 << 20)
            for number in 0..<9 { store.insert(large(number, 300_000)) }
            store.flush()
        }
        let files = directory.segments
        // Root may write anywhere, so a directory makes the lock unusable.
        unlink(directory.path + "/lock")
        mkdir(directory.path + "/lock", 0o700)
        let store = try directory.open(4 << 20)
        store.insert(large(10, 300_000))
        store.insert(NewItem(key: key(11), metadata: [], head: [], body: body(11, 300_000), retention: .outlives))
        store.remove(key(1).span)
        store.flush()
        #expect((0..<12).filter { store.lookUp(key($0).span) != nil } == [0, 2, 3, 4, 5, 6, 7, 8, 11])
        #expect(directory.segments == files)
        rmdir(directory.path + "/lock")
    }

    @Test("a disk with space only for a smaller store is reported once, and the store continues")
    func reportedOnce() throws {
        let directory = try Directory()
        let told = Mutex<[WritingEvent]>([])
        let disk = ModelDisk(bytes: 4 << 20)
        var settings = disk.settings(directory.path, capacity: 64 << 20, segment: 1 << 20)
        settings.whenWriting = { event in told.withLock { $0.append(event) } }
        let store = try ResponseStore(settings)
        for number in 0..<60 {
            store.insert(number % 10 == 9 ? item(number, 300_000, retention: .outlives) : large(number, 300_000))
            store.flush()
            #expect(store.lookUp(key(number).span) != nil)
        }
        let events = told.withLock { $0 }
        guard events.count == 1, case .limited(let usableBytes) = events[0] else {
            Issue.record("\(events)")
            return
        }
        #expect((2 << 20..<4 << 20).contains(usableBytes) && store.statistics.writeErrors == 0 && store.statistics.isWritable)
    }
}
