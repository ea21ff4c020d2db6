// Tests of the measured delays of events, and that one event never waits for thousands of others.

import CSystem
import Dispatch
import Glibc
import Testing

@testable import Reactor

@Suite("Waiting times on an event loop")
struct LoopWaitsTests {
    private let second: Int64 = 1_000_000

    @Test("the longest waiting time of the last minute is reported, and forgotten afterwards")
    func longest() {
        var waits = LoopWaits()
        #expect(waits.longestLately(now: 0) == 0)
        waits.note(700, at: 5 * second)
        waits.note(300, at: 15 * second)
        #expect(waits.longestLately(now: 15 * second) == 700)
        #expect(waits.longestLately(now: 59 * second) == 700)
        #expect(waits.longestLately(now: 70 * second) == 300)
        #expect(waits.longestLately(now: 80 * second) == 0)
        waits.note(100, at: 500 * second)
        #expect(waits.longestLately(now: 500 * second) == 100)
        #expect(waits.longestLately(now: 10_000 * second) == 0)
    }

    @Test(
        "each duration is counted in a bucket between two powers of two",
        arguments: [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 18, 18), (.max, 19)] as [(Int64, Int)])
    func counted(duration: Int64, bucket: Int) {
        var waits = LoopWaits()
        waits.note(duration, at: 1)
        #expect((0..<LoopWaits.buckets).map { waits.counts[$0] } == (0..<LoopWaits.buckets).map { $0 == bucket ? 1 : 0 })
        #expect(waits.sum == duration)
    }

    @Test("a descriptor is polled before a thousand queued tasks are done, and all of them are done")
    func turns() {
        let loop = EventLoop(label: "test")
        let done = Mutex(0)
        let seen = Mutex<Int?>(nil)
        let end = DispatchSemaphore(value: 0)
        let event = eventfd(1, Int32(EFD_NONBLOCK))
        let handler = Handler {
            loop.remove(event)
            seen.withLock { $0 = done.withLock { $0 } }
        }
        loop.execute { loop.add(event, .readable, handler) }
        for _ in 0..<1_000 { loop.execute { done.withLock { $0 += 1 } } }
        loop.execute { end.signal() }
        loop.start()
        end.wait()
        #expect(done.withLock { $0 } == 1_000)
        #expect(seen.withLock { $0 } == 255)
        loop.stop()
        close(event)
    }
}

/// `@unchecked Sendable` because it is called on the loop only.
private final class Handler: EventHandler, @unchecked Sendable {
    private let action: () -> Void
    init(_ action: @escaping () -> Void) { self.action = action }
    func ready(_ events: ReadyEvents) { action() }
}
