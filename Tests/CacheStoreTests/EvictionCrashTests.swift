// Tests of crashes at each point of an eviction: marks in evicted segments, and marks of items that are not written yet.

import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("Crashes during eviction")
struct EvictionCrashTests {
    @Test("marks of an evicted segment are on disk at every moment, even if they fill more than one segment", .slow)
    func marks() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 64 << 20)
        let settings = disk.settings(directory.path, capacity: 4 << 20, segment: 1 << 20)
        let store = try ResponseStore(settings)
        let marks = 0..<6_500
        for number in marks { store.insert(item(number, 100, retention: .outlives)) }
        store.flush()
        #expect(directory.segments.count == 2)
        let first = directory.segments[0]
        let seen = Mutex<(crashes: Int, least: Int)>((0, .max))
        let (path, capacity) = (directory.path, settings.capacityBytes)
        disk.beforeChanges {
            guard !names(in: path).contains(first), let copy = try? Directory.copy(of: path) else { return }
            var settings = StoreSettings(directory: copy.path, capacityBytes: capacity, segmentBytes: 1 << 20)
            settings.retryMilliseconds = 0
            guard let after = try? ResponseStore(settings) else { return }
            let found = marks.count { after.lookUp(key($0).span) != nil }
            seen.withLock { $0 = ($0.crashes + 1, min($0.least, found)) }
        }
        for number in 10_000..<10_060 {
            store.insert(item(number, 100_000))
            store.flush()
            if seen.withLock({ $0.crashes }) > 20 { break }
        }
        #expect(seen.withLock { $0.crashes } > 20 && seen.withLock { $0.least } == marks.count, "\(seen.withLock { $0 })")
    }

    @Test("a soft purge of an item that waits for a full disk is on disk")
    func waiting() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 64 << 20)
        let settings = disk.settings(directory.path, capacity: 32 << 20)
        let store = try ResponseStore(settings)
        store.insert(item(1, 100_000))
        store.flush()
        disk.fill(directory.path)
        for number in 20..<40 {
            store.insert(item(number, 100_000))
            store.insert(item(1, 100_001))
            store.flush()
        }
        #expect(!store.statistics.isWritable && store.statistics.pendingBytes > 0)
        store.insert(item(1, 100_002))
        _ = store.markStale(store.id(of: key(1)))
        store.flush()
        for _ in 0..<5 { store.writer.tryAgainNow(store) }
        #expect(!store.hasUnwrittenMarks)
        let copy = try Directory.copy(of: directory.path)
        let after = try ResponseStore(StoreSettings(directory: copy.path, capacityBytes: settings.capacityBytes))
        #expect(after.lookUp(key(1).span)?.isMarkedStale == true)
    }
}
