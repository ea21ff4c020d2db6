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

public struct SharedReply: Sendable {
    public let outcome: SharedOutcome
    public let microseconds: Int64

    public init(outcome: SharedOutcome, microseconds: Int64) { (self.outcome, self.microseconds) = (outcome, microseconds) }
}
