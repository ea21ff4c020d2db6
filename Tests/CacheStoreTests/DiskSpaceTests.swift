// Tests of disks that are too small, full or failing: the store adapts to the available space, keeps its content, and reports failed
// writes.

import CSystem
import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("The store and free disk space")
struct DiskSpaceTests {
    private func large(_ number: Int, _ bytes: Int = 100_000) -> NewItem {
        item(number, bytes)
    }

    private func fill(_ store: ResponseStore, _ numbers: Range<Int>) {
        for number in numbers {
            #expect(store.insert(large(number)) == .accepted, "item \(number)")
            store.flush()
        }
    }

    struct SmallDisk: CustomStringConvertible, Sendable {
        let mebibytes: Int
        /// Whether the file system reports its free space.
        var isTold = true
        var description: String { "\(mebibytes) MiB\(isTold ? "" : ", not told")" }
    }

    @Test(
        "a disk smaller than one segment holds a store nearly as large as the disk",
        arguments: [
            SmallDisk(mebibytes: 4), SmallDisk(mebibytes: 16), SmallDisk(mebibytes: 40), SmallDisk(mebibytes: 16, isTold: false),
        ])
    func smallDisk(_ size: SmallDisk) throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: size.mebibytes << 20)
        if !size.isTold { disk.hideRoom() }
        let store = try ResponseStore(disk.settings(directory.path, capacity: 1 << 30))
        #expect(store.settings.segmentBytes == 32 << 20)
        let count = size.mebibytes * 12
        fill(store, 0..<count)
        let found = (0..<count).count { store.lookUp(key($0).span) != nil }
        #expect(found * 100_000 > size.mebibytes << 19, "\(found) of \(count)")
        #expect(store.lookUp(key(count - 1).span) != nil && store.statistics.isWritable && store.statistics.dropped == 0)
        #expect(disk.usedBytes(directory.path) <= size.mebibytes << 20)
    }

    @Test("an item too large for a small disk is refused at once")
    func tooLarge() throws {
        let directory = try Directory()
        let store = try ResponseStore(ModelDisk(bytes: 8 << 20).settings(directory.path, capacity: 1 << 30))
        #expect(store.insert(large(1, 3 << 20)) == .tooLarge)
        #expect(store.insert(large(2, 1 << 20)) == .accepted)
        store.flush()
        #expect(stored(store, 2)?.count == 1 << 20)
    }

    @Test("when other data fills the disk, the store continues with its space, and grows again later")
    func filledByOthers() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 64 << 20)
        let store = try ResponseStore(disk.settings(directory.path, capacity: 32 << 20, segment: 1 << 20))
        fill(store, 0..<80)
        let before = disk.usedBytes(directory.path)
        disk.fill(directory.path)
        fill(store, 80..<300)
        #expect(store.statistics.isWritable && store.statistics.usableBytes <= before)
        #expect((240..<300).allSatisfy { store.lookUp(key($0).span) != nil })
        #expect(disk.usedBytes(directory.path) <= before)
        disk.setOthers(0)
        fill(store, 300..<600)
        #expect(disk.usedBytes(directory.path) > 2 * before)
    }

    @Test("a disk that is full at the start is refused at once with the system's error, until space is available")
    func fullAtStart() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 64 << 20)
        disk.fill(directory.path)
        let told = Mutex<[WritingEvent]>([])
        var settings = disk.settings(directory.path, capacity: 32 << 20)
        settings.whenWriting = { event in told.withLock { $0.append(event) } }
        let store = try ResponseStore(settings)
        store.insert(large(1))
        store.flush()
        let fault = try #require(store.statistics.refusal)
        #expect(fault.cause == .noSpace && fault.systemText == "No space left on device" && fault.path.hasPrefix(directory.path))
        #expect(store.insert(large(2)) == .unwritable && !store.statistics.isWritable)
        #expect(store.statistics.writeErrorsByCause == [1, 0, 0, 0, 0, 0, 0])
        // Accepted before the writer failed, so it stays in memory.
        #expect(stored(store, 1)?.count == 100_000)
        store.writer.tryAgainNow(store)
        #expect(told.withLock { $0 } == [.failing(fault, seconds: 0)])
        disk.setOthers(0)
        store.writer.tryAgainNow(store)
        #expect(told.withLock { $0 } == [.failing(fault, seconds: 0), .recovered(fault, seconds: 0)])
        #expect(store.statistics.isWritable && store.statistics.pendingBytes == 0)
        fill(store, 2..<3)
        #expect(store.statistics.refusals.count == 1 && store.statistics.refusals[0].end != nil)
    }

    struct Failure: CustomStringConvertible, Sendable {
        let error: Int32
        let cause: WriteFault.Cause
        /// Whether creating files fails; otherwise writing fails.
        let isOfFiles: Bool
        var description: String { "\(cause.rawValue)\(isOfFiles ? ", new files" : "")" }
    }

    @Test(
        "each failure has its cause, loses no stored item, and ends with a successful write",
        arguments: [
            Failure(error: EIO, cause: .ioError, isOfFiles: false), Failure(error: EIO, cause: .ioError, isOfFiles: true),
            Failure(error: EROFS, cause: .readOnly, isOfFiles: false), Failure(error: EROFS, cause: .readOnly, isOfFiles: true),
            Failure(error: EDQUOT, cause: .quota, isOfFiles: false), Failure(error: ENOSPC, cause: .noSpace, isOfFiles: false),
            Failure(error: EACCES, cause: .other, isOfFiles: true),
        ])
    func failures(_ failure: Failure) throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 1 << 30)
        let settings = disk.settings(directory.path, capacity: 8 << 20, segment: 1 << 20)
        do {
            let store = try ResponseStore(settings)
            fill(store, 0..<10)
            if failure.isOfFiles { disk.failFiles(failure.error) } else { disk.failWrites(failure.error) }
            store.insert(large(10))
            store.flush()
            #expect(store.statistics.refusal?.cause == failure.cause && store.statistics.refusal?.code == failure.error)
            #expect(store.insert(large(11)) == .unwritable)
            store.remove(key(0).span)
            store.flush()
            let files = directory.segments
            for _ in 0..<5 { store.writer.tryAgainNow(store) }
            #expect(directory.segments == files && store.statistics.writeErrors >= 6)
            #expect((1..<11).allSatisfy { stored(store, $0)?.count == 100_000 })
            disk.failFiles(0)
            disk.failWrites(0)
            store.writer.tryAgainNow(store)
            #expect(store.statistics.isWritable && !store.hasUnwrittenMarks && store.statistics.pendingBytes == 0)
            fill(store, 12..<14)
        }
        let store = try ResponseStore(settings)
        #expect((0..<14).filter { stored(store, $0)?.count == 100_000 } == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13])
        #expect(store.statistics.damaged == 0 && store.lookUp(key(5).span)?.isMarkedStale == false)
    }

    @Test("marks can be written on a full disk, so no older stored response returns after a crash")
    func marksOnFullDisk() throws {
        let directory = try Directory()
        let disk = ModelDisk(bytes: 64 << 20)
        let settings = disk.settings(directory.path, capacity: 32 << 20)
        do {
            let store = try ResponseStore(settings)
            fill(store, 0..<9)
            disk.fill(directory.path)
            // The free end of the only segment and the reserve fill up. Afterwards the segment is not evicted for new responses.
            for number in 20..<40 {
                store.insert(large(number))
                store.flush()
            }
            #expect(!store.statistics.isWritable && stored(store, 0) != nil)
            for number in 0..<4 { store.remove(key(number).span) }
            for number in 100..<200 { store.insert(item(number, 1_000, retention: .outlives)) }
            store.flush()
            #expect(!store.hasUnwrittenMarks)
        }
        let store = try ResponseStore(settings)
        #expect((0..<9).filter { stored(store, $0) != nil } == [4, 5, 6, 7, 8])
        #expect((100..<200).allSatisfy { stored(store, $0) != nil } && store.statistics.damaged == 0)
    }

    @Test("a store whose key file cannot be written at the start works once it can be written")
    func keyLater() throws {
        let directory = try Directory()
        // A directory in place of the key file has the effect of missing space.
        mkdir(directory.path + "/key", 0o700)
        do {
            let store = try directory.open()
            #expect(store.insert(large(1)) == .unwritable && store.statistics.refusal?.path == directory.path + "/key")
            store.writer.tryAgainNow(store)
            #expect(!store.statistics.isWritable && store.statistics.writeErrors == 1)
            rmdir(directory.path + "/key")
            store.writer.tryAgainNow(store)
            #expect(store.statistics.isWritable && store.statistics.canOpen)
            fill(store, 1..<3)
        }
        let store = try directory.open()
        #expect(stored(store, 1)?.count == 100_000 && stored(store, 2)?.count == 100_000)
    }

    @Test("a smaller segment records its size, and truncation is detected")
    func cutShort() throws {
        let directory = try Directory()
        let settings = ModelDisk(bytes: 8 << 20).settings(directory.path, capacity: 1 << 30)
        do {
            let store = try ResponseStore(settings)
            fill(store, 0..<30)
        }
        do {
            let store = try ResponseStore(settings)
            #expect(store.statistics.damaged == 0 && store.lookUp(key(29).span)?.isMarkedStale == false)
        }
        let second = directory.path + "/" + directory.segments[1]
        truncate(second, off_t(size(of: second) / 2))
        let store = try ResponseStore(settings)
        #expect(store.statistics.opening.damagedSpans > 0)
    }
}
