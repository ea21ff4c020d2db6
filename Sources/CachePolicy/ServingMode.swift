// What is asked of the upstream, and what comes from the store. Switched by the administrator while the proxy runs, or by a request, where that
// is allowed.

public enum ServingMode: String, Sendable, CaseIterable {
    /// As the rules say.
    case live
    /// The upstream is never asked.
    case offline
    /// The upstream is always asked, and no copy stands in for it.
    case record
    /// What is stored is served, however old; else as the rules say.
    case replay

    /// Whether what is stored goes out however old it is.
    public var servesWhatIsStored: Bool { self == .offline || self == .replay }
}
