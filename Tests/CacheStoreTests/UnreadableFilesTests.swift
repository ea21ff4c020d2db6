// Tests of starts at which a file of the store exists and cannot be read.

import CSystem
import Glibc
import Reactor
import Testing

@testable import CacheStore

@Suite("A start that cannot read a file of the store")
struct UnreadableFilesTests {
    /// Makes opening a file without waiting fail with `EAGAIN`, also for root, by a lease of `fcntl`.
    private struct Lease: ~Copyable {
        /// `F_SETSIG` and `F_SETLEASE`.
        private static let setSignal: Int32 = 10
        private static let setLease: Int32 = 1_024
        private var file: Descriptor

        init(_ path: String) {
            let number = csystem_open(path, O_RDWR | O_CLOEXEC, 0)
            // The default signal would end the process.
            #expect(fcntl(number, Self.setSignal, SIGURG) == 0)
            #expect(fcntl(number, Self.setLease, Int32(F_WRLCK)) == 0)
            file = Descriptor(number)
        }

        mutating func end() { file.close() }
    }

    /// A store with several segments.
    private func filled() throws -> Directory {
        let directory = try Directory()
        let store = try directory.open()
        fillLong(store, 0..<36)
        store.insert(item(100))
        store.close()
        return directory
    }

    private func contents(of directory: Directory) -> [String: [UInt8]?] {
        Dictionary(uniqueKeysWithValues: directory.files.map { ($0, FileContent.read(directory.path + "/" + $0, limit: 2 << 20)) })
    }

    @Test(
        "no file is replaced or deleted, and the next start finds all responses",
        arguments: ["key", "segment-0000000000000001", "segment-0000000000000002", "newest"])
    func kept(name: String) throws {
        let directory = try filled()
        let path = directory.path + "/" + (name == "newest" ? try #require(directory.segments.last) : name)
        let before = contents(of: directory)
        do {
            var lease = Lease(path)
            let store = try directory.open()
            let (statistics, isKey) = (store.statistics, name == "key")
            #expect(statistics.opening.unreadablePath == path && statistics.opening.error == EAGAIN)
            #expect(!statistics.opening.hasLostKey && !statistics.opening.hasForeignRecords && statistics.opening.damagedSpans == 0)
            #expect(!statistics.isWritable && statistics.refusal?.path == path && store.insert(item(1)) == .unwritable)
            // The unread segment may contain removals and marks.
            let found = (0..<36).compactMap { store.lookUp(key($0).span)?.isMarkedStale }
            #expect(isKey ? found.isEmpty : !found.isEmpty && found.count < 36 && !found.contains(false))
            store.writer.tryAgainNow(store)
            store.flush()
            store.close()
            lease.end()
        }
        #expect(contents(of: directory) == before)
        let store = try directory.open()
        #expect(store.statistics.isWritable && store.statistics.opening.damagedSpans == 0 && stored(store, 100) == body(100))
        for number in 0..<36 { #expect(store.lookUp(key(number).span)?.isMarkedStale == false) }
    }

    @Test("a required store refuses to start, and keeps its files", arguments: ["key", "segment-0000000000000001"])
    func required(name: String) throws {
        let directory = try filled()
        let before = contents(of: directory)
        var lease = Lease(directory.path + "/" + name)
        var settings = StoreSettings(directory: directory.path, capacityBytes: 8 << 20, segmentBytes: 1 << 20)
        settings.isRequired = true
        let error = #expect(throws: StoreError.self) { try ResponseStore(settings) }
        #expect("\(error.map(String.init(describing:)) ?? "")".contains("cannot be read (\(directory.path)/\(name): "))
        lease.end()
        #expect(contents(of: directory) == before)
    }

    @Test("a key that was put back is not replaced when a failed key is written again")
    func keyPutBack() throws {
        let directory = try Directory()
        // A directory in place of the key file has the effect of missing space.
        mkdir(directory.path + "/key", 0o700)
        let store = try directory.open()
        rmdir(directory.path + "/key")
        let key = Descriptor(csystem_open(directory.path + "/key", O_WRONLY | O_CREAT, 0o600))
        #expect(write(key.number, body(7, 32), 32) == 32)
        store.writer.tryAgainNow(store)
        #expect(FileContent.read(directory.path + "/key") == body(7, 32) && !store.statistics.isWritable)
    }
}
