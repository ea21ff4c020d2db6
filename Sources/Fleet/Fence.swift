// After another server has become the log's primary, ids may begin again below what the former one gave. A fence is an entry whose id is
// given by us, above all of those, before anything else is appended. It also says which ids are in doubt, and up to where entries were read that
// the log has lost.

/// An entry that lifts the ids, and what it says of those below.
public struct Fence: Hashable, Sendable {
    /// The id to append it at. The engine refuses it where the log is already there, which is as good.
    public var position: LogPosition
    /// Positions above this one and below the fence may have been taken from entries that are lost: a record that carries one is not taken.
    public var doubtedAfter: LogPosition
    /// Somebody has read entries up to here that a change of primary has lost; nil: nothing is known to be lost.
    public var lostUpTo: LogPosition?

    public init(at position: LogPosition, doubtedAfter: LogPosition, lostUpTo: LogPosition? = nil) {
        (self.position, self.doubtedAfter, self.lostUpTo) = (position, doubtedAfter, lostUpTo)
    }

    /// What is appended, at `position`. Its argument is to be sealed like any other. A version that knows of one position only doubts all below.
    public var entry: LogEntry {
        let text = doubtedAfter.text + (lostUpTo.map { " " + $0.text } ?? "")
        return LogEntry(LogMessage(.fence, argument: Array(text.utf8)), origin: nil)
    }

    /// - Returns: nil where the entry is none, or does not say what is in doubt: then all below is.
    init?(_ placed: PlacedEntry) {
        guard placed.entry.message.kind == .fence else { return nil }
        let texts = placed.entry.message.argument.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        let positions = texts.compactMap { LogPosition(text: $0) }
        guard positions.count == texts.count, (1...2).contains(positions.count) else {
            self.init(at: placed.position, doubtedAfter: .beginning)
            return
        }
        self.init(at: placed.position, doubtedAfter: positions[0], lostUpTo: positions.dropFirst().first)
    }
}
