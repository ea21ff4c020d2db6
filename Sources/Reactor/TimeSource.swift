// Where the time comes from. Everything that waits or ages asks a `TimeSource`, so that tests can move the clock by hand.

import CSystem
import Glibc
import Locking

/// Gives the time of day and a clock that never goes back, both in milliseconds.
package protocol TimeSource: AnyObject, Sendable {
    /// Milliseconds since 1970-01-01 00:00 UTC.
    var wallMilliseconds: Int64 { get }
    /// Milliseconds since some fixed moment; never goes back.
    var monotonicMilliseconds: Int64 { get }
}

/// The machine's clocks.
package final class SystemTime: TimeSource {
    package static let shared = SystemTime()

    package var wallMilliseconds: Int64 { Self.read(CLOCK_REALTIME) }
    package var monotonicMilliseconds: Int64 { Self.read(CLOCK_MONOTONIC) }

    /// Microseconds of the monotonic clock, for measuring durations.
    package static var monotonicMicroseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

/// A clock that stands still until it is moved. Moving it wakes the loops that were made with it, so that their timers fire.
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

    package func onAdvance(_ wake: @escaping @Sendable () -> Void) {
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
}

extension Duration {
    /// Rounded towards zero.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
