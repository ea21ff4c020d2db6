// Tests of look-ups that do not wait for the disk: data that is not in memory is loaded first, and the look-up is repeated.

import Dispatch
import Glibc
import TestSupport
import Testing

@testable import CacheStore

@Suite("Items in memory and on disk")
struct ResidencyTests {
    private func open(_ directory: Directory, _ residency: ScriptedResidency) throws -> ResponseStore {
        var settings = StoreSettings(directory: directory.path, capacityBytes: 8 << 20, segmentBytes: 1 << 20)
        settings.residency = residency
        return try ResponseStore(settings)
    }

    /// The data to load; nil if a look-up need not wait.
    private func onDisk(_ store: ResponseStore, _ number: Int) -> OnDisk? {
        var basis = LookUpBasis()
        do throws(OnDisk) {
            _ = try store.find(key(number).span, &basis, mayWait: false)
            return nil
        } catch {
            return error
        }
    }

    private func find(_ store: ResponseStore, _ number: Int) -> StoredItem? {
        let bytes = key(number)
        return store.lookUp(bytes.span)
    }

    private func load(_ wanted: OnDisk, _ store: ResponseStore) {
        let done = DispatchSemaphore(value: 0)
        store.load(wanted) { done.signal() }
        done.wait()
    }

    @Test("an item that is only on disk is loaded once, and then found")
    func loads() throws {
        let directory = try Directory()
        let residency = ScriptedResidency()
        let store = try open(directory, residency)
        store.insert(item(1))
        #expect(onDisk(store, 1) == nil, "an item that is not yet written is in memory")
        store.flush()
        residency.takeAway()
        let wanted = try #require(onDisk(store, 1))
        load(wanted, store)
        #expect(onDisk(store, 1) == nil && stored(store, 1) == body(1))
        #expect(store.statistics.loaded == 1)
        #expect(onDisk(store, 2) == nil, "an unstored key causes no wait")
    }

    @Test("an item that was removed or replaced during its loading is not found, or found in its new version")
    func changedMeanwhile() throws {
        let directory = try Directory()
        let residency = ScriptedResidency()
        let store = try open(directory, residency)
        for number in 1...2 { store.insert(item(number)) }
        store.flush()
        residency.takeAway()
        let wanted = try [1, 2].map { try #require(onDisk(store, $0)) }
        store.remove(key(1).span)
        store.insert(NewItem(key: key(2), metadata: [1, 2, 3], head: Array("head 2".utf8), body: [9], retention: .mayRescue))
        for one in wanted { load(one, store) }
        #expect(onDisk(store, 1) == nil && stored(store, 1) == nil)
        // The new item is on disk only, once it has been written.
        store.flush()
        if let again = onDisk(store, 2) { load(again, store) }
        #expect(onDisk(store, 2) == nil && stored(store, 2) == [9])
    }

    @Test("loading detects a damaged item")
    func damaged() throws {
        let directory = try Directory()
        let residency = ScriptedResidency()
        let store = try open(directory, residency)
        store.insert(item(1))
        store.flush()
        residency.takeAway()
        let wanted = try #require(onDisk(store, 1))
        directory.flip(try #require(directory.segments.first), at: RecordHeader.bytes + 40)
        load(wanted, store)
        #expect(onDisk(store, 1) == nil && stored(store, 1) == nil && store.statistics.damaged == 1)
    }

    @Test("a truncated file costs the items stored there, and does not crash the process", arguments: [true, false])
    func cutShort(onLoop: Bool) throws {
        let directory = try Directory()
        let store = try directory.open()
        for number in 1...3 { store.insert(item(number, 9_000)) }
        store.flush()
        #expect(truncate(directory.path + "/" + (try #require(directory.segments.first)), 4_096) == 0)
        if onLoop { #expect(onDisk(store, 2) == nil, "a recently written item is in the page cache") }
        #expect(stored(store, 2) == nil)
        #expect(store.statistics.damaged == 1)
        store.insert(item(4))
        store.flush()
        #expect(stored(store, 4) == body(4))
    }

    @Test("the checksum of a large item is verified during loading, not on an event loop", .slow)
    func large() throws {
        let directory = try Directory()
        do {
            let store = try directory.open(64 << 20, segment: 8 << 20)
            store.insert(item(1, 3 << 20))
            store.flush()
            #expect(onDisk(store, 1) == nil, "a recently written item is in the page cache")
            store.close()
        }
        let store = try directory.open(64 << 20, segment: 8 << 20)
        let wanted = try #require(onDisk(store, 1))
        load(wanted, store)
        #expect(onDisk(store, 1) == nil && stored(store, 1) == body(1, 3 << 20))
    }

    @Test("an item can share the content of another without a copy", arguments: [true, false])
    func sharedContent(isWritten: Bool) throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        if isWritten { store.flush() }
        let first = try #require(find(store, 1))
        let again = NewItem(
            key: key(2), metadata: [1, 2, 3], head: Array("head 2".utf8), body: .stored(first.body, first.form, owner: first.owner),
            retention: .mayRescue)
        store.insert(again)
        #expect(stored(store, 2) == body(1))
        store.remove(key(1).span)
        store.close()
        #expect(stored(try directory.open(), 2) == body(1))
    }

    @Test("a copied head is equal, and its item can still be removed")
    func heldHead() throws {
        let directory = try Directory()
        let store = try directory.open()
        store.insert(item(1))
        store.flush()
        let found = try #require(find(store, 1))
        let held = found.holdingHead
        #expect(held.head.elementsEqual(found.head) && held.head.baseAddress != found.head.baseAddress && held.body.elementsEqual(body(1)))
        store.remove(key(1).span, ifStill: held)
        #expect(stored(store, 1) == nil)
    }

    @Test(
        "an item seen in memory counts as in memory for a while, and more briefly when memory is scarce",
        arguments: [
            (100, 100, -60, true), (100, 129, -60, true), (100, 130, -60, false), (100, 100, 90, true), (100, 101, 90, false),
            (100, 120, 50, true), (65_534, 65_536, -60, true), (100, 99, -60, false),
        ] as [(Int, Int, Int, Bool)])
    func seenInMemory(known: Int, now: Int, lastAway: Int, holds: Bool) {
        #expect(ResidencyTrust.holds(ResidencyTrust.mark(known), now: now, lastAway: lastAway) == holds)
        #expect(!ResidencyTrust.holds(0, now: now, lastAway: lastAway))
    }

    @Test("more items than one batch holds are all found in the segment, and eviction leaves none behind", .slow)
    func pieces() throws {
        let directory = try Directory()
        let store = try directory.open()
        for number in 0..<3_000 { store.insert(item(number, 50)) }
        #expect(store.statistics.entries == 3_000)
        store.flush()
        for number in 0..<3_000 { #expect(stored(store, number) == body(number, 50)) }
        #expect(store.statistics.pendingBytes == 0)
        for number in 3_000..<60_000 { store.insert(item(number, 50)) }
        store.flush()
        #expect(store.statistics.evicted > 0 && store.statistics.pendingBytes == 0)
    }
}
