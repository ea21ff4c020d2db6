// Counters and gauges of one client.

public struct EngineFigures: Sendable {
    public var commands: UInt64 = 0
    /// Commands without a reply, by cause; a time-out counts once.
    public var failures: [EngineFailure: UInt64] = [:]
    /// Replies after the end of patience.
    public var lateReplies: UInt64 = 0
    /// Retries: MOVED, ASK, TRYAGAIN, and temporary failures.
    public var repetitions: UInt64 = 0
    public var connections: UInt64 = 0
    public var connectionsLost: UInt64 = 0
    public var mapLookUps: UInt64 = 0
    public var bytesSent: UInt64 = 0
    public var roundTrips = RoundTrips()

    public var servers = 0
    public var serversWithOpenBreaker = 0
    public var commandsUnderWay = 0

    public init() {}
}

/// Round trips from the connection's queue to the reply, in microseconds.
public struct RoundTrips: Sendable {
    public static let buckets = 22
    /// Up to 2^index microseconds; the last has all longer ones.
    public private(set) var counts = InlineArray<22, UInt64>(repeating: 0)
    public private(set) var sumMicroseconds: Int64 = 0
    /// Exponentially weighted moving average of the last eight or so. It begins at 0, so a first slow reply alone means little.
    public private(set) var smoothedMicroseconds: Int64 = 0

    public init() {}

    mutating func note(_ microseconds: Int64) {
        let microseconds = max(0, microseconds)
        counts[min(Self.buckets - 1, Int64.bitWidth - max(0, microseconds - 1).leadingZeroBitCount)] += 1
        sumMicroseconds &+= microseconds
        smoothedMicroseconds += (min(microseconds, Self.longestMicroseconds) - smoothedMicroseconds) / 8
    }

    /// Maximum weight of one reply, so that a pause is forgotten soon.
    private static let longestMicroseconds: Int64 = 2_000_000
}

/// Touched by the client's loop only.
final class EngineCounters {
    var figures = EngineFigures()
    var heldBytes = 0

    func noteFailure(_ failure: EngineFailure) { figures.failures[failure, default: 0] += 1 }
}
