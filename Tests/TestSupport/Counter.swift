// A number that an origin's connections share.

import Reactor

package final class Counter: Sendable {
    /// Shared by the origin's queues.
    private let value = Mutex(0)

    package init() {}

    package func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
