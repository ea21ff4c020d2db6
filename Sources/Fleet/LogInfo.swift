// What a node asks of the engine when a connection to the log is there, and what it keeps on its disk.

/// The state of the log, as `XINFO STREAM`, `INFO` and the key of the epoch tell it.
public struct LogInfo: Hashable, Sendable {
    /// Random, made with the log. Another one is another log.
    public var epoch: UInt64
    /// Who is asked: `run_id` and `master_replid` together. A server that has become the primary again has the same `run_id`, and not the
    /// same entries.
    public var primary: [UInt8]
    /// `last-generated-id`.
    public var last: LogPosition
    /// `recorded-first-entry-id`, or the id of the first entry; nil where there is none.
    public var first: LogPosition?
    /// `max-deleted-entry-id`: the last that was deleted by itself. Trimming does not change it.
    public var lastDeleted: LogPosition
    /// `length`.
    public var count: UInt64
    /// `entries-added`: how many there ever were.
    public var added: UInt64

    public init(
        epoch: UInt64, primary: [UInt8], last: LogPosition, first: LogPosition?, lastDeleted: LogPosition, count: UInt64, added: UInt64
    ) {
        (self.epoch, self.primary, self.last, self.first) = (epoch, primary, last, first)
        (self.lastDeleted, self.count, self.added) = (lastDeleted, count, added)
    }

    /// How many are no longer there.
    var removed: UInt64 { added > count ? added - count : 0 }

    /// Marks up to here are not in the log.
    var floor: LogPosition {
        removed == 0 ? .beginning : max(lastDeleted, first?.previous ?? last)
    }
}

/// How far the local store has obeyed the log. Kept durably.
public struct KeptPosition: Hashable, Sendable {
    public var position: LogPosition
    public var epoch: UInt64
    public var primary: [UInt8]
    /// How many entries there ever were up to the position; nil where it is not known.
    public var added: UInt64?
    /// Until another one is kept, no record carries a later position.
    public var ceiling = LogPosition.beginning
    /// Of logs that were followed before, the oldest first.
    public var formerEpochs: [UInt64] = []

    /// Whether both are equal but for the ceiling.
    func isSame(as other: KeptPosition?) -> Bool {
        guard var other else { return false }
        other.ceiling = ceiling
        return self == other
    }

    public init(position: LogPosition, epoch: UInt64, primary: [UInt8], added: UInt64?) {
        (self.position, self.epoch, self.primary, self.added) = (position, epoch, primary, added)
    }

    /// The beginning of another log.
    init(after former: KeptPosition?, epoch: UInt64, primary: [UInt8]) {
        self.init(position: .beginning, epoch: epoch, primary: primary, added: 0)
        formerEpochs = former.map { ($0.formerEpochs + [$0.epoch]).suffix(Self.formerLimit) } ?? []
    }

    private static let formerLimit = 32

    /// In a file. Names of primaries have neither a zero nor 255, which comes before the ceiling.
    public var bytes: [UInt8] {
        RecordVersion(epoch: epoch, position: position).bytes + Fleet.bytes(of: added ?? .max) + primary
            + [255] + Fleet.bytes(of: ceiling.milliseconds) + Fleet.bytes(of: ceiling.sequence) + formerEpochs.flatMap(Fleet.bytes)
    }

    /// - Returns: nil where there are too few or too many. Whether they are whole is for the file to say.
    public init?(bytes: [UInt8]) {
        guard (32...Self.lengthLimit).contains(bytes.count), let version = RecordVersion(bytes: bytes[..<24]),
            let added = number(of: bytes[24..<32])
        else { return nil }
        let primary = bytes[32...].prefix { $0 != 0 && $0 != 255 }
        var formers = bytes[32...].dropFirst(primary.count)
        self.init(position: version.position, epoch: version.epoch, primary: Array(primary), added: added == .max ? nil : added)
        if formers.first == 255 {
            guard let milliseconds = number(of: formers.dropFirst().prefix(8)), let sequence = number(of: formers.dropFirst(9).prefix(8))
            else { return nil }
            ceiling = LogPosition(milliseconds, sequence)
            formers = formers.dropFirst(17)
        } else {
            // An earlier version kept each position before a record carried it.
            ceiling = position
            formers = formers.dropFirst()
        }
        formerEpochs = stride(from: formers.startIndex, to: formers.endIndex, by: 8).compactMap { number(of: formers[$0...].prefix(8)) }
    }

    /// Names of primaries have 80 bytes.
    private static let lengthLimit = 1024
}
