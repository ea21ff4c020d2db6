// Tests of removing or replacing the files, or the directory, of an open store.

import CSystem
import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("A store whose files are removed")
struct RemovedFilesTests {
    @Test("if files or the directory are removed while the store is open, a write reports it, and makes them again")
    func removed() throws {
        for isWholeDirectory in [false, true] {
            let directory = try Directory()
            do {
                let store = try directory.open()
                store.insert(item(1))
                store.flush()
                for name in directory.files { unlink(directory.path + "/" + name) }
                if isWholeDirectory { rmdir(directory.path) }
                store.insert(item(2))
                store.flush()
                store.insert(item(3))
                store.flush()
                let statistics = store.statistics
                #expect(statistics.isWritable && statistics.refusals.map(\.fault.cause) == [.removed])
                #expect((1...3).allSatisfy { stored(store, $0) == body($0) })
                store.close()
            }
            let store = try directory.open()
            #expect(stored(store, 1) == nil && [2, 3].allSatisfy { stored(store, $0) == body($0) })
        }
    }

    @Test("a store whose directory was replaced writes nothing into the other one")
    func replaced() throws {
        let (directory, other) = (try Directory(), try Directory())
        do {
            let store = try other.open()
            store.insert(item(9))
            store.close()
        }
        let store = try directory.open()
        store.insert(item(1))
        store.flush()
        let away = try Directory()
        rename(directory.path, away.path + "/moved")
        rename(other.path, directory.path)
        let files = try Self.contents(of: directory)
        store.insert(item(2))
        store.flush()
        store.writer.tryAgainNow(store)
        #expect(!store.statistics.isWritable && store.statistics.refusal?.cause == .removed)
        #expect(stored(store, 1) == body(1))
        store.remove(key(1).span)
        store.insert(item(3, retention: .outlives))
        store.flush()
        #expect(throws: EraseError.failed(code: EBUSY, path: directory.path)) { try store.erase { _ in true } }
        store.close()
        #expect(try Self.contents(of: directory) == files)
        #expect(stored(try directory.open(), 9) == body(9))
    }

    @Test("if files are removed when the segment is full, later items are found after a start without a stop")
    func removedWhenFull() throws {
        let directory = try Directory()
        let store = try directory.open()
        fillLong(store, 0..<20)
        for name in directory.files { unlink(directory.path + "/" + name) }
        fillLong(store, 20..<40)
        let copy = try Directory()
        for name in directory.files where name != "lock" { link(directory.path + "/" + name, copy.path + "/" + name) }
        let other = try copy.open()
        for number in 20..<40 { #expect(other.lookUp(key(number).span)?.body.count == 100_000) }
    }

    @Test("after its files were removed, a store still excludes others from the directory")
    func excluding() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        store.flush()
        for name in directory.files { unlink(directory.path + "/" + name) }
        store.insert(item(2))
        store.flush()
        let error = #expect(throws: StoreError.self) { try directory.open() }
        #expect("\(error.map(String.init(describing:)) ?? "")".contains("another process"))
        #expect(stored(store, 2) == body(2))
    }

    @Test("files of others in the directory, and a key with a line end, do not stop an open store")
    func foreignFiles() throws {
        let directory = try Directory()
        do { _ = try directory.open() }
        let file = Descriptor(open(directory.path + "/key", O_WRONLY | O_APPEND | O_CLOEXEC))
        #expect(write(file.number, "\n", 1) == 1)
        let store = try directory.open()
        try TestTools.write("", to: directory.path + "/theirs")
        chmod(directory.path + "/theirs", 0o666)
        fillLong(store, 0..<30)
        #expect(store.statistics.isWritable && store.statistics.writeErrors == 0 && store.lookUp(key(29).span) != nil)
    }

    @Test("a removed key is written again when the store closes")
    func removedKey() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            store.insert(item(1))
            store.flush()
            unlink(directory.path + "/key")
            store.close()
        }
        #expect(stored(try directory.open(), 1) == body(1))
    }

    private static func contents(of directory: Directory) throws -> [String: [UInt8]] {
        var contents: [String: [UInt8]] = [:]
        for name in directory.files { contents[name] = try TestTools.readBytes(directory.path + "/" + name) }
        return contents
    }
}
