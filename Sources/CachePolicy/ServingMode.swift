// Whether requests use the upstream, the store or both. An administrator switches the mode at run time; a request may select one where the
// settings allow it.

public enum ServingMode: String, Sendable, CaseIterable {
    /// Follows the caching rules.
    case live
    /// Never contacts the upstream.
    case offline
    /// Always contacts the upstream and never serves a stored response instead of its response.
    case record
    /// Serves a stored response regardless of its age. Without one, follows the caching rules. `cistern replay` serves an archive instead.
    case replay

    /// True if a stored response is served regardless of its age.
    public var servesAnyAge: Bool { self == .offline || self == .replay }
}
