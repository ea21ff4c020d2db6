// What a look-up in the level that nodes share came to.

public enum SharedOutcome: String, Sendable, CaseIterable {
    /// A response that another node has stored is stored here now.
    case found
    case missing
    /// It took longer than `share.timeout`: the upstream was asked beside it.
    case late
    /// The engine could not be asked, or said nothing that can be used.
    case failed
    /// What was found may not be taken.
    case refused
}

/// Why what was found may not be taken.
public enum SharedRefusal: String, Sendable, CaseIterable {
    /// Of another log than the one that is followed now.
    case otherEpoch = "other_epoch"
    /// Older than what is known of purges.
    case belowFloor = "below_floor"
    /// Of a place in the log that this node has not come to.
    case ahead
    /// Its place in the log may have been lost with a primary.
    case doubted
    /// Purged, or written to, since.
    case purgedAll = "purged_all"
    case marked
    case selected
    /// This node has changed it and not told the others yet.
    case held
    /// No secret of this node opens it, or it is of another version.
    case unreadable
    /// By the fleet's clock it comes from the future, or that clock is not known.
    case clock
    /// What is stored here is as recent, or was invalidated here.
    case notNewer = "not_newer"
    /// It is not what its route calls good here, or less than the good copy that is stored here.
    case notGood = "not_good"
}

/// Why the level was not asked, although it would have been.
public enum SharedObstacle: String, Sendable {
    /// The engine fails.
    case failing
    /// What others purge is not seen: what they have stored may have been purged.
    case blind
    /// The engine's round trip is longer than a client waits for it.
    case slow
    /// The last response could not be shared: everybody asks for himself for a while.
    case unshareable
    /// The upstream has said whose the credentials are: such responses are not shared.
    case told
}

/// Why all that is stored counts as stale: what other nodes have purged could not be known.
public enum FleetDoubt: String, Sendable {
    /// It was stored before this node followed what others purge.
    case neverFollowed = "never_followed"
    /// The engine has another log.
    case epoch
    /// What was said while this node was away was removed before it was read.
    case trimmed
    /// Some of it was lost with a primary.
    case lostEntries = "lost_entries"
    /// Some of it no secret of this node opens.
    case unopened
}

public struct SharedReply: Sendable {
    public let outcome: SharedOutcome
    /// Of what was found last, where it may not be taken.
    public let refusal: SharedRefusal?
    public let microseconds: Int64
    /// Whether another node asked the upstream for the same, and was waited for.
    public let hasWaited: Bool

    public init(outcome: SharedOutcome, refusal: SharedRefusal? = nil, microseconds: Int64, hasWaited: Bool = false) {
        (self.outcome, self.refusal, self.microseconds, self.hasWaited) = (outcome, refusal, microseconds, hasWaited)
    }
}
