// What is counted of sharing. Each shard has its own, and adds to it on its loop.

import CachePolicy
import Fleet

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
}

extension SharedRefusal {
    init(_ refusal: TakeRefusal) {
        self =
            switch refusal {
            case .otherEpoch: .otherEpoch
            case .belowFloor: .belowFloor
            case .doubted: .doubted
            case .purgedAll: .purgedAll
            case .marked: .marked
            case .selected: .selected
            case .held: .held
            case .ahead: .ahead
            }
    }
}

/// Who asks the upstream, of all nodes.
public enum LeaseOutcome: String, Sendable, CaseIterable {
    case won
    /// Another node's response came while this one waited.
    case followed
    /// It did not.
    case waitedInVain = "waited_in_vain"
    /// The last response could not be shared.
    case alone
}

/// What became of a response that was stored here.
public enum OfferOutcome: String, Sendable, CaseIterable {
    case sent
    case failed
    /// Longer than `share.content_limit`.
    case tooLong = "too_long"
    /// How far the log had been followed when its request went upstream is not known.
    case unplaced
}

public struct FleetFigures: Sendable {
    public internal(set) var lookUps: [SharedOutcome: UInt64] = [:]
    public internal(set) var leases: [LeaseOutcome: UInt64] = [:]
    public internal(set) var offers: [OfferOutcome: UInt64] = [:]
    /// By `SharedRefusal`.
    public internal(set) var refusals: [SharedRefusal: UInt64] = [:]

    public init() {}
}
