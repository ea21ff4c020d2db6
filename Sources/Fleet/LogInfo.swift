// State of the log, and the position that a node stores on disk.

/// State of the log, from `XINFO STREAM`, `INFO` and the epoch.
public struct LogInfo: Hashable, Sendable {
    public var epoch: UInt64
    /// `run_id` and `master_replid`. A server that becomes the primary again has a new value, because its entries may differ.
    public var primary: [UInt8]
    public var last: LogPosition
    /// `recorded-first-entry-id`, or the first id; nil if there are no entries.
    public var first: LogPosition?
    /// `max-deleted-entry-id`: not changed by trimming.
    public var lastDeleted: LogPosition
    public var count: UInt64
    /// `entries-added`: number of entries ever appended.
    public var added: UInt64

    public init(
        epoch: UInt64, primary: [UInt8], last: LogPosition, first: LogPosition?, lastDeleted: LogPosition, count: UInt64, added: UInt64
    ) {
        (self.epoch, self.primary, self.last, self.first) = (epoch, primary, last, first)
        (self.lastDeleted, self.count, self.added) = (lastDeleted, count, added)
    }

    var removed: UInt64 { added > count ? added - count : 0 }

    /// Position up to which marks may be missing in the log.
    var floor: LogPosition {
        removed == 0 ? .beginning : max(lastDeleted, first?.previous ?? last)
    }
}

/// Position up to which the local store has applied the log. Stored durably.
public struct KeptPosition: Hashable, Sendable {
    public var position: LogPosition
    public var epoch: UInt64
    public var primary: [UInt8]
    /// Number of entries ever appended up to the position; nil: unknown.
    public var added: UInt64?
    /// Upper bound of positions in records until the next position is stored.
    public var ceiling = LogPosition.beginning
    /// Epochs of former logs, oldest first.
    public var formerEpochs: [UInt64] = []

    /// Returns whether the positions are equal except for the ceiling.
    func isSame(as other: KeptPosition?) -> Bool {
        guard var other else { return false }
        other.ceiling = ceiling
        return self == other
    }

    public init(position: LogPosition, epoch: UInt64, primary: [UInt8], added: UInt64?) {
        (self.position, self.epoch, self.primary, self.added) = (position, epoch, primary, added)
    }

    init(after former: KeptPosition?, epoch: UInt64, primary: [UInt8]) {
        self.init(position: .beginning, epoch: epoch, primary: primary, added: 0)
        formerEpochs = former.map { ($0.formerEpochs + [$0.epoch]).suffix(Self.formerLimit) } ?? []
    }

    private static let formerLimit = 32

    /// Encoded form in the file. Names of primaries contain neither 0 nor 255, which precedes the ceiling.
    public var bytes: [UInt8] {
        RecordVersion(epoch: epoch, position: position).bytes + (added ?? .max).bigEndianBytes + primary
            + [255] + ([ceiling.milliseconds, ceiling.sequence] + formerEpochs).flatMap(\.bigEndianBytes)
    }

    /// - Returns: nil if there are too few or too many bytes.
    public init?(bytes: [UInt8]) {
        var rest = bytes[...]
        guard bytes.count <= Self.lengthLimit, let version = rest.take(24).flatMap({ RecordVersion(bytes: $0) }),
            let added = rest.takeNumber()
        else { return nil }
        let primary = rest.prefix { $0 != 0 && $0 != 255 }
        rest = rest.dropFirst(primary.count)
        self.init(position: version.position, epoch: version.epoch, primary: Array(primary), added: added == .max ? nil : added)
        if rest.popFirst() == 255 {
            guard let milliseconds = rest.takeNumber(), let sequence = rest.takeNumber() else { return nil }
            ceiling = LogPosition(milliseconds, sequence)
        } else {
            // Earlier versions stored each position before a record contained it.
            ceiling = position
        }
        while let epoch = rest.takeNumber() { formerEpochs.append(epoch) }
    }

    private static let lengthLimit = 1024
}
