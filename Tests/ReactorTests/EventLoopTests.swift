// Tests of the event loop: events, work from other threads, timers with an injected clock, and no late events for a reused descriptor.

import CSystem
import Dispatch
import Glibc
import TestSupport
import Testing

@testable import Reactor

@Suite("The event loop")
struct EventLoopTests {
    @Test("work queued from another thread runs on the loop, in order")
    func executes() {
        let loop = EventLoop(label: "test")
        loop.start()
        let seen = Mutex<[Int]>([])
        let done = DispatchSemaphore(value: 0)
        for number in 0..<100 { loop.execute { seen.withLock { $0.append(number) } } }
        loop.execute { done.signal() }
        done.wait()
        #expect(seen.withLock { $0 } == Array(0..<100))
        loop.stop()
    }

    @Test("work that a stopped loop has not done, and later work, is released, even if it references the loop")
    func ended() {
        final class Held: Sendable {}
        let ended = DispatchSemaphore(value: 0)
        func end(_ loop: EventLoop) -> [WeakHeld<Held>] {
            let held = (0..<4).map { _ in Held() }
            loop.stop {
                loop.schedule(after: .seconds(3_600)) { _ = held[0] }
                loop.inNextRound { loop.inNextRound { _ = held[1] } }
                loop.execute { _ = (loop, held[2]) }
                ended.signal()
            }
            ended.wait()
            loop.queue.sync {}
            loop.execute { _ = (loop, held[3]) }
            return held.map { WeakHeld($0) }
        }
        let loop = EventLoop(label: "test")
        loop.start()
        let held = end(loop)
        loop.queue.sync {}
        #expect(held.allSatisfy { $0.value == nil })
    }

    @Test("a readable descriptor calls its handler, and not after its removal")
    func readable() {
        let loop = EventLoop(label: "test")
        loop.start()
        let pipe = Pipe()
        let handler = Recorder()
        let done = DispatchSemaphore(value: 0)
        handler.onReady = { _ in
            loop.remove(pipe.reading)
            done.signal()
        }
        loop.execute { loop.add(pipe.reading, .readable, handler) }
        pipe.send()
        done.wait()
        pipe.send()
        let after = DispatchSemaphore(value: 0)
        loop.execute { after.signal() }
        after.wait()
        #expect(handler.count.withLock { $0 } == 1)
        loop.stop()
    }

    @Test("timers fire by the loop's clock in order of their deadlines, and cancelled ones do not fire")
    func timers() {
        let time = ManualTime()
        let loop = EventLoop(label: "test", time: time)
        loop.start()
        let fired = Mutex<[String]>([])
        let ready = DispatchSemaphore(value: 0)
        loop.execute {
            loop.schedule(after: .seconds(20)) { fired.withLock { $0.append("late") } }
            loop.schedule(after: .seconds(10)) { fired.withLock { $0.append("early") } }
            loop.schedule(after: .seconds(15)) { fired.withLock { $0.append("never") } }.cancel()
            ready.signal()
        }
        ready.wait()
        time.advance(by: .seconds(12))
        settle(loop)
        #expect(fired.withLock { $0 } == ["early"])
        time.advance(by: .seconds(12))
        settle(loop)
        #expect(fired.withLock { $0 } == ["early", "late"])
        loop.stop()
    }

    @Test("cancelled timers do not accumulate")
    func cancelledTimersAreSwept() {
        var heap = TimerHeap()
        for _ in 0..<10_000 {
            let timer = LoopTimer(deadline: 1_000_000) {}
            heap.insert(timer)
            timer.cancel()
        }
        #expect(heap.count <= 64)
    }

    @Test("the heap returns timers by deadline, in whatever order they were inserted")
    func heapOrder() {
        RandomSchedules.run(10, steps: 500) { _ in
            TimerHeap()
        } step: { heap, random in
            heap.insert(LoopTimer(deadline: Int64(random.below(10_000))) {})
        } end: { heap in
            var last: Int64 = -1
            while !heap.isEmpty {
                let deadline = heap.removeFirst().deadline
                try demand(deadline >= last, "\(deadline) after \(last)")
                last = deadline
            }
        }
    }

    /// Waits for two rounds of the loop, in which all due work is done.
    private func settle(_ loop: EventLoop) {
        for _ in 0..<2 {
            let done = DispatchSemaphore(value: 0)
            loop.execute { done.signal() }
            done.wait()
        }
    }
}

/// `@unchecked Sendable` because `onReady` is set before the loop uses it.
private final class Recorder: EventHandler, @unchecked Sendable {
    let count = Mutex(0)
    var onReady: (ReadyEvents) -> Void = { _ in }

    func ready(_ events: ReadyEvents) {
        count.withLock { $0 += 1 }
        onReady(events)
    }
}

private struct Pipe {
    let reading: Int32
    let writing: Int32

    init() {
        var ends: [Int32] = [0, 0]
        _ = pipe(&ends)
        reading = ends[0]
        writing = ends[1]
    }

    func send() {
        var byte: UInt8 = 1
        _ = write(writing, &byte, 1)
    }
}

private struct WeakHeld<Value: AnyObject> {
    weak var value: Value?

    init(_ value: Value) { self.value = value }
}
