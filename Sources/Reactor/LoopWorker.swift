// Work that would hold a loop up: done on a thread beside it, one piece after another, and what came of it is brought back to the loop.
// One worker for each loop, so that however much of it there is, it takes no more than as many threads.

import Dispatch
import Locking

package final class LoopWorker: Sendable {
    private let loop: EventLoop
    private let queue: DispatchQueue
    /// Of the content that waits to be gone through, or is being. Shared by the loop and the worker's thread.
    private let waiting = Mutex(0)

    /// Beyond it no more should be handed over: it is held in memory until its turn.
    private static let waitingLimitBytes = 64 << 20

    package init(loop: EventLoop, label: String) {
        self.loop = loop
        queue = DispatchQueue(label: label, qos: .utility)
    }

    package var waitingBytes: Int { waiting.withLock { $0 } }

    package var isFull: Bool { waitingBytes >= Self.waitingLimitBytes }

    /// - Parameters:
    ///   - bytes: of the content that `work` goes through.
    ///   - work: touches nothing that the loop owns.
    ///   - then: runs on the loop; not after the loop has stopped.
    package func perform<Result: Sendable>(
        _ bytes: Int, _ work: @escaping @Sendable () -> Result, then: @escaping @Sendable (Result) -> Void
    ) {
        waiting.withLock { $0 += bytes }
        queue.async { [self] in
            let result = work()
            waiting.withLock { $0 -= bytes }
            loop.execute { then(result) }
        }
    }
}
