// Why a fetch runs without a client that waits for it.

/// Why a fetch runs or continues without a waiting client. The raw value is a label.
public enum BackgroundCause: String, Sendable, CaseIterable {
    case staleWhileRevalidate = "stale_while_revalidate"
    case refreshAhead = "refresh_ahead"
    /// The upstream counts as failed; the fetch checks for recovery.
    case recheck
    /// The soft deadline passed and the stored response was served.
    case slow
    case clientLeft = "client_left"
}
