// Performs work that would block an event loop, on a separate thread, one piece after another, and returns the results to the loop. Each
// loop has one worker, so the number of threads is bounded.

public final class LoopWorker: Sendable {
    private let loop: EventLoop
    private let thread = WorkerThread()
    /// Work that waits or runs. Shared by the loop and the worker's thread.
    private let waiting = Mutex(Waiting())

    public struct Waiting: Sendable {
        /// Number of pieces of work.
        public var count = 0
        /// Bytes of content that the work processes.
        public var bytes = 0
    }

    /// Number of waiting bytes above which callers should add no more work, because the content is held in memory.
    private static let waitingLimitBytes = 64 << 20

    public init(loop: EventLoop) { self.loop = loop }

    public var queue: Waiting { waiting.withLock { $0 } }

    public var isFull: Bool { queue.bytes >= Self.waitingLimitBytes }

    /// Performs `work` on the worker's thread.
    /// - Parameters:
    ///   - bytes: size of the content that `work` processes, if it is held in memory for that.
    ///   - work: must not use state of the loop.
    ///   - then: runs on the loop with the result; not after the loop has stopped.
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

/// Passes a loop's value through another thread back to the loop. `@unchecked Sendable` because no other thread uses the value.
public struct LoopBound<Value>: @unchecked Sendable {
    public let value: Value

    public init(value: Value) { self.value = value }
}
