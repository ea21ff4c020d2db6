// Tests of the store's guarantees: it returns exactly the stored bytes or nothing, whatever happened to the files.

import CSystem
import Dispatch
import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("The store")
struct ResponseStoreTests {
    @Test("an item is found at once, after it was written, and after a clean stop")
    func roundTrip() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<200 { #expect(store.insert(item(number)) == .accepted) }
            for number in 0..<200 { #expect(stored(store, number) == body(number)) }
            store.flush()
            for number in 0..<200 { #expect(stored(store, number) == body(number)) }
            store.close()
        }
        #expect(directory.files.contains("index"))
        let store = try directory.open()
        #expect(store.statistics.opening.isFromSnapshot)
        #expect(!directory.files.contains("index"))
        for number in 0..<200 { #expect(stored(store, number) == body(number)) }
    }

    @Test("after an unclean stop, scanning the segments finds all written items in their newest version")
    func recovery() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<100 { store.insert(item(number)) }
            store.flush()
            for number in 0..<50 { store.insert(item(number, 900)) }
            store.flush()
        }
        let store = try directory.open()
        #expect(!store.statistics.opening.isFromSnapshot)
        #expect(store.statistics.opening.entries == 100)
        for number in 0..<100 { #expect(stored(store, number) == body(number, number < 50 ? 900 : 500)) }
    }

    @Test("removed items stay removed after a restart, and items stored again are found")
    func removals() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<10 { store.insert(item(number)) }
            store.remove(key(3).span)
            store.flush()
            store.remove(key(4).span)
            store.remove(key(5).span)
            store.insert(item(5))
            #expect(stored(store, 3) == nil && stored(store, 4) == nil)
            store.flush()
        }
        let store = try directory.open()
        #expect(stored(store, 3) == nil && stored(store, 4) == nil)
        #expect(stored(store, 5) == body(5))
        store.removeAll()
        store.flush()
        #expect(store.statistics.entries == 0)
    }

    @Test("removeAll removes everything, also after a restart, and later items are found")
    func clearing() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<10 { store.insert(item(number)) }
            store.removeAll()
            store.insert(item(11))
            store.flush()
        }
        let store = try directory.open()
        #expect((0..<10).allSatisfy { stored(store, $0) == nil })
        #expect(stored(store, 11) == body(11))
    }

    @Test("the size limit is never exceeded, and used items outlive unused ones", .slow)
    func eviction() throws {
        let directory = try Directory()
        let store = try directory.open(8 << 20)
        for number in 0..<20_000 {
            store.insert(item(number, 1_000))
            if number % 500 == 0 {
                store.flush()
                let total = directory.files.reduce(0) { $0 + directory.size($1) }
                #expect(total <= 8 << 20)
            }
            _ = stored(store, 7)
        }
        store.flush()
        #expect(stored(store, 7) == body(7, 1_000))
        #expect(stored(store, 8) == nil)
        #expect(stored(store, 19_999) == body(19_999, 1_000))
        #expect(store.statistics.evicted > 0 && store.statistics.reinserted > 0)
    }

    @Test("a tombstone outlives its segment once, unused; items usable for rescue are kept in preference to others")
    func retention() throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        // There is space for one of the large items in addition to the mark.
        store.insert(item(0, 100, retention: .outlives))
        store.insert(item(1, 200_000, retention: .whenUsed))
        store.insert(item(2, 200_000))
        store.flush()
        for number in [1, 2] { #expect(stored(store, number) != nil) }
        fillLong(store, 100..<130)
        #expect(store.statistics.reinserted == 2)
        #expect(stored(store, 1) == nil)
        fillLong(store, 130..<170)
        #expect(store.statistics.reinserted == 2)
        #expect(stored(store, 0) == nil && stored(store, 2) == nil)
    }

    @Test("a removal is written even on a full disk, because the oldest segment is evicted for it", arguments: [false, true])
    func removalOnFullDisk(everything: Bool) throws {
        let directory = try Directory()
        do {
            let disk = ModelDisk(bytes: (3 << 20) + MarkReserve.bytes)
            let store = try ResponseStore(disk.settings(directory.path, capacity: 8 << 20, segment: 1 << 20))
            fillLong(store, 0..<25)
            // Others fill the disk, so a new segment requires the eviction of the oldest.
            disk.fill(directory.path)
            fillLong(store, 25..<26)
            if everything { store.removeAll() } else { store.remove(key(25).span) }
            store.flush()
            #expect(!store.hasUnwrittenMarks)
        }
        let store = try directory.open()
        #expect(store.lookUp(key(25).span) == nil)
        #expect((store.lookUp(key(24).span) == nil) == everything)
    }

    @Test("a tombstone that cannot be written takes effect in memory")
    func markOnFullDisk() throws {
        let directory = try Directory()
        let store = try directory.open { _, _ in EIO }
        store.insert(item(1, retention: .outlives))
        store.flush()
        #expect(store.insert(item(2)) == .unwritable)
        store.flush()
        #expect(stored(store, 1) == body(1) && stored(store, 2) == nil)
    }

    @Test("a crash during eviction loses no kept item and restores no removed one")
    func crashWhileEvicting() throws {
        let capacity = 31 << 19
        let directory = try Directory()
        let copies = Mutex<[TemporaryDirectory]>([])
        var settings = StoreSettings(directory: directory.path, capacityBytes: capacity, segmentBytes: 1 << 20)
        let path = directory.path
        // Copies the files at each creation of a file, as a crash would leave them.
        settings.allocate = { descriptor, bytes in
            let error = csystem_allocate(descriptor, bytes)
            let files = names(in: path)
            #expect(files.reduce(0) { $0 + size(of: path + "/" + $1) } <= capacity)
            guard let copy = TemporaryDirectory("cistern-crash") else { return ENOENT }
            for file in files { copyFile(path + "/" + file, to: copy.path + "/" + file) }
            copies.withLock { $0.append(copy) }
            return error
        }
        do {
            let store = try ResponseStore(settings)
            store.insert(item(0, 100, retention: .outlives))
            store.insert(item(1))
            store.insert(item(2))
            store.flush()
            _ = stored(store, 1)
            store.remove(key(2).span)
            fillLong(store, 100..<100 + (capacity >> 20) * 10)
            #expect(store.statistics.reinserted == 2)
        }
        for copy in copies.withLock({ $0 }).dropFirst(2) {
            let store = try ResponseStore(StoreSettings(directory: copy.path, capacityBytes: capacity, segmentBytes: 1 << 20))
            #expect(stored(store, 0) != nil && stored(store, 1) != nil && stored(store, 2) == nil)
        }
    }

    @Test("an item nearly as large as a segment fits beside kept items, and no file grows")
    func largeAmongKept() throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        for number in 0..<600 { store.insert(item(number)) }
        let large = NewItem(key: key(1_000), metadata: [], head: [], body: [UInt8](repeating: 1, count: 1_000_000), retention: .mayRescue)
        for _ in 0..<12 {
            store.flush()
            for number in 0..<600 { _ = stored(store, number) }
            store.insert(large)
            store.flush()
            #expect(store.lookUp(large.key.span)?.body.count == 1_000_000)
            #expect(directory.segments.allSatisfy { directory.size($0) == 1 << 20 })
        }
        #expect(store.statistics.reinserted > 0)
        #expect(store.statistics.damaged == 0 && store.statistics.pendingBytes == 0)
    }

    @Test("after a restart nothing is written beyond the end of a segment")
    func largeAfterStart() throws {
        let directory = try Directory()
        for round in 0..<3 {
            let store = try directory.open()
            store.insert(item(round, 700_000))
            store.flush()
            #expect(stored(store, round)?.count == 700_000)
            store.close()
        }
        #expect(directory.segments.count == 3)
        #expect(directory.segments.allSatisfy { directory.size($0) == 1 << 20 })
    }

    @Test(
        "files with names similar to segments do no harm",
        arguments: [
            "segment-ffffffffffffffff", "segment-000000000000000A", "segment-+000000000000001", "segment-0000ffffffffffff",
            "segment-00007fffffffffff",
        ])
    func oddNames(name: String) throws {
        let directory = try Directory()
        do {
            let store = try directory.open(4 << 20)
            fillLong(store, 0..<36)
        }
        let descriptor = csystem_open(directory.path + "/" + name, O_RDWR | O_CREAT, 0o600)
        ftruncate(descriptor, 1 << 20)
        close(descriptor)
        let store = try directory.open(4 << 20)
        fillLong(store, 36..<108)
        #expect(store.lookUp(key(107).span)?.body.count == 100_000)
    }

    @Test("a disk failure is reported once, and its recovery once; items kept during eviction are found then")
    func fullDisk() throws {
        let directory = try Directory()
        let told = Mutex<[Bool]>([])
        var settings = StoreSettings(directory: directory.path, capacityBytes: 4 << 20, segmentBytes: 1 << 20)
        settings.retryMilliseconds = 0
        settings.whenWriting = { event in
            switch event {
            case .failing: told.withLock { $0.append(false) }
            case .recovered: told.withLock { $0.append(true) }
            case .limited: break
            }
        }
        let store = try ResponseStore(settings)
        fillLong(store, 0..<29)
        #expect(store.lookUp(key(0).span) != nil)
        // A directory in place of the next segment has the effect of missing space.
        let obstacle = directory.path + "/segment-0000000000000004"
        mkdir(obstacle, 0o700)
        // All are accepted before the writer fails.
        store.writer.serial.suspend()
        insertLong(store, 30..<50)
        store.writer.serial.resume()
        store.flush()
        #expect(store.lookUp(key(49).span)?.body.count == 100_000 && store.statistics.pendingBytes > 0)
        // Space at the end of the last segment is reserved for marks, and does not mean that the disk accepts more.
        store.insert(item(900, retention: .outlives))
        store.flush()
        #expect(stored(store, 900) == body(900) && !store.hasUnwrittenMarks)
        #expect(store.insert(item(60)) == .unwritable && !store.statistics.isWritable)
        #expect(told.withLock { $0 } == [false])
        #expect(store.statistics.writeErrors > 0 && store.lookUp(key(60).span) == nil)
        #expect(store.lookUp(key(0).span)?.body.count == 100_000)
        // Items stored before are unchanged.
        #expect(store.lookUp(key(28).span)?.isMarkedStale == false)
        rmdir(obstacle)
        store.writer.tryAgainNow(store)
        #expect(store.statistics.isWritable)
        fillLong(store, 50..<55)
        #expect(told.withLock { $0 } == [false, true])
        #expect(store.statistics.pendingBytes == 0 && store.statistics.reinserted > 0)
        for number in [0, 54] { #expect(store.lookUp(key(number).span)?.body.count == 100_000) }
    }

    @Test(
        "symbolic links in the directory are not followed, and pipes do not block",
        arguments: ["key", "lock", "index", "index.new", "segment-0000000000000001"])
    func links(name: String) throws {
        let directory = try Directory()
        let elsewhere = try Directory()
        let target = elsewhere.path + "/theirs"
        for isPipe in [false, true] {
            do {
                let store = try directory.open()
                store.insert(item(1))
                store.close()
            }
            unlink(directory.path + "/" + name)
            if isPipe {
                mkfifo(directory.path + "/" + name, 0o600)
            } else {
                let descriptor = csystem_open(target, O_RDWR | O_CREAT, 0o600)
                write(descriptor, body(7, 4_096), 4_096)
                close(descriptor)
                symlink(target, directory.path + "/" + name)
            }
            let store = try directory.open()
            store.insert(item(2))
            store.close()
            if !isPipe { #expect(FileContent.read(target) == body(7, 4_096)) }
            unlink(directory.path + "/" + name)
        }
    }

    @Test("a response that is being sent stays readable while its segment is evicted", .slow)
    func heldWhileEvicted() throws {
        let directory = try Directory()
        let store = try directory.open(4 << 20)
        store.insert(item(0))
        store.flush()
        let name = key(0)
        let looked = store.lookUp(name.span)
        let found = try #require(looked)
        for number in 1..<10_000 { store.insert(item(number, 1_000)) }
        store.flush()
        #expect(Array(found.body) == body(0))
    }

    @Test("an item larger than a segment is refused, and overflow is dropped without waiting")
    func limits() throws {
        let directory = try Directory()
        let store = try directory.open()
        #expect(store.insert(item(1, 1 << 20)) == .tooLarge)
        #expect(store.insert(item(2, 900_000)) == .accepted)
    }

    @Test("a second process on the same directory is refused")
    func lock() throws {
        let directory = try Directory()
        let store = try directory.open()
        #expect(throws: StoreError.self) { _ = try directory.open() }
        withExtendedLifetime(store) {}
    }

    @Test("the key file is readable only by its owner")
    func keyFile() throws {
        let directory = try Directory()
        _ = try directory.open()
        var status = stat()
        #expect(stat(directory.path + "/key", &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600)
    }

    @Test("a lost key file is reported if records were stored under the key")
    func lostKey() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            #expect(!store.statistics.opening.hasLostKey)
            store.insert(item(1))
            store.flush()
        }
        #expect(try !directory.open().statistics.opening.hasLostKey)
        unlink(directory.path + "/key")
        #expect(try directory.open().statistics.opening.hasLostKey)
        #expect(try !directory.open().statistics.opening.hasLostKey)
    }

    @Test("a key file that does not match the records, or that others can read, is reported")
    func wrongKey() throws {
        let directory = try Directory()
        let key = directory.path + "/key"
        do {
            let store = try directory.open()
            store.insert(item(1))
            store.flush()
            #expect(!store.statistics.opening.hasForeignRecords && !store.statistics.opening.hasOpenKey)
        }
        chmod(key, 0o640)
        do {
            let statistics = try directory.open().statistics
            #expect(!statistics.opening.hasForeignRecords && statistics.opening.hasOpenKey)
        }
        chmod(key, 0o600)
        directory.flip("key", at: 20)
        do {
            let store = try directory.open()
            #expect(stored(store, 1) == nil)
            #expect(
                store.statistics.opening.hasForeignRecords && !store.statistics.opening.hasLostKey && !store.statistics.opening.hasOpenKey)
        }
    }

    @Test("credentials yield the same partition each time, and the partition does not reveal them")
    func partitions() throws {
        let directory = try Directory()
        let first: [UInt8]
        do {
            let store = try directory.open()
            first = store.credentialPartition(Array("secret".utf8))
            #expect(first.count == 16)
            #expect(store.credentialPartition(Array("other".utf8)) != first)
        }
        #expect(try directory.open().credentialPartition(Array("secret".utf8)) == first)
        let elsewhere = try Directory()
        #expect(try elsewhere.open().credentialPartition(Array("secret".utf8)) != first)
    }
}
