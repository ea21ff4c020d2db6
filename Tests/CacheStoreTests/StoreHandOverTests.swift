// Tests of handing a store to another process. The new process has all items of the old one, and removals stay in effect, whatever happens
// during the transfer.

import CSystem
import Dispatch
import Glibc
import Reactor
import TakeOver
import TestSupport
import Testing

@testable import CacheStore

@Suite("Hand-over of a store to a new process")
struct StoreHandOverTests {
    private let directory: Directory

    init() throws { directory = try Directory() }

    private func settings(_ capacity: Int = 8 << 20) -> StoreSettings {
        StoreSettings(directory: directory.path, capacityBytes: capacity, segmentBytes: 1 << 20)
    }

    /// Changes that one process sends to the other.
    private final class Told: Sendable {
        private let changes = Mutex<[PassedChange]>([])
        var all: [PassedChange] { changes.withLock { $0 } }

        func add(_ change: PassedChange) { changes.withLock { $0.append(change) } }
    }

    private func isStale(_ store: ResponseStore, _ number: Int) -> Bool? { store.lookUp(key(number).span)?.isMarkedStale }

    /// Hands the store over. Both stores exist as in two processes; the order is that of the take-over protocol.
    private func handOver(
        _ old: ResponseStore, capacity: Int = 8 << 20, afterOffer: () -> Void = {}, afterPass: () -> Void = {}
    ) throws -> ResponseStore {
        let offer = try #require(old.offer())
        let new = try ResponseStore(settings(capacity), inherited: offer)
        afterOffer()
        let told = Told()
        let end = old.pass { told.add($0) }
        afterPass()
        old.leave()
        new.own(upTo: end)
        for change in told.all { new.follow(change) }
        return new
    }

    @Test("changes of the old process during the hand-over are visible in the new one, and after its end")
    func meanwhile() throws {
        let old = try directory.open()
        for number in 0..<20 { old.insert(item(number)) }
        var new: ResponseStore? = try handOver(old) {
            old.insert(item(20))
            old.insert(NewItem(key: key(0), metadata: [1, 2, 3], head: Array("head 0".utf8), body: body(100), retention: .mayRescue))
            old.remove(key(1).span)
            _ = old.markStale(old.id(of: key(2)))
        } afterPass: {
            #expect(old.insert(item(30)) == .unwritable)
            old.remove(key(3).span)
            _ = old.markStale(old.id(of: key(4)))
        }
        func check(_ store: ResponseStore) {
            #expect(stored(store, 20) == body(20) && stored(store, 0) == body(100) && stored(store, 5) == body(5))
            #expect(stored(store, 1) == nil && stored(store, 3) == nil && stored(store, 30) == nil)
            #expect(isStale(store, 2) == true && isStale(store, 4) == true && isStale(store, 5) == false)
        }
        if let new {
            check(new)
            #expect(isStale(old, 5) == true, "an item that the new store may have changed is stale")
            #expect(new.insert(item(40)) == .accepted)
            old.close()
            new.close()
        }
        new = nil
        let anew = try directory.open()
        #expect(anew.statistics.opening.isFromSnapshot && stored(anew, 40) == body(40))
        check(anew)
    }

    @Test("between offer and commit everything is still written: a crash of both processes loses nothing")
    func durable() throws {
        let old = try directory.open()
        for number in 0..<4 { old.insert(item(number)) }
        _ = try ResponseStore(settings(), inherited: old.offer())
        old.remove(key(1).span)
        old.insert(item(9))
        old.synchronize()
        let copy = try Directory.copy(of: directory.path)
        let crashed = try copy.open()
        #expect(stored(crashed, 1) == nil && stored(crashed, 2) == body(2) && stored(crashed, 9) == body(9))
    }

    @Test(
        "segments created and evicted during the hand-over are correct in the new process",
        arguments: TestRun.isFast ? [3_000] : [3_000, 9_000, 40_000])
    func evicted(count: Int) throws {
        let old = try directory.open(4 << 20)
        for number in 0..<2_000 { old.insert(item(number)) }
        old.flush()
        let new = try handOver(old, capacity: 4 << 20) {
            for number in 2_000..<count {
                old.insert(item(number))
                if number % 500 == 0 { old.flush() }
            }
        }
        #expect(new.statistics.entries == old.statistics.entries)
        var found = 0
        for number in 0..<count {
            let here = stored(new, number)
            #expect(here == stored(old, number))
            if here != nil { found += 1 }
        }
        #expect(found == new.statistics.entries && found > 1_000)
    }

