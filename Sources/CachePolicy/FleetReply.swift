// Results of a lookup in the store that nodes of a fleet share (Redis), and why a found response was rejected.

public enum FleetOutcome: String, Sendable, CaseIterable {
    /// A response stored by another node is now stored here.
    case found
    case missing
    /// The lookup took longer than its timeout, and the upstream was contacted at the same time.
    case late
    /// The lookup failed, or its result was unusable.
    case failed
    /// The response that was found may not be used.
    case refused
}

/// Why a found response may not be used.
public enum FleetRefusal: String, Sendable, CaseIterable {
    /// The response belongs to another fleet log than the current one.
    case otherEpoch = "other_epoch"
    /// The response is older than the oldest known purge record.
    case belowFloor = "below_floor"
    /// The response refers to a position in the fleet log that this node has not reached.
    case ahead
    /// The response's position in the fleet log may have been lost with a primary.
    case doubted
    /// A later purge or write covers the response.
    case purgedAll = "purged_all"
    case marked
    case selected
    /// This node invalidated the response and has not published that yet.
    case held
    /// No secret of this node decrypts the record, or it has another version.
    case unreadable
    /// By the fleet's clock, the response is from the future, or that clock is unknown.
    case clock
    /// The local response is as recent, or was invalidated locally.
    case notNewer = "not_newer"
    /// The response violates the route's requirements here, or is worse than the good response that is stored here.
    case notGood = "not_good"
}

/// Why the lookup was skipped.
public enum FleetObstacle: String, Sendable {
    /// The engine (Redis) is failing.
    case failing
    /// Purges of other nodes cannot be seen, so their responses may have been purged.
    case disconnected = "blind"
    /// The engine's round trip is longer than a client waits for it.
    case slow
    /// The last response could not be shared, or the upstream failed. Each node contacts the upstream itself for a while.
    case unshareable
    /// The upstream identified the user of the credentials; such responses are not shared.
    case lookedUp = "told"
}

/// Why all stored responses count as stale: purges of other nodes may have been missed.
public enum FleetDoubt: String, Sendable {
    /// The stored responses predate the time when this node began to follow the fleet log.
    case neverFollowed = "never_followed"
    /// The engine has another log.
    case epoch
    /// Entries published while this node was away were trimmed before it read them.
    case trimmed
    /// Some entries were lost with a primary.
    case lostEntries = "lost_entries"
    /// No secret of this node decrypts some entries.
    case unopened
}

public struct FleetReply: Sendable {
    public let outcome: FleetOutcome
    /// Why the last response that was found may not be used; nil if it may, or if none was found.
    public let refusal: FleetRefusal?
    /// Duration of the lookup.
    public let microseconds: Int64
    /// Whether the lookup waited for another node's request to the upstream.
    public let hasWaited: Bool

    public init(outcome: FleetOutcome, refusal: FleetRefusal? = nil, microseconds: Int64, hasWaited: Bool = false) {
        (self.outcome, self.refusal, self.microseconds, self.hasWaited) = (outcome, refusal, microseconds, hasWaited)
    }
}
