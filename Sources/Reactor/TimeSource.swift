// Where the time comes from. Everything that waits or ages asks a `TimeSource`, so that tests can move the clock by hand.

import Glibc

/// Gives the time of day and a clock that never goes back, both in milliseconds.
public protocol TimeSource: AnyObject, Sendable {
    /// Milliseconds since 1970-01-01 00:00 UTC.
    var wallMilliseconds: Int64 { get }
    /// Milliseconds since some fixed moment; never goes back.
    var monotonicMilliseconds: Int64 { get }
    /// How many real milliseconds it takes at least until the second clock says so much; 0 where it does already.
    func wait(until monotonic: Int64) -> Int64
    /// Whether the clocks are moved otherwise than by time that passes.
    var isMovedByHand: Bool { get }
    /// Calls `wake` whenever the clocks have been moved by hand.
    func whenMoved(_ wake: @escaping @Sendable () -> Void)
}

extension TimeSource {
    public func wait(until monotonic: Int64) -> Int64 { max(0, monotonic - monotonicMilliseconds) }

    public var isMovedByHand: Bool { false }

    public func whenMoved(_ wake: @escaping @Sendable () -> Void) {}
}

/// The machine's clocks.
public final class SystemTime: TimeSource {
    public static let shared = SystemTime()

    public var wallMilliseconds: Int64 { Self.read(CLOCK_REALTIME) }
    public var monotonicMilliseconds: Int64 { Self.read(CLOCK_MONOTONIC) }

    /// Microseconds of the monotonic clock, for measuring durations.
    public static var monotonicMicroseconds: Int64 {
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

extension Duration {
    /// Rounded towards zero.
    public var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
