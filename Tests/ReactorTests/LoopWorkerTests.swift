// Tests of work off the event loop: it runs in order, and its results return to the loop.

import Dispatch
import Testing

@testable import Reactor

@Suite("Work off the event loop")
struct LoopWorkerTests {
    @Test("results are delivered on the loop in order of the work, and the loop continues meanwhile")
    func perform() {
        let loop = EventLoop(label: "test")
        loop.start()
        let worker = LoopWorker(loop: loop)
        let (gate, turned, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let seen = Mutex<[Int]>([])
        for number in 0..<3 {
            worker.perform(30 << 20) {
                if number == 0 { gate.wait() }
                return number
            } then: { result in
                dispatchPrecondition(condition: .onQueue(loop.queue))
                seen.withLock { $0.append(result) }
                if result == 2 { done.signal() }
            }
        }
        // The first task is blocked; the loop continues.
        loop.execute { turned.signal() }
        turned.wait()
        #expect(worker.queue.bytes == 90 << 20 && worker.isFull)
        #expect(seen.withLock { $0 }.isEmpty)
        gate.signal()
        done.wait()
        #expect(seen.withLock { $0 } == [0, 1, 2])
        #expect(worker.queue.bytes == 0 && !worker.isFull)
        loop.stop()
    }
}
