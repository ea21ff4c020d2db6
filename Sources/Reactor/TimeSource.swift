// Source of the time. All code that waits or computes ages uses a `TimeSource`, so that tests can control the clock.

import Glibc

/// The wall clock and a monotonic clock, both in milliseconds.
public protocol TimeSource: AnyObject, Sendable {
    /// Milliseconds since 1970-01-01 00:00 UTC.
    var wallMilliseconds: Int64 { get }
    /// Milliseconds since an arbitrary moment; never decreases.
    var monotonicMilliseconds: Int64 { get }
    /// Minimum number of real milliseconds until the monotonic clock reaches this value; 0 if it already has.
    func wait(until monotonic: Int64) -> Int64
    /// Whether the clocks are set by a test instead of advancing with time.
    var isSetByTests: Bool { get }
    /// Calls `wake` whenever a test has set the clocks.
    func whenMoved(_ wake: @escaping @Sendable () -> Void)
}

extension TimeSource {
    public func wait(until monotonic: Int64) -> Int64 { max(0, monotonic - monotonicMilliseconds) }

    public var isSetByTests: Bool { false }

    public func whenMoved(_ wake: @escaping @Sendable () -> Void) {}
}

/// The system's clocks.
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
    /// Milliseconds, rounded towards zero.
    public var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