    @Test("a segment that the old process is creating is not removed as a leftover")
    func incompleteSegment() throws {
        let (begun, gate, isFirst) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), Mutex(true))
        let old = try directory.open(allocate: { descriptor, count in
            let waits = isFirst.withLock { isFirst in
                guard count > MarkReserve.bytes else { return false }
                defer { isFirst = false }
                return !isFirst
            }
            if waits {
                begun.signal()
                gate.wait()
            }
            return csystem_allocate(descriptor, count)
        })
        old.insert(item(0))
        old.flush()
        let offer = old.offer()
        for number in 1..<2_000 { old.insert(item(number)) }
        begun.wait()
        let new = try ResponseStore(settings(), inherited: offer)
        gate.signal()
        old.flush()
        let end = old.pass { _ in }
        old.leave()
        new.own(upTo: end)
        #expect(directory.segments.count == 2)
        for number in 0..<2_000 { #expect(stored(new, number) == body(number)) }
    }

    @Test("a smaller store in the new process has no entries without segments, and can be handed over again", .slow)
    func smaller() throws {
        let old = try directory.open(16 << 20)
        for number in 0..<15_000 {
            old.insert(item(number))
            if number % 500 == 0 { old.flush() }
        }
        let second = try handOver(old, capacity: 4 << 20)
        let found = (0..<15_000).count { stored(second, $0) != nil }
        #expect(found == second.statistics.entries && found > 1_000 && found < 8_000)
        #expect(directory.segments.count <= 4)
        let third = try handOver(second, capacity: 4 << 20)
        #expect(third.statistics.entries == found)
        #expect((0..<15_000).count { stored(third, $0) != nil } == found)
    }

    @Test("clearing or marking everything stale during the hand-over takes effect in the new process", arguments: [false, true])
    func all(isCleared: Bool) throws {
        let old = try directory.open()
        for number in 0..<20 { old.insert(item(number)) }
        let new = try handOver(old) {
            if isCleared { old.removeAll() } else { old.markAllStale() }
            old.insert(item(20))
        }
        #expect(isStale(new, 3) == (isCleared ? nil : true))
        #expect(isStale(new, 20) == false)
    }

    @Test("if the new process does not start, the old one continues to store, and removals in between stay")
    func oldProcessContinues() throws {
        var old: ResponseStore? = try directory.open()
        if let old {
            for number in 0..<20 { old.insert(item(number)) }
            _ = try #require(old.offer())
            _ = old.pass { _ in }
            old.remove(key(1).span)
            old.resume()
            #expect(old.insert(item(20)) == .accepted)
            old.flush()
        }
        old = nil
        let anew = try directory.open()
        #expect(stored(anew, 1) == nil && stored(anew, 2) == body(2) && stored(anew, 20) == body(20))
    }

    @Test("after the commit the old process can no longer take back the store")
    func noRollbackAfterCommit() throws {
        let old = try directory.open()
        old.insert(item(0))
        let new = try handOver(old)
        old.resume()
        #expect(old.insert(item(1)) == .unwritable)
        old.close()
        #expect(!directory.files.contains("index"))
        #expect(new.insert(item(2)) == .accepted)
        new.flush()
        #expect(stored(new, 2) == body(2))
        #expect(throws: StoreError.self) { try directory.open() }
    }

    @Test("the new process reports removals, marks and purges, and nothing else")
    func reported() throws {
        let old = try directory.open()
        for number in 0..<4 { old.insert(item(number)) }
        let new = try handOver(old)
        let told = Told()
        new.setPeer { told.add($0) }
        new.insert(item(9))
        new.remove(key(1).span)
        new.insert(item(10, 5, retention: .always))
        _ = new.markStale(new.id(of: key(2)))
        new.sendToPeer(.purge(milliseconds: 5))
        #expect(told.all.count == 4)
        for change in told.all { old.follow(change) }
        #expect(stored(old, 1) == nil && stored(old, 2) == body(2))
        new.setPeer(nil)
        new.removeAll()
        #expect(told.all.count == 4)
    }
}
