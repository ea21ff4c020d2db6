// Work that would hold a loop up: done on a thread beside it, one piece after another, and what came of it is brought back to the loop.
// One worker for each loop, so that however much of it there is, it takes no more than as many threads.

import Locking

public final class LoopWorker: Sendable {
    private let loop: EventLoop
    private let thread = WorkerThread()
    /// What waits to be done, or is being. Shared by the loop and the worker's thread.
    private let waiting = Mutex(Waiting())

    public struct Waiting: Sendable {
        /// Pieces of work.
        public var count = 0
        /// Of the content that they go through.
        public var bytes = 0
    }

    /// Beyond it no more should be handed over: it is held in memory until its turn.
    private static let waitingLimitBytes = 64 << 20

    public init(loop: EventLoop) { self.loop = loop }

    public var queue: Waiting { waiting.withLock { $0 } }

    public var isFull: Bool { queue.bytes >= Self.waitingLimitBytes }

    /// - Parameters:
    ///   - bytes: of the content that `work` goes through, as far as that is held in memory for it.
    ///   - work: touches nothing that the loop owns.
    ///   - then: runs on the loop; not after the loop has stopped.
    public func perform<Result: Sendable>(
        _ bytes: Int, _ work: @escaping @Sendable () -> Result, then: @escaping @Sendable (Result) -> Void
    ) {
        waiting.withLock { waiting in
            waiting.count += 1
            waiting.bytes += bytes
        }
        thread.perform { [self] in
            let result = work()
            waiting.withLock { waiting in
                waiting.count -= 1
                waiting.bytes -= bytes
            }
            loop.execute { then(result) }
        }
    }
}
