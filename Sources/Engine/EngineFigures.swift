// Counters and gauges of one client.

public struct EngineFigures: Sendable {
    public var commands: UInt64 = 0
    /// Commands without a reply, by cause. A timeout of several commands counts once.
    public var failures: [EngineFailure: UInt64] = [:]
    /// Number of replies that arrived after the timeout.
    public var lateReplies: UInt64 = 0
    /// Number of retries after MOVED, ASK, TRYAGAIN and temporary failures.
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

/// Round-trip times from the connection's queue to the reply, in microseconds.
public struct RoundTrips: Sendable {
    public static let buckets = 22
    /// Number of round trips by duration: bucket `index` has those of up to 2^index microseconds, the last one all longer ones.
    public private(set) var counts = InlineArray<22, UInt64>(repeating: 0)
    public private(set) var sumMicroseconds: Int64 = 0
    /// Exponentially weighted moving average of about the last eight round trips. It begins at 0, so that a first slow reply has little
    /// effect.
    public private(set) var smoothedMicroseconds: Int64 = 0

    mutating func note(_ microseconds: Int64) {
        let microseconds = max(0, microseconds)
        counts[min(Self.buckets - 1, Int64.bitWidth - max(0, microseconds - 1).leadingZeroBitCount)] += 1
        sumMicroseconds &+= microseconds
        smoothedMicroseconds += (min(microseconds, Self.longestMicroseconds) - smoothedMicroseconds) / 8
    }

    /// Maximum duration that one reply contributes, so that a pause is forgotten soon.
    private static let longestMicroseconds: Int64 = 2_000_000
}

/// Used on the client's loop only.
final class EngineCounters {
    var figures = EngineFigures()
    var heldBytes = 0

    func noteFailure(_ failure: EngineFailure) { figures.failures[failure, default: 0] += 1 }
}
