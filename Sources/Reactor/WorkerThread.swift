// A thread that performs one piece of work after another, with a lower priority than the event loops. On a shared core, an event would
// otherwise wait several milliseconds until the kernel interrupts the busy thread.

import CSystem
import Dispatch

/// The thread exists from the first piece of work until this object is released and all work is done.
final class WorkerThread: Sendable {
    private final class Work: Sendable {
        struct State {
            var waiting: [@Sendable () -> Void] = []
            var isStarted = false
        }

        /// Work added by callers and removed by the thread.
        let state = Mutex(State())
        /// Signaled once for each piece of work, and once for the end.
        let ready = DispatchSemaphore(value: 0)

        func run() {
            csystem_lower_priority()
            while true {
                ready.wait()
                guard let next = state.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) else { return }
                next()
            }
        }
    }

    private let work = Work()

    deinit { work.ready.signal() }

    /// Queues a piece of work. May be called from any thread.
    func perform(_ piece: @escaping @Sendable () -> Void) {
        let isFirst = work.state.withLock { state in
            state.waiting.append(piece)
            defer { state.isStarted = true }
            return !state.isStarted
        }
        if isFirst { Self.start(work) }
        work.ready.signal()
    }

    private static func start(_ work: Work) {
        guard !PlainThread.start({ work.run() }) else { return }
        // No thread could be created, so a Dispatch thread is used, which has the priority of the loops.
        DispatchQueue.global(qos: .utility).async { work.run() }
    }
}
