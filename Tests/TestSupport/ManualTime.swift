// A clock that a play advances.

import Reactor

/// A clock that stands still until it is advanced, which wakes the loops that use it, so that their timers fire.
package final class ManualTime: TimeSource {
    private struct State {
        var wall: Int64
        var monotonic: Int64 = 1_000_000
        var wakers: [@Sendable () -> Void] = []
    }

    /// Shared by the test that moves the clock and the loops that read it.
    private let state: Mutex<State>

    package init(wallMilliseconds: Int64 = 1_750_000_000_000) {
        state = Mutex(State(wall: wallMilliseconds))
    }

    package var wallMilliseconds: Int64 { state.withLock { $0.wall } }
    package var monotonicMilliseconds: Int64 { state.withLock { $0.monotonic } }

    /// A wait ends when the clock is advanced.
    package func wait(until monotonic: Int64) -> Int64 { monotonic <= monotonicMilliseconds ? 0 : .max }

    package var isSetByTests: Bool { true }

    package func whenMoved(_ wake: @escaping @Sendable () -> Void) {
        state.withLock { $0.wakers.append(wake) }
    }

    package func advance(by duration: Duration) {
        let milliseconds = duration.wholeMilliseconds
        let wakers = state.withLock { state in
            state.wall += milliseconds
            state.monotonic += milliseconds
            return state.wakers
        }
        for wake in wakers { wake() }
    }

    /// Adjusts the wall clock, forward or back.
    package func set(by duration: Duration) {
        let wakers = state.withLock { state in
            state.wall += duration.wholeMilliseconds
            return state.wakers
        }
        for wake in wakers { wake() }
    }
}
