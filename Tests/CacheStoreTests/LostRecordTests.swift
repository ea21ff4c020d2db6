// Tests of removals with a lost record: the removed item must not return unnoticed. Remains of a killed writer are not damage.

import CSystem
import Glibc
import Testing

@testable import CacheStore

@Suite("Lost records")
struct LostRecordTests {
    enum TakenBack: CaseIterable { case removal, mark, clearing, markOfAll, needed }

    private static let recordBytes = RecordHeader.recordBytes(payload: item(0, 60).payloadBytes)
    private static let count = 8

    private func fill(_ directory: Directory) throws -> ResponseStore {
        let store = try directory.open()
        for number in 0..<Self.count { store.insert(item(number, 60)) }
        store.flush()
        return store
    }

    private func takeBack(_ what: TakenBack, in store: ResponseStore) {
        switch what {
        case .removal: store.remove(key(3).span)
        case .mark: _ = store.markStale(store.id(of: key(3)))
        case .clearing: store.removeAll()
        case .markOfAll: store.markAllStale()
        case .needed: store.insert(item(50, 60, retention: .outlives))
        }
        store.flush()
    }

    private func isStale(_ store: ResponseStore, _ number: Int) -> Bool? { store.lookUp(key(number).span)?.isMarkedStale }

    private func overwriteWithZeros(_ directory: Directory, from offset: Int) throws {
        let name = try #require(directory.segments.last)
        let descriptor = csystem_open(directory.path + "/" + name, O_RDWR, 0)
        defer { close(descriptor) }
        let zeros = [UInt8](repeating: 0, count: directory.size(name) - offset)
        try #require(pwrite(descriptor, zeros, zeros.count, off_t(offset)) == zeros.count)
    }

    @Test(
        "a damaged record of a purge or write makes all older items stale, and no later ones",
        arguments: TakenBack.allCases, [true, false])
    func damagedRecord(_ what: TakenBack, isLast: Bool) throws {
        let directory = try Directory()
        do {
            let store = try fill(directory)
            takeBack(what, in: store)
            if !isLast {
                store.insert(item(20))
                store.flush()
            }
        }
        // The mark of a write is an item, so damage of its content counts too.
        let place = what == .needed ? 70 : 30
        directory.flip(try #require(directory.segments.first), at: Self.recordBytes * Self.count + place)
        for start in 0..<3 {
            let store = try directory.open()
            #expect(store.statistics.damaged == 1)
            for number in 0..<Self.count { #expect(isStale(store, number) == true) }
            #expect(isLast || isStale(store, 20) == false)
            for later in 0..<start { #expect(isStale(store, 30 + later) == false) }
            store.insert(item(30 + start))
            store.flush()
        }
    }

    @Test("a mark that a lookup finds damaged makes everything stale permanently")
    func damagedSinceTheStart() throws {
        let directory = try Directory()
        do {
            let store = try fill(directory)
            takeBack(.needed, in: store)
            store.close()
        }
        directory.flip(try #require(directory.segments.first), at: Self.recordBytes * Self.count + 70)
        for _ in 0..<2 {
            let store = try directory.open()
            #expect(store.lookUp(key(50).span) == nil)
            #expect(store.statistics.damaged == 1)
            for number in 0..<Self.count { #expect(isStale(store, number) == true) }
            store.flush()
        }
    }

    @Test("an unfinished last write of a killed process makes nothing stale, nor do later writes")
    func tornWrite() throws {
        let end = Self.recordBytes * Self.count
        for cut in stride(from: Self.recordBytes * 6, through: end + 64, by: 16) {
            let directory = try Directory()
            takeBack(.removal, in: try fill(directory))
            try overwriteWithZeros(directory, from: cut)
            for start in 0..<2 {
                let store = try directory.open()
                #expect(store.statistics.damaged == 0)
                for number in 0..<5 where number != 3 { #expect(isStale(store, number) == false) }
                #expect(isStale(store, 3) == (cut < end + 64 ? false : nil))
                #expect(start == 0 || isStale(store, 30) == false)
                store.insert(item(30))
                store.flush()
            }
        }
    }

    @Test("a mark whose write was cut off at a page boundary makes nothing stale")
    func tornMark() throws {
        let directory = try Directory()
        do {
            let store = try fill(directory)
            store.insert(item(50, 9_000, retention: .outlives))
            store.flush()
        }
        try overwriteWithZeros(directory, from: 8_192)
        let store = try directory.open()
        #expect(store.lookUp(key(50).span) == nil && store.statistics.damaged == 0)
        for number in 0..<Self.count { #expect(isStale(store, number) == false) }
    }

    private func fillSegments(_ directory: Directory) throws {
        let store = try directory.open()
        for number in 0..<36 { store.insert(item(number, 100_000)) }
        store.flush()
        try #require(directory.segments.count == 4)
    }

    @Test("a file that is missing or was truncated after a record makes all older items stale", arguments: [true, false])
    func lostFile(isMissing: Bool) throws {
        let directory = try Directory()
        try fillSegments(directory)
        let path = directory.path + "/" + directory.segments[1]
        if isMissing {
            unlink(path)
        } else {
            truncate(path, off_t(RecordHeader.recordBytes(payload: item(10, 100_000).payloadBytes) * 4))
        }
        let store = try directory.open()
        #expect(store.statistics.damaged == 1)
        for number in 0..<10 { #expect(isStale(store, number) == true) }
        for number in 20..<36 { #expect(isStale(store, number) == false) }
    }

    @Test("files of another size than configured do not count as damaged", arguments: [1 << 19, 1 << 21])
    func otherSize(segment: Int) throws {
        let directory = try Directory()
        try fillSegments(directory)
        let store = try directory.open(segment: segment)
        #expect(store.statistics.damaged == 0)
        for number in 0..<36 { #expect(isStale(store, number) == false) }
    }
}
