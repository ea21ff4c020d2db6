// Tests when inserted items are written to a segment. Items are gathered briefly, without losing a removal or a mark.

import CSystem
import Dispatch
import Testing

@testable import CacheStore

@Suite("Items waiting for the writer")
struct WriterQueueTests {
    enum Step {
        case response(Int)
        case mark, staleResponse, removal, staleMark, clearing
        /// The gathering time ends; the writer runs.
        case momentEnds, writerComes
    }

    private func work(_ step: Step) -> StoreWriter.Work? {
        func pending(_ bytes: Int, _ retention: Retention = .mayRescue) -> PendingItem {
            let body = ItemBody.bytes([UInt8](repeating: 0, count: bytes - 1))
            return PendingItem(NewItem(key: [1], metadata: [], head: [], body: body, retention: retention), hash: hash)
        }
        let hash = KeyHash(low: 1, high: 2)
        return switch step {
        case .response(let bytes): .item(pending(bytes))
        case .mark: .item(pending(10, .outlives))
        case .staleResponse: .item(PendingItem(markingStale: pending(10)))
        case .removal: .removal(hash)
        case .staleMark: .staleMark(hash)
        case .clearing: .clearing
        case .momentEnds, .writerComes: nil
        }
    }

    private static let half = WriterQueue.gatheredBytes / 2

    @Test(
        "the writer is called once for waiting items: after a delay, or at once for many bytes or for durable records",
        arguments: [
            ("responses wait together", [.response(10), .response(10), .response(10)], [.soon, .none, .none]),
            ("a full batch is written at once", [.response(half), .response(half), .response(half)], [.soon, .now, .none]),
            ("a large response is written at once", [.response(2 * half)], [.now]),
            (
                "a mark is written together with waiting responses", [.response(10), .mark, .removal, .response(10)],
                [.soon, .now, .none, .none]
            ),
            ("a response marked stale is written at once", [.staleResponse], [.now]),
            (
                "removals, stale marks and clearing are written at once", [.removal, .writerComes, .staleMark, .writerComes, .clearing],
                [.now, .now, .now]
            ),
            (
                "a second delay does not start while one is pending", [.response(10), .removal, .writerComes, .response(10)],
                [.soon, .now, .none]
            ),
            (
                "after it another begins", [.response(10), .momentEnds, .writerComes, .response(10), .momentEnds, .writerComes],
                [.soon, .soon]
            ),
            ("bytes are counted anew", [.response(half), .writerComes, .response(half)], [.soon, .none]),
        ] as [(String, [Step], [WriterQueue.Waking])])
    func writerCalls(name: String, steps: [Step], expected: [WriterQueue.Waking]) {
        var queue = WriterQueue()
        var (got, count, taken): ([WriterQueue.Waking], Int, Int) = ([], 0, 0)
        for step in steps {
            if let work = work(step) {
                got.append(queue.append(work))
                count += 1
            } else if case .momentEnds = step {
                queue.endMoment()
            } else {
                let all = queue.takeAll()
                taken += all.needed.work.count + all.rest.count
            }
        }
        #expect(got == expected, "\(name)")
        let (all, none) = (queue.takeAll(), queue.takeAll())
        #expect(taken + all.needed.work.count + all.rest.count == count, "\(name)")
        #expect(none.needed.work.isEmpty && none.rest.isEmpty, "\(name)")
    }

    /// Opens a copy of the files, as after a crash.
    private func afterCrash<Result>(_ directory: Directory, _ look: (ResponseStore) -> Result) throws -> Result {
        let copy = try Directory.copy(of: directory.path)
        return look(try copy.open())
    }

    @Test("waiting items are found at once; a crash loses only them, and a removal writes all of them")
    func crash() throws {
        let directory = try Directory()
        let store = try directory.open(gatheringMilliseconds: 3_600_000)
        for number in 0..<10 { store.insert(item(number)) }
        store.flush()
        for number in 5..<20 { store.insert(item(number, 900)) }
        store.waitUntilIdle()
        #expect((0..<20).allSatisfy { stored(store, $0) == body($0, $0 < 5 ? 500 : 900) })
        #expect(store.statistics.pendingBytes > 0 && store.statistics.entries == 20)
        try afterCrash(directory) { store in
            #expect((0..<10).allSatisfy { stored(store, $0) == body($0) })
            #expect((10..<20).allSatisfy { stored(store, $0) == nil })
        }
        store.remove(key(0).span)
        store.waitUntilIdle()
        #expect(store.statistics.pendingBytes == 0)
        try afterCrash(directory) { store in
            #expect(stored(store, 0) == nil)
            #expect((1..<20).allSatisfy { stored(store, $0) == body($0, $0 < 5 ? 500 : 900) })
        }
    }

    @Test("a clean stop writes all waiting items")
    func stop() throws {
        let directory = try Directory()
        let store = try directory.open(gatheringMilliseconds: 3_600_000)
        for number in 0..<10 { store.insert(item(number)) }
        store.close()
        try afterCrash(directory) { store in #expect((0..<10).allSatisfy { stored(store, $0) == body($0) }) }
    }

    @Test("the gathering delay ends by itself")
    func delayEnds() throws {
        let directory = try Directory()
        // The writer creates a segment before it writes.
        let hasCome = DispatchSemaphore(value: 0)
        let store = try directory.open(gatheringMilliseconds: 1) { descriptor, bytes in
            hasCome.signal()
            return csystem_allocate(descriptor, bytes)
        }
        store.insert(item(1))
        hasCome.wait()
        store.waitUntilIdle()
        #expect(store.statistics.pendingBytes == 0)
        try afterCrash(directory) { store in #expect(stored(store, 1) == body(1)) }
    }
}
