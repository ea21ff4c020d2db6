// What is said where the log may not have told all.

/// Why entries may be missing.
public enum LogGap: String, Sendable, Hashable, CaseIterable {
    /// The log is another one.
    case epoch
    /// Entries were removed before they were read.
    case trimmed
    /// Entries were lost with a primary, and did not come again.
    case lostEntries = "lost_entries"
}
