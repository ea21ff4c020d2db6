// What is counted of one client.

/// Since it was made, where nothing else is said.
public struct EngineFigures: Sendable {
    /// Asked for by callers, each once, however often it was sent.
    public var commands: UInt64 = 0
    /// Of these, by why there was no reply; a time-out counts once, whether the reply comes later or not.
    public var failures: [EngineFailure: UInt64] = [:]
    /// Replies that came after patience was over.
    public var lateReplies: UInt64 = 0
    /// Sent again: MOVED, ASK, TRYAGAIN, and what passes by itself.
    public var repetitions: UInt64 = 0
    /// Connections that came about; those that were lost; look-ups of the Cluster's map.
    public var connections: UInt64 = 0
    public var connectionsLost: UInt64 = 0
    public var mapLookUps: UInt64 = 0
    public var bytesSent: UInt64 = 0
    public var bytesReceived: UInt64 = 0
    /// Times that a server's breaker opened.
    public var breakerOpenings: UInt64 = 0
    public var roundTrips = RoundTrips()

    // Now.
    public var servers = 0
    public var serversWithOpenBreaker = 0
    public var commandsUnderWay = 0

    public init() {}

    /// Adds another client's.
    public mutating func merge(_ other: EngineFigures) {
        commands += other.commands
        failures.merge(other.failures, uniquingKeysWith: +)
        lateReplies += other.lateReplies
        repetitions += other.repetitions
        connections += other.connections
        connectionsLost += other.connectionsLost
        mapLookUps += other.mapLookUps
        bytesSent += other.bytesSent
        bytesReceived += other.bytesReceived
        breakerOpenings += other.breakerOpenings
        roundTrips.merge(other.roundTrips)
        servers += other.servers
        serversWithOpenBreaker += other.serversWithOpenBreaker
        commandsUnderWay += other.commandsUnderWay
    }
}

/// From a command's being handed to its connection to its reply, in microseconds.
public struct RoundTrips: Sendable {
    public static let buckets = 22
    /// At most 2^index microseconds, and more than half of that; the last has all longer ones (a second and more).
    public private(set) var counts = InlineArray<22, UInt64>(repeating: 0)
    public private(set) var sumMicroseconds: Int64 = 0
    /// Exponentially weighted moving average, in microseconds: the last eight or so count. It begins at 0, so a first slow reply alone means little.
    public private(set) var smoothedMicroseconds: Int64 = 0

    public init() {}

    mutating func note(_ microseconds: Int64) {
        let microseconds = max(0, microseconds)
        counts[min(Self.buckets - 1, Int64.bitWidth - max(0, microseconds - 1).leadingZeroBitCount)] += 1
        sumMicroseconds &+= microseconds
        smoothedMicroseconds += (min(microseconds, Self.longestMicroseconds) - smoothedMicroseconds) / 8
    }

    /// Of one reply in the average, so that a pause of a minute is forgotten soon.
    private static let longestMicroseconds: Int64 = 2_000_000

    mutating func merge(_ other: RoundTrips) {
        for place in 0..<Self.buckets { counts[place] += other.counts[place] }
        sumMicroseconds &+= other.sumMicroseconds
        smoothedMicroseconds = max(smoothedMicroseconds, other.smoothedMicroseconds)
    }
}

/// One client's, touched by its loop only.
final class Counted {
    var figures = EngineFigures()
    /// Of replies that have not come whole.
    var heldBytes = 0

    func noteFailure(_ failure: EngineFailure) { figures.failures[failure, default: 0] += 1 }
}
