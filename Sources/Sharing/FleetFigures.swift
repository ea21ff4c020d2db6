// Counters and gauges of sharing.

import CachePolicy
import Engine
import Fleet

public struct LogFigures: Sendable {
    /// Number of applied entries of other nodes, and number of this node's entries in the log.
    public var applied: UInt64 = 0
    public var appended: UInt64 = 0
    public var gaps: [LogGap: UInt64] = [:]
    public var disconnections: UInt64 = 0
    /// Entries that no secret of this node opens, and the time of the last one (milliseconds of the wall clock).
    public var unopened: UInt64 = 0
    public var lastUnopened: Int64?
    public var foreign: UInt64 = 0
    /// When the node was disconnected, in milliseconds of the wall clock; nil if it is connected.
    public var disconnectedSince: Int64?
    public var pendingPurges: [LogWriter.Pending: Int] = [:]
    /// Position of the last entry read, and its age when it was read, in milliseconds. The age is 0 after a catch-up.
    public var position = LogPosition.beginning
    public var lagMilliseconds: Int64 = 0
    /// Time of each node's last entry, in milliseconds of the fleet's time.
    public var nodes: [UInt64: UInt64] = [:]
    public var replicas = 0
    public var engineFailures: [EngineFailure: UInt64] = [:]
    /// Why the log cannot be followed; nil if it can.
    public var trouble: LogTrouble?
    /// Server that holds the log, with its slot in a Cluster; nil if unknown.
    public var server: EngineServer?
    public var slot: Int?

    public init() {}

    func nodes(since time: Int64, besides own: UInt64) -> Int {
        nodes.count { $0.key != own && Int64(clamping: $0.value) >= time }
    }
}

public enum LeaseOutcome: String, Sendable, CaseIterable {
    case won
    /// Another node's response arrived during the wait.
    case followed
    case waitTimedOut = "waited_in_vain"
    /// The last response could not be shared.
    case alone
    /// This node, or the request's client, has the maximum number of leases.
    case tooMany = "too_many"
}

public enum OfferOutcome: String, Sendable, CaseIterable {
    case sent
    case failed
    case tooLong = "too_long"
    /// The log position at the time of the request is unknown, so the response is not shared.
    case unplaced
}

public struct FleetFigures: Sendable {
    public internal(set) var lookUps: [FleetOutcome: UInt64] = [:]
    public internal(set) var leases: [LeaseOutcome: UInt64] = [:]
    public internal(set) var offers: [OfferOutcome: UInt64] = [:]
    public internal(set) var refusals: [FleetRefusal: UInt64] = [:]

    public init() {}
}
