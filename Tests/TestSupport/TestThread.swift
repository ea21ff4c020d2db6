// A thread of its own for what blocks in a test: plays that run side by side need more than Dispatch has.

import Reactor

package enum TestThread {
    /// Runs `body` on a new thread, which ends with it.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        precondition(PlainThread.start(body), "no thread can be started")
    }
}
