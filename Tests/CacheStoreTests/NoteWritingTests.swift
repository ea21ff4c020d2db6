// Tests of changed notes that reach the disk together: after a crash a note is at most one interval old, and never applies to another item.

import Dispatch
import Glibc
import TestSupport
import Testing

@testable import CacheStore

@Suite("Notes on disk")
struct NoteWritingTests {
    private let directory: Directory

    init() throws { directory = try Directory() }

    private func note(_ store: ResponseStore, _ number: Int) -> UInt32? { store.lookUp(key(number).span)?.note }

    private func isStale(_ store: ResponseStore, _ number: Int) -> Bool? { store.lookUp(key(number).span)?.isMarkedStale }

    private func set(_ store: ResponseStore, _ note: UInt32, of number: Int) throws {
        let found = store.lookUp(key(number).span)
        let item = try #require(found)
        store.setNote(note, of: key(number).span, ifStill: item)
    }

    /// The store as a crash would leave it now.
    private func crashed() throws -> (store: ResponseStore, directory: Directory) {
        let copy = try Directory.copy(of: directory.path)
        return (try copy.open(), copy)
    }

    private func bytesWritten(_ store: ResponseStore) -> Int {
        store.writer.serial.sync { Int(store.writer.position.segment) << 20 + store.writer.position.offset }
    }

    @Test("changed notes are written together, once, with 32 bytes each")
    func together() throws {
        let store = try directory.open()
        for number in 0..<100 { store.insert(item(number)) }
        store.flush()
        let before = bytesWritten(store)
        for value: UInt32 in 1...50 {
            for number in 0..<100 { try set(store, value, of: number) }
        }
        #expect(store.statistics.notesWaiting == 100)
        store.writer.writeNotesNow(store)
        #expect(store.statistics.notesWaiting == 0 && store.statistics.notesWritten == 100)
        #expect(bytesWritten(store) - before == RecordHeader.bytes + 100 * 32)
        for number in 0..<100 { try set(store, 50, of: number) }
        store.writer.writeNotesNow(store)
        #expect(bytesWritten(store) - before == RecordHeader.bytes + 100 * 32, "unchanged notes are not written again")
        try set(store, 51, of: 7)
        let after = try crashed()
        #expect((0..<100).allSatisfy { note(after.store, $0) == 50 })
        #expect(stored(after.store, 7) == body(7) && after.store.statistics.entries == 100)
        #expect(after.store.statistics.opening.damagedSpans == 0)
    }

    @Test("a written note never applies to a later item, and never restores a removed one")
    func others() throws {
        let store = try directory.open()
        for number in 0..<4 { store.insert(item(number)) }
        store.flush()
        for number in 0..<4 { try set(store, 9, of: number) }
        store.insert(item(0))
        store.flush()
        store.writer.writeNotesNow(store)
        store.remove(key(1).span)
        store.insert(item(2))
        _ = store.markStale(store.id(of: key(3)))
        store.flush()
        let after = try crashed().store
        #expect(note(after, 0) == 0 && note(after, 1) == nil && note(after, 2) == 0)
        #expect(note(after, 3) == 9 && isStale(after, 3) == true)
    }

    @Test("a note that changes while its item waits or is kept by an eviction is written with the item")
    func withItem() throws {
        let store = try directory.open(4 << 20)
        store.insert(item(1))
        try set(store, 7, of: 1)
        store.flush()
        #expect(note(try crashed().store, 1) == 7)
        try set(store, 8, of: 1)
        for number in 100..<104 {
            for other in 0..<1_500 { store.insert(item(number * 10_000 + other)) }
            store.flush()
            #expect(stored(store, 1) == body(1))
        }
        #expect(store.statistics.reinserted > 0)
        #expect(note(try crashed().store, 1) == 8)
    }

    @Test("more notes than one record holds are written in turn with other work, and removals do not wait")
    func many() throws {
        let store = try directory.open(16 << 20)
        let count = 40_000
        for number in 0..<count { store.insert(item(number, 20)) }
        store.flush()
        for number in 0..<count { try set(store, UInt32(number + 1), of: number) }
        let waiting = store.writer.serial.sync {
            store.writer.writeNotes(store, inTurn: true)
            return store.statistics.notesWaiting
        }
        #expect(waiting > 0, "the rest follows after other work")
        store.remove(key(0).span)
        store.flushMarks()
        while store.statistics.notesWaiting > 0 { store.waitUntilIdle() }
        // The last notes are taken before they are written.
        store.writer.serial.sync {}
        let after = try crashed().store
        #expect((1..<count).allSatisfy { note(after, $0) == UInt32($0 + 1) } && note(after, 0) == nil)
    }

    @Test("notes that a failing disk refuses stay in memory, and are written later", arguments: [EIO, ENOSPC])
    func refused(_ error: Int32) throws {
        let disk = ModelDisk(bytes: 64 << 20)
        let store = try ResponseStore(disk.settings(directory.path, capacity: 8 << 20, segment: 1 << 20))
        store.insert(item(1))
        store.flush()
        try set(store, 7, of: 1)
        disk.failWrites(error)
        store.writer.writeNotesNow(store)
        store.writer.writeNotesNow(store)
        #expect(store.statistics.notesWaiting == 1 && note(store, 1) == 7 && stored(store, 1) == body(1))
        disk.failWrites(0)
        store.writer.tryAgainNow(store)
        store.insert(item(2))
        store.flush()
        store.writer.writeNotesNow(store)
        #expect(store.statistics.notesWaiting == 0 && store.statistics.notesWritten == 1)
        #expect(note(try crashed().store, 1) == 7)
    }

    @Test("a damaged record of notes makes the responses appear older, and nothing else")
    func damaged() throws {
        var store: ResponseStore? = try directory.open()
        store?.insert(item(1))
        store?.flush()
        let offset = bytesWritten(try #require(store)) & ((1 << 20) - 1)
        try set(try #require(store), 7, of: 1)
        store?.writer.writeNotesNow(try #require(store))
        let copy = try crashed().directory
        store = nil
        copy.flip(copy.segments[0], at: offset + RecordHeader.bytes + 5)
        let after = try copy.open()
        #expect(note(after, 1) == 0 && stored(after, 1) == body(1) && isStale(after, 1) == false)
    }

    @Test("a new process takes over the notes of all times")
    func handOver() throws {
        let old = try directory.open()
        for number in 0..<3 { old.insert(item(number)) }
        old.flush()
        try set(old, 5, of: 0)
        let offer = try #require(old.offer())
        let new = try ResponseStore(
            StoreSettings(directory: directory.path, capacityBytes: 8 << 20, segmentBytes: 1 << 20), inherited: offer)
        try set(old, 6, of: 1)
        old.writer.writeNotesNow(old)
        try set(old, 7, of: 2)
        let end = old.pass { _ in }
        old.leave()
        new.own(upTo: end)
        #expect((0..<3).map { note(new, $0) } == [5, 6, 7])
        #expect(new.statistics.notesWaiting == 0)
        try set(new, 8, of: 0)
        new.writer.writeNotesNow(new)
        #expect((0..<3).map { number in try? note(crashed().store, number) } == [8, 6, 7])
    }
}
