// What is counted of sharing. Each shard has its own, and adds to it on its loop.

import CachePolicy
import Fleet

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
