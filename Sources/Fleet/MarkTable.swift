// Which shared record may be taken: none that an entry of the log concerns that came after what its writer had applied. The table holds the
// last mark of each target, collection, group and stored key by its hash, and a short list of what selects more. It is bounded: what had
// to be forgotten raises the floor, and records from below it are not taken.

/// What an entry concerns.
public enum Mark: Hashable, Sendable {
    /// Of a target, a collection, a group or a stored key. Two with one hash cost a record that is not taken.
    case hash(UInt64)
    /// All that a text selects: the argument of the entry.
    case selection([UInt8])
    case all
}

/// Why a shared record is not taken.
public enum TakeRefusal: String, Sendable, CaseIterable {
    /// It carries the position of another log.
    case otherEpoch
    /// It is older than what the table knows.
    case belowFloor
    /// Its position is one that this node has not come to: it may be of entries that are lost.
    case ahead
    /// Its position may be one of those that were lost with a primary.
    case doubted
    /// All that is stored was purged since.
    case purgedAll
    /// Something that concerns it was purged, or written to, since.
    case marked
    /// It is of what was purged by a prefix, a tag or an API since.
    case selected
    /// This node has said something of it that has no place in the log yet.
    case held
}

public struct MarkTable: Sendable, Hashable {
    /// How much is held at most.
    public struct Limits: Sendable, Hashable {
        /// Marks by hash, of both generations. 262,144 are about 16 MiB.
        public var hashes = 1 << 18
        /// Marks by a text, each of which is held against each record.
        public var selections = 1 << 10
        /// Ranges of positions in doubt: one for each change of the primary.
        public var doubts = 16

        public init() {}
    }

    struct Doubt: Sendable, Hashable {
        /// What lies between the two is doubted, and neither of them.
        var after: LogPosition
        var before: LogPosition
    }

    private struct Selection: Sendable, Hashable {
        var argument: [UInt8]
        var position: LogPosition
    }

    let limits: Limits
    /// Of which log the positions are. nil: of none, nothing is taken.
    public private(set) var epoch: UInt64?
    /// Records from below it are not taken.
    public private(set) var floor = LogPosition.beginning
    private var young: [UInt64: LogPosition] = [:]
    private var old: [UInt64: LogPosition] = [:]
    /// In the order of their positions.
    private var selections: [Selection] = []
    private var all: LogPosition?
    private(set) var doubts: [Doubt] = []
    /// Our own, without a place as yet, and how many entries will bring one.
    private var held: [Mark: Int] = [:]

    public init(limits: Limits = Limits()) { self.limits = limits }

    /// How many marks are held by hash, and how many by a text.
    public var counts: (hashes: Int, selections: Int) { (young.count + old.count, selections.count) }

    // MARK: - Asking

    /// - Parameters:
    ///   - reached: How far the log was handed over (`LogFollower.position`).
    ///   - hashes: Of all that concerns the record: its target, collections, groups, its stored key.
    ///   - isSelected: Whether a text selects the record; asked only for those newer than the record.
    /// - Returns: nil where the record may be taken.
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

    // MARK: - Noting

    /// What came at a position, in any order.
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
        let place = selections.lastIndex { $0.position <= position }.map { $0 + 1 } ?? 0
        selections.insert(Selection(argument: argument, position: position), at: place)
        if selections.count > limits.selections { raiseFloor(to: selections.removeFirst().position) }
    }

    /// Our own, which is applied here and has no place in the log as yet: nothing that it concerns is taken until it has one.
    public mutating func hold(_ mark: Mark) { held[mark, default: 0] += 1 }

    /// - Parameter position: nil where another one that is held stands for it.
    public mutating func settle(_ mark: Mark, at position: LogPosition?) {
        if let position { note(mark, at: position) }
        guard let count = held[mark] else { return }
        held[mark] = count > 1 ? count - 1 : nil
    }

    // MARK: - What is not known

    public mutating func raiseFloor(to position: LogPosition) { floor = max(floor, position) }

    /// Positions between these two may have been taken from entries that are lost.
    public mutating func doubt(after: LogPosition, before: LogPosition) {
        if after == .beginning { raiseFloor(to: before) }
        guard after < before, before > floor, !doubts.contains(where: { $0.after <= after && before <= $0.before }) else { return }
        doubts.removeAll { ($0.after >= after && $0.before <= before) || $0.before <= floor }
        doubts.append(Doubt(after: after, before: before))
        if doubts.count > limits.doubts { raiseFloor(to: doubts.removeFirst().before) }
    }

    /// Another log: nothing that was noted counts for its records. What is held stays held.
    public mutating func startAnew(epoch: UInt64, floor: LogPosition) {
        (self.epoch, self.floor) = (epoch, floor)
        (young, old, selections, all, doubts) = ([:], [:], [], nil, [])
    }
}
