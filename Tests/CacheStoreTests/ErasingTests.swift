// Tests that erasing removes the bytes of removed and replaced items from the files, and changes nothing else: neither the other items nor
// what a start after a crash finds.

import CSystem
import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("Erasing removed items")
struct ErasingTests {
    /// Whether any file of the directory contains the bytes.
    private static func contains(_ bytes: [UInt8], in directory: Directory) -> Bool {
        directory.segments.contains { name in
            let file = (try? TestTools.readBytes(directory.path + "/" + name)) ?? []
            return TestTools.index(of: String(decoding: bytes, as: UTF8.self), in: file) != nil
        }
    }

    private static func isKey(_ number: Int) -> (UnsafeRawBufferPointer) -> Bool { { $0.elementsEqual(key(number)) } }

    private static func isAny(_ key: UnsafeRawBufferPointer) -> Bool { true }

    @Test("removed and replaced items are gone from the files, all others stay, and a start after a crash finds no damage")
    func erased() throws {
        let directory = try Directory()
        let store = try directory.open()
        for number in 0..<10 { store.insert(item(number, 200_000)) }
        store.flush()
        store.insert(item(3, 1_000))
        store.remove(key(4).span)
        store.flush()
        #expect(Self.contains(Array("head 4".utf8), in: directory) && directory.segments.count > 1)
        // A second name keeps each old file, so that its content shows whether it was overwritten.
        let links = try Directory()
        for name in directory.segments { link(directory.path + "/" + name, links.path + "/" + name) }
        let result = try store.erase(where: Self.isKey(4))
        #expect(result.files == 1 && result.bytes > 200_000 && result.inUse == 0)
        #expect(!Self.contains(Array("head 4".utf8), in: directory) && !Self.contains(Array("head 4".utf8), in: links))
        #expect(try store.erase(where: Self.isKey(4)).files == 0)
        _ = try store.erase(where: Self.isKey(3))
        for store in [store, try Directory.copy(of: directory.path).open()] {
            for number in 0..<10 where number != 4 { #expect(stored(store, number) == body(number, number == 3 ? 1_000 : 200_000)) }
            #expect(stored(store, 4) == nil && store.statistics.damaged == 0 && store.statistics.opening.damagedSpans == 0)
        }
        store.insert(item(11))
        store.flush()
        #expect(stored(try Directory.copy(of: directory.path).open(), 11) == body(11))
    }

    @Test("an item that is being read stays readable; its file counts as used")
    func held() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1, 5_000))
        store.flush()
        let lookedUp = store.lookUp(key(1).span)
        let found = try #require(lookedUp)
        store.remove(key(1).span)
        #expect(try store.erase(patience: 0, where: Self.isAny).inUse == 1)
        #expect(withExtendedLifetime(found.owner) { Array(found.body) } == body(1, 5_000))
        #expect(!Self.contains(Array("head 1".utf8), in: directory))
    }

    @Test("removals, marks and stale marks in a rewritten file keep their effect on older files")
    func marks() throws {
        let directory = try Directory()
        let store = try directory.open()
        for number in 0..<12 { store.insert(item(number, 200_000)) }
        store.flush()
        store.remove(key(0).span)
        _ = store.markStale(store.id(of: key(1)))
        store.insert(item(20, 300, retention: .always))
        store.insert(item(21))
        store.flush()
        store.remove(key(21).span)
        #expect(try store.erase(where: Self.isKey(21)).files == 1)
        let after = try Directory.copy(of: directory.path).open()
        #expect(stored(after, 0) == nil && stored(after, 20) != nil)
        #expect(after.lookUp(key(1).span)?.isMarkedStale == true && after.lookUp(key(2).span)?.isMarkedStale == false)
    }

    @Test("if the disk has no space for a copy, nothing changes, and the next start removes an incomplete copy")
    func noSpace() throws {
        let directory = try Directory()
        let isFull = Mutex(false)
        let store = try directory.open(allocate: { descriptor, bytes in
            isFull.withLock { $0 } ? ENOSPC : csystem_allocate(descriptor, bytes)
        })
        for number in 0..<3 { store.insert(item(number)) }
        store.flush()
        store.remove(key(1).span)
        isFull.withLock { $0 = true }
        #expect(throws: EraseError.failed(code: ENOSPC, path: directory.path + "/erasing")) { try store.erase(where: Self.isAny) }
        #expect(stored(store, 0) == body(0) && stored(store, 2) == body(2) && !directory.files.contains("erasing"))
        store.close()
        copyFile(directory.path + "/key", to: directory.path + "/erasing")
        let next = try directory.open()
        #expect(!directory.files.contains("erasing") && stored(next, 0) == body(0))
    }

    @Test("damaged records are erased whatever their key was, and every later start still finds the damage")
    func damaged() throws {
        let directory = try Directory()
        let former = try directory.open()
        for number in 0..<6 { former.insert(item(number, 5_000)) }
        former.flush()
        former.close()
        unlink(directory.path + "/index")
        let (name, record) = (try #require(directory.segments.first), RecordHeader.recordBytes(payload: item(0, 5_000).payloadBytes))
        // The header of one record, the key of another one, and the header of the last one.
        for offset in [record + 10, 3 * record + RecordHeader.bytes, 5 * record + 10] { directory.flip(name, at: offset) }
        let store = try directory.open()
        #expect(store.statistics.opening.damagedSpans == 2)
        let result = try store.erase { _ in false }
        #expect(result.files == 1 && result.bytes > 3 * record - RecordHeader.alignment && result.inUse == 0)
        #expect(try store.erase { _ in false }.files == 0)
        store.insert(item(7))
        store.flush()
        for number in [1, 3, 5] { #expect(!Self.contains(Array("head \(number)".utf8), in: directory)) }
        let after = try Directory.copy(of: directory.path).open()
        #expect(after.statistics.opening.damagedSpans == 2)
        for store in [store, after] {
            for number in 0..<6 { #expect(stored(store, number) == ([1, 3, 5].contains(number) ? nil : body(number, 5_000))) }
            #expect(stored(store, 7) == body(7))
        }
    }

    @Test("a damaged mark stays damage, so that later starts count earlier items as stale", arguments: [true, false])
    func damagedMark(isKey: Bool) throws {
        let directory = try Directory()
        let former = try directory.open()
        for number in 0..<3 { former.insert(item(number, 5_000)) }
        former.flush()
        former.insert(item(3, 300, retention: .outlives))
        former.flush()
        former.insert(item(4, 5_000))
        former.remove(key(0).span)
        former.flush()
        former.close()
        unlink(directory.path + "/index")
        let mark = 3 * RecordHeader.recordBytes(payload: item(0, 5_000).payloadBytes)
        let payload = isKey ? 0 : key(3).count + item(3).metadata.count
        directory.flip(try #require(directory.segments.first), at: mark + RecordHeader.bytes + payload)
        let store = try directory.open()
        let copy = try Directory.copy(of: directory.path)
        #expect(try store.erase(where: Self.isAny).files == 1)
        for store in [store, try copy.open(), try Directory.copy(of: directory.path).open()] {
            #expect(store.lookUp(key(1).span)?.isMarkedStale == true && store.lookUp(key(4).span)?.isMarkedStale == false)
            #expect(stored(store, 0) == nil && stored(store, 3) == nil && store.statistics.opening.damagedSpans == 1)
        }
        #expect(try store.erase(where: Self.isAny).files == 0 && !Self.contains(Array("head 3".utf8), in: directory))
    }

    @Test("zeros after damage at the end of a file do not count as erased bytes")
    func tail() throws {
        let directory = try Directory()
        let former = try directory.open()
        for number in 0..<2 { former.insert(item(number, 5_000)) }
        former.flush()
        former.close()
        unlink(directory.path + "/index")
        let record = RecordHeader.recordBytes(payload: item(0, 5_000).payloadBytes)
        directory.flip(try #require(directory.segments.first), at: record + 10)
        let erased = try directory.open().erase { _ in false }
        #expect(erased.files == 1 && erased.bytes > record / 2 && erased.bytes <= record)
    }

    private final class World {
        let directory: Directory
        let store: ResponseStore
        /// Lengths of the stored items.
        var model: [Int: Int] = [:]

        static let numbers = 20..<32

        init() throws {
            directory = try Directory()
            store = try directory.open(16 << 20)
        }

        func check(_ store: ResponseStore) throws(ScheduleFailure) {
            for number in Self.numbers {
                try demand(stored(store, number) == model[number].map { body(number, $0) }, "item \(number)")
            }
        }
    }

    @Test("random changes: erasing changes no result, and erases every removed item")
    func walk() {
        RandomSchedules.run(20, steps: 40) { _ in
            try World()
        } step: { world, random in
            let number = World.numbers.lowerBound + random.below(World.numbers.count)
            switch random.below(10) {
            case 0..<5:
                let length = 1_000 + random.below(60_000)
                world.model[number] = length
                world.store.insert(item(number, length))
            case 5..<7:
                world.model[number] = nil
                world.store.remove(key(number).span)
            case 7: world.store.flush()
            case 8:
                _ = try world.store.erase(where: Self.isAny)
                for number in World.numbers where world.model[number] == nil {
                    try demand(!Self.contains(Array("head \(number)".utf8), in: world.directory), "item \(number) is on the disk")
                }
            default:
                world.store.flush()
                try world.check(try Directory.copy(of: world.directory.path).open(16 << 20))
            }
            try world.check(world.store)
        }
    }
}
