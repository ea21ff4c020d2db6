// Decides which shared records may be used: those that no later entry affects. The table holds the last mark of each target, collection,
// group and stored key by hash, and a short list of selections. It is bounded: forgotten marks raise the floor, and records older than the
// floor are refused.

public enum Mark: Hashable, Sendable {
    /// Hash of a target, a collection, a group or a stored key. A collision causes a record to be refused.
    case hash(UInt64)
    case selection([UInt8])
    case all
}

/// Why a shared record is not used. Raw values are those of `FleetRefusal`.
public enum TakeRefusal: String, Sendable, CaseIterable {
    case otherEpoch = "other_epoch"
    /// The record is older than the marks in the table.
    case belowFloor = "below_floor"
    /// This node has not reached the record's position, which may belong to lost entries.
    case ahead
    case doubted
    case purgedAll = "purged_all"
    case marked
    /// A prefix, a tag or an API that selects the record was purged since.
    case selected
    /// An own purge or write that affects the record is not in the log yet.
    case held
}

public struct MarkTable: Sendable, Hashable {
    public struct Limits: Sendable, Hashable {
        /// Maximum number of marks by hash, in both generations. 262,144 use about 16 MiB.
        public var hashes = 1 << 18
        /// Maximum number of marks by text. Each is compared with each record.
        public var selections = 1 << 10
        /// Maximum number of position ranges in doubt: one for each change of primary.
        public var doubts = 16

        public init() {}
    }

    struct Doubt: Sendable, Hashable {
        /// Both ends are excluded.
        var after: LogPosition
        var before: LogPosition
    }

    private struct Selection: Sendable, Hashable {
        var argument: [UInt8]
        var position: LogPosition
    }

    let limits: Limits
    /// nil without a log; then no record is used.
    public private(set) var epoch: UInt64?
    public private(set) var floor = LogPosition.beginning
    private var young: [UInt64: LogPosition] = [:]
    private var old: [UInt64: LogPosition] = [:]
    private var selections: [Selection] = []
    private var all: LogPosition?
    private(set) var doubts: [Doubt] = []
    /// Own marks without a position, and for each the number of entries that will assign one.
    private var held: [Mark: Int] = [:]

    public init(limits: Limits = Limits()) { self.limits = limits }

    public var counts: (hashes: Int, selections: Int) { (young.count + old.count, selections.count) }

    /// - Parameters:
    ///   - hashes: of the record's target, collections, groups and stored key.
    ///   - isSelected: whether a text selects the record.
    /// - Returns: nil: the record may be taken.
    public func refusal(
        of version: RecordVersion, reached: LogPosition, concerning hashes: some Sequence<UInt64>, isSelected: (_ argument: [UInt8]) -> Bool
    ) -> TakeRefusal? {
        let position = version.position
        guard version.epoch == epoch else { return .otherEpoch }
        guard position >= floor else { return .belowFloor }
        guard position <= reached else { return .ahead }
        guard !doubts.contains(where: { $0.after < position && position < $0.before }) else { return .doubted }
        if let all, all > position { return .purgedAll }
        for hash in hashes {
            if let mark = young[hash] ?? old[hash], mark > position { return .marked }
            if !held.isEmpty, held[.hash(hash)] != nil { return .held }
        }
        for mark in selections.reversed() {
            guard mark.position > position else { break }
            if isSelected(mark.argument) { return .selected }
        }
        return held.isEmpty ? nil : refusalOfHeld(isSelected)
    }

    private func refusalOfHeld(_ isSelected: (_ argument: [UInt8]) -> Bool) -> TakeRefusal? {
        let concerns = held.keys.contains { mark in
            switch mark {
            case .all: true
            case .selection(let argument): isSelected(argument)
            case .hash: false
            }
        }
        return concerns ? .held : nil
    }

    public mutating func note(_ mark: Mark, at position: LogPosition) {
        switch mark {
        case .all: all = max(all ?? position, position)
        case .hash(let hash): note(hash, at: position)
        case .selection(let argument): note(argument, at: position)
        }
    }

    private mutating func note(_ hash: UInt64, at position: LogPosition) {
        if young.count >= max(1, limits.hashes / 2), young[hash] == nil {
            raiseFloor(to: old.values.max() ?? floor)
            (old, young) = (young, [:])
        }
        young[hash] = max(young[hash] ?? position, old[hash] ?? position, position)
    }

    private mutating func note(_ argument: [UInt8], at position: LogPosition) {
        if let same = selections.firstIndex(where: { $0.argument == argument }) {
            guard selections[same].position < position else { return }
            selections.remove(at: same)
        }
        let index = selections.lastIndex { $0.position <= position }.map { $0 + 1 } ?? 0
        selections.insert(Selection(argument: argument, position: position), at: index)
        if selections.count > limits.selections { raiseFloor(to: selections.removeFirst().position) }
    }

    /// Refuses all records that the mark affects until it is settled.
    public mutating func hold(_ mark: Mark) { held[mark, default: 0] += 1 }

    /// - Parameter position: nil if another held mark replaces it.
    public mutating func settle(_ mark: Mark, at position: LogPosition?) {
        if let position { note(mark, at: position) }
        guard let count = held[mark] else { return }
        held[mark] = count > 1 ? count - 1 : nil
    }

    public mutating func raiseFloor(to position: LogPosition) { floor = max(floor, position) }

    /// Marks the positions between these two as possibly belonging to lost entries.
    public mutating func doubt(after: LogPosition, before: LogPosition) {
        if after == .beginning { raiseFloor(to: before) }
        guard after < before, before > floor, !doubts.contains(where: { $0.after <= after && before <= $0.before }) else { return }
        doubts.removeAll { ($0.after >= after && $0.before <= before) || $0.before <= floor }
        doubts.append(Doubt(after: after, before: before))
        if doubts.count > limits.doubts { raiseFloor(to: doubts.removeFirst().before) }
    }

    /// Starts over with another log. Held marks remain held.
    public mutating func startAnew(epoch: UInt64, floor: LogPosition) {
        (self.epoch, self.floor) = (epoch, floor)
        (young, old, selections, all, doubts) = ([:], [:], [], nil, [])
    }
}
