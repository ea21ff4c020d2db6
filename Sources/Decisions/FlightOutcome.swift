// The outcome of a collapsed fetch for the requests that wait for it.

public enum FlightOutcome: Sendable, Equatable {
    case stored
    /// The response is older than the stored one, which may serve the waiting requests.
    case outdated
    /// The response can be used by the leader only.
    case unshareable
    /// The response can be used by the leader only, because a write followed its request or memory was short. The next response may be
    /// shareable.
    case overtaken
    case failed(FetchFailure)
    /// The leader was abandoned before a response arrived.
    case abandoned

    /// Whether waiting is useless for the next request with this key too: nothing is shared, or the upstream fails.
    public var isForLeaderAlone: Bool {
        switch self {
        case .unshareable: true
        case .failed(let failure): failure.isOfUpstream
        case .stored, .outdated, .overtaken, .abandoned: false
        }
    }
}
