// Tests that removals and marks are written immediately, before other pending items, and never after content that is being coded. Waiting
// callers continue once the marks are written, or the disk has rejected them.

import CSystem
import Dispatch
import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("Writing marks")
struct MarkWritingTests {
    /// A coding that takes as long as a test requires.
    private final class HeldCoding: Sendable {
        let begun = DispatchSemaphore(value: 0)
        let gate = DispatchSemaphore(value: 0)

        func settings(_ directory: Directory) -> StoreSettings {
            var settings = StoreSettings(directory: directory.path, capacityBytes: 8 << 20, segmentBytes: 1 << 20)
            settings.encode = { [begun, gate] content, coding in
                begun.signal()
                gate.wait()
                return [coding] + content.prefix(10)
            }
            return settings
        }
    }

    private func text(_ number: Int, _ count: Int = 20_000) -> NewItem {
        NewItem(
            key: key(number), metadata: [1, 2, 3], head: Array("head \(number)".utf8), body: .bytes(body(number, count)), wantedCoding: 7,
            retention: .mayRescue)
    }

    /// Opens a copy of the files, as after a crash.
    private func afterCrash(_ directory: Directory, _ look: (ResponseStore) -> Void) throws {
        let copy = try Directory.copy(of: directory.path)
        look(try copy.open())
    }

    private func isWritten(_ store: ResponseStore) -> Bool? {
        let (answer, done) = (Mutex<Bool?>(nil), DispatchSemaphore(value: 0))
        store.whenMarksWritten { isWritten in
            answer.withLock { $0 = isWritten }
            done.signal()
        }
        done.wait()
        return answer.withLock { $0 }
    }

    @Test("a removal, a mark and a purge are written while a long text is being encoded")
    func behindCoding() throws {
        let directory = try Directory()
        let coding = HeldCoding()
        let store = try ResponseStore(coding.settings(directory))
        for number in 1...3 { store.insert(item(number)) }
        store.flush()
        store.insert(text(0))
        coding.begun.wait()
        store.remove(key(1).span)
        store.insert(item(4, retention: .outlives))
        #expect(isWritten(store) == true && !store.hasUnwrittenMarks)
        #expect(store.markStale(store.id(of: key(2))))
        // As at the end of a purge.
        store.synchronize()
        try afterCrash(directory) { store in
            #expect(stored(store, 1) == nil && stored(store, 4) == body(4) && stored(store, 0) == nil)
            #expect(store.lookUp(key(2).span)?.isMarkedStale == true && store.lookUp(key(3).span)?.isMarkedStale == false)
        }
        #expect(stored(store, 0) == body(0, 20_000))
        coding.gate.signal()
        store.flush()
        #expect(store.lookUp(key(0).span)?.form == ContentForm(coding: 7, plainBytes: 20_000) && store.statistics.pendingBytes == 0)
    }

    @Test("a caller that waits for marks continues at once if none is waiting or if the disk is full")
    func refused() throws {
        let directory = try Directory()
        // Full from the start, so there is no reserve either.
        let isFull = Mutex(true)
        let store = try directory.open { descriptor, bytes in isFull.withLock { $0 } ? ENOSPC : csystem_allocate(descriptor, bytes) }
        #expect(isWritten(store) == true && !store.hasUnwrittenMarks)
        store.insert(item(1, retention: .outlives))
        #expect(isWritten(store) == false && store.hasUnwrittenMarks)
        // Later callers fail too, while the disk is full.
        #expect(isWritten(store) == false)
        isFull.withLock { $0 = false }
        store.insert(item(2, retention: .outlives))
        #expect(isWritten(store) == true && !store.hasUnwrittenMarks)
    }

    @Test("content being encoded at a hand-over is written unencoded, and nothing is written afterwards")
    func handedOver() throws {
        let directory = try Directory()
        let coding = HeldCoding()
        let old = try ResponseStore(coding.settings(directory))
        old.insert(text(0))
        coding.begun.wait()
        let offer = try #require(old.offer())
        let new = try ResponseStore(coding.settings(directory), inherited: offer)
        let end = old.pass { _ in }
        old.leave()
        new.own(upTo: end)
        coding.gate.signal()
        old.waitUntilIdle()
        #expect(stored(new, 0) == body(0, 20_000) && new.statistics.damaged == 0)
        new.insert(item(1))
        new.flush()
        #expect(stored(new, 1) == body(1) && new.statistics.damaged == 0)
    }

    private struct Walk {
        let directory: Directory
        let coding = HeldCoding()
        var store: ResponseStore
        /// Number of the body, and whether the item is stale.
        var model: [Int: (body: Int, isStale: Bool)] = [:]
        var version = 0

        init() throws {
            directory = try Directory()
            store = try ResponseStore(coding.settings(directory))
        }

        private func item(_ number: Int, isCoded: Bool) -> NewItem {
            NewItem(
                key: key(number), metadata: [1, 2, 3], head: Array("head \(number)".utf8), body: .bytes(body(version, 3_000)),
                wantedCoding: isCoded ? 7 : 0, retention: isCoded || version % 7 != 0 ? .mayRescue : .outlives)
        }

        private func check() throws {
            for number in 0..<12 {
                let found = store.lookUp(key(number).span)
                let wanted = model[number]
                try demand((found != nil) == (wanted != nil), "key \(number)")
                guard let found, let wanted else { continue }
                let whole = body(wanted.body, 3_000)
                try demand(found.isMarkedStale == wanted.isStale, "key \(number)")
                try demand(Array(found.body) == (found.form.coding == 0 ? whole : [7] + whole.prefix(10)), "key \(number)")
            }
        }

        mutating func restart() throws {
            for _ in 0..<2_000 { coding.gate.signal() }
            store.close()
            store = try ResponseStore(coding.settings(directory))
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            let number = random.below(12)
            switch random.below(100) {
            case ..<55:
                version += 1
                try demand(store.insert(item(number, isCoded: random.isTrue())) == .accepted)
                model[number] = (version, false)
            case ..<70:
                store.remove(key(number).span)
                model[number] = nil
            case ..<80:
                try demand(store.markStale(store.id(of: key(number))) == (model[number] != nil))
                model[number]?.isStale = true
            case ..<82:
                store.markAllStale()
                for number in model.keys { model[number]?.isStale = true }
            case ..<83:
                store.removeAll()
                model = [:]
            case ..<95: coding.gate.signal()
            case ..<98: store.flushMarks()
            default: try restart()
            }
            try check()
        }

        mutating func end() throws {
            try restart()
            try check()
            try demand(store.statistics.damaged == 0)
        }
    }

    @Test("random schedules: the files hold the last change of each key, in whatever order changes overtake each other", .slow)
    func walk() {
        RandomSchedules.run(8, steps: 1_000) { _ in
            try Walk()
        } step: {
            try $0.step(&$1)
        } end: {
            try $0.end()
        }
    }
}
