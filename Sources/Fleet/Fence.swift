// After another server has become the log's primary, ids may begin again below what the former one gave. A fence is an entry whose id is
// given by us, above all of those, before anything else is appended. It also says which ids are in doubt.

/// An entry that lifts the ids, and what it says of those below.
public struct Fence: Hashable, Sendable {
    /// The id to append it at. The engine refuses it where the log is already there, which is as good.
    public var position: LogPosition
    /// Positions above this one and below the fence may have been taken from entries that are lost: a record that carries one is not taken.
    public var doubtedAfter: LogPosition

    public init(at position: LogPosition, doubtedAfter: LogPosition) {
        (self.position, self.doubtedAfter) = (position, doubtedAfter)
    }

    /// What is appended, at `position`. Its argument is to be sealed like any other.
    public var entry: LogEntry { LogEntry(LogMessage(.fence, argument: Array(doubtedAfter.text.utf8)), origin: nil) }

    /// - Returns: nil where the entry is none, or does not say what is in doubt: then all below is.
    init?(_ placed: PlacedEntry) {
        guard placed.entry.message.kind == .fence else { return nil }
        self.init(at: placed.position, doubtedAfter: LogPosition(text: placed.entry.message.argument) ?? .beginning)
    }
}
