// How a fetch that others wait for has ended, for them.

public enum FlightOutcome: Sendable, Equatable {
    /// The response is in the store.
    case stored
    /// The response is older than the one that is stored, which may be for them.
    case outdated
    /// The response is for the leader alone.
    case unshareable
    /// The same, since a write has come after it was asked for: that says nothing of the next.
    case overtaken
    case failed(FetchFailure)
    /// The leader gave up before there was a response.
    case abandoned

    /// Whether the next request for the key would wait in vain too: nothing is shared, or the upstream fails.
    public var isForLeaderAlone: Bool {
        switch self {
        case .unshareable: true
        case .failed(let failure): failure.isOfUpstream
        case .stored, .outdated, .overtaken, .abandoned: false
        }
    }
}
