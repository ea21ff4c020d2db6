// Tests of damaged files: each item is exact or absent, and the store continues to work.

import CSystem
import Glibc
import TestSupport
import Testing

@testable import CacheStore

@Suite("The store and damaged files")
struct DamageTests {
    /// Expects that each item is exact or absent, whatever is damaged.
    private func expectExactOrAbsent(_ directory: Directory, _ count: Int) throws -> Int {
        let store = try directory.open()
        var found = 0
        for number in 0..<count {
            guard let bytes = stored(store, number) else { continue }
            #expect(bytes == body(number, 60))
            found += 1
        }
        // The store still accepts new items.
        #expect(store.insert(item(count + 1)) == .accepted)
        store.flush()
        #expect(stored(store, count + 1) == body(count + 1))
        return found
    }

    private func fill(_ directory: Directory, _ count: Int, cleanly: Bool) throws {
        let store = try directory.open()
        for number in 0..<count { store.insert(item(number, 60)) }
        store.flush()
        if cleanly { store.close() }
    }

    @Test("a flipped bit costs at most its own record", .slow, arguments: [true, false])
    func flippedBits(cleanly: Bool) throws {
        for offset in stride(from: 0, to: 1_500, by: 13) {
            let directory = try Directory()
            try fill(directory, 8, cleanly: cleanly)
            directory.flip(try #require(directory.segments.first), at: offset)
            #expect(try expectExactOrAbsent(directory, 8) >= 7)
        }
    }

    @Test("a truncated segment costs only the truncated records", arguments: [0, 1, 63, 64, 100, 500, 4_096, 10_000])
    func cutFiles(length: Int) throws {
        let directory = try Directory()
        try fill(directory, 50, cleanly: true)
        truncate(directory.path + "/" + (try #require(directory.segments.first)), off_t(length))
        _ = try expectExactOrAbsent(directory, 50)
    }

    @Test("a damaged snapshot is ignored")
    func damagedSnapshot() throws {
        for offset in [0, 8, 16, 40, 50, 100] {
            let directory = try Directory()
            try fill(directory, 20, cleanly: true)
            directory.flip("index", at: offset)
            #expect(try expectExactOrAbsent(directory, 20) == 20)
        }
    }

    @Test("swapped, removed or replaced segments are not trusted")
    func swappedFiles() throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<3_000 { store.insert(item(number, 1_000)) }
            store.flush()
        }
        let names = directory.segments
        #expect(names.count >= 3)
        rename(directory.path + "/" + names[0], directory.path + "/other")
        rename(directory.path + "/" + names[1], directory.path + "/" + names[0])
        rename(directory.path + "/other", directory.path + "/" + names[1])
        unlink(directory.path + "/" + names[2])
        let store = try directory.open()
        for number in 0..<3_000 {
            if let bytes = stored(store, number) { #expect(bytes == body(number, 1_000)) }
        }
    }

    @Test("segments around missing ones are still found", .slow, arguments: [[0], [1], [1, 2], [0, 2], [3]])
    func missingFiles(missing: [Int]) throws {
        let directory = try Directory()
        do {
            let store = try directory.open()
            for number in 0..<36 { store.insert(item(number, 100_000)) }
            store.flush()
        }
        let names = directory.segments
        #expect(names.count == 4)
        for number in missing { unlink(directory.path + "/" + names[number]) }
        let store = try directory.open()
        for number in 0..<36 { #expect((stored(store, number) == nil) == missing.contains(number / 10)) }
    }

    @Test("records written after a torn record are found again")
    func tornTail() throws {
        let directory = try Directory()
        try fill(directory, 10, cleanly: false)
        // As after a kill during the last write.
        let name = try #require(directory.segments.first)
        let record = RecordHeader.recordBytes(payload: item(0, 60).payloadBytes)
        for offset in stride(from: record * 9 + 70, to: record * 10, by: 1) { directory.flip(name, at: offset) }
        #expect(try expectExactOrAbsent(directory, 10) == 9)
        let store = try directory.open()
        #expect(stored(store, 11) == body(11))
    }

    @Test("a directory that is not writable yields a read-only store")
    func readOnly() throws {
        // Root may write anywhere, so a path below a file represents a directory that cannot be created.
        let directory = try Directory()
        let file = directory.path + "/plain"
        close(csystem_open(file, O_CREAT | O_WRONLY, 0o600))
        let store = try ResponseStore(StoreSettings(directory: file + "/store", capacityBytes: 8 << 20))
        #expect(!store.statistics.isWritable)
        #expect(store.insert(item(1)) == .unwritable)
        #expect(stored(store, 1) == nil)
        #expect(store.statistics.refusal != nil && store.statistics.writeErrors == 0)
    }
}
