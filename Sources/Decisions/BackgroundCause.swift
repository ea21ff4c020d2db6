// Why the upstream is asked for something that no client waits for.

/// Why a fetch went on, or began, with no client that waits for it. The raw value is a label.
public enum BackgroundCause: String, Sendable, CaseIterable {
    case staleWhileRevalidate = "stale_while_revalidate"
    case refreshAhead = "refresh_ahead"
    /// The upstream counts as down, and it is looked whether it is back.
    case recheck
    /// The soft deadline passed and the copy went out.
    case slow
    case clientLeft = "client_left"
}
