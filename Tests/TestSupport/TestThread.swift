// A new thread for blocking work in tests. Concurrent plays need more threads than Dispatch provides.

import Reactor

package enum TestThread {
    /// Runs `body` on a new thread.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        precondition(PlainThread.start(body), "no thread can be started")
    }
}
