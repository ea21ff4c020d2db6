// A thread that does one piece of work after another and lets the loops go first: its priority is lower than theirs. Where they share a core, an
// event would else wait for as long as the kernel lets a busy thread go on, which is several milliseconds.

import CSystem
import Dispatch
import Locking

/// The thread is there from the first piece of work until nobody holds this any more and all is done.
final class WorkerThread: Sendable {
    private final class Work: Sendable {
        struct State {
            var waiting: [@Sendable () -> Void] = []
            var isStarted = false
        }

        /// Added to by who has work, taken from by the thread.
        let state = Mutex(State())
        /// Once for each piece of work, and once for the end.
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

    /// From any thread.
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
        // No thread to be had: one of Dispatch's, at the loops' priority.
        DispatchQueue.global(qos: .utility).async { work.run() }
    }
}
