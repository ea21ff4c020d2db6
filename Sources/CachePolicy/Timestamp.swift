// Points in time, as the rules use them: handed in, never read from a clock.

/// Milliseconds since 1970-01-01 00:00 UTC.
package struct Timestamp: Sendable, Equatable, Comparable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }
    package init(seconds: Int64) { milliseconds = seconds * 1000 }

    package var seconds: Int64 { milliseconds / 1000 }

    package static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}
