// What is said where the log may not have told all.

/// Why entries may be missing.
public enum LogGap: String, Sendable, Hashable, CaseIterable {
    /// What is stored here was never held against a log: sharing is new here, or what was kept is gone. Nothing shows that an entry was
    /// missed, so no copy is to be lost to it.
    case neverFollowed = "never_followed"
    /// The log is another one.
    case epoch
    /// Entries were removed before they were read.
    case trimmed
    /// Entries were lost with a primary, and did not come again.
    case lostEntries = "lost_entries"
}
