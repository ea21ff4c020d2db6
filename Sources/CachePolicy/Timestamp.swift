// Points in time for the rules. They are passed in, never read from a clock.

/// Milliseconds since 1970-01-01 00:00 UTC.
public struct Timestamp: Sendable, Equatable, Comparable {
    public let milliseconds: Int64

    public init(milliseconds: Int64) { self.milliseconds = milliseconds }
    public init(seconds: Int64) { milliseconds = seconds * 1000 }

    public var seconds: Int64 { milliseconds / 1000 }

    public static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}
