// The last exchanges of one shard, in memory that is taken once and used round and round.

import HTTPCore

/// One exchange, taken out of the ring.
public struct WhyRecord: Sendable {
    public let trace: ExchangeTrace
    public let shard: Int
    /// Path and query as received; cut where it is longer than what is kept.
    public let target: [UInt8]

    public init(trace: ExchangeTrace, shard: Int, target: [UInt8]) {
        self.trace = trace
        self.shard = shard
        self.target = target
    }

    public var id: String { "\(shard)-\(trace.number)" }
    public var isCut: Bool { Int(trace.targetCount) > target.count }
}

/// Touched on its shard's loop only.
public final class WhyRing {
    private let shard: Int
    private let capacity: Int
    private let traces: UnsafeMutablePointer<ExchangeTrace>
    private let targets: UnsafeMutablePointer<UInt8>
    private var written = 0
    /// Of the exchange that began last.
    public private(set) var lastNumber: UInt64 = 0

    /// What is kept of a target. Most are shorter.
    public static let targetBytes = 256

    /// - Parameter capacity: exchanges that are kept. Their memory is used only when they are written.
    public init(shard: Int, capacity: Int) {
        self.shard = shard
        self.capacity = capacity
        traces = .allocate(capacity: max(1, capacity))
        targets = .allocate(capacity: max(1, capacity) * Self.targetBytes)
    }

    deinit {
        traces.deallocate()
        targets.deallocate()
    }

    public func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// - Parameter trace: is told how long the target is; inout so that its bytes are copied as they lie, and not member by member.
    public func append(_ trace: inout ExchangeTrace, target: ArraySlice<UInt8>) {
        guard capacity > 0 else { return }
        let slot = written % capacity
        written += 1
        trace.targetCount = UInt16(clamping: target.count)
        withUnsafePointer(to: &trace) { (traces + slot).initialize(from: $0, count: 1) }
        target.withUnsafeBytes { bytes in
            let count = min(bytes.count, Self.targetBytes)
            UnsafeMutableRawPointer(targets + slot * Self.targetBytes).copyMemory(from: bytes.baseAddress!, byteCount: count)
        }
    }

    /// What is looked for. Goes through the ring in pieces: with a million records all at once would hold up the loop.
    public struct Search: Sendable {
        /// So many at most.
        public let limit: Int
        public var filter: WhyFilter
        /// The one exchange that is wanted.
        public var number: UInt64?
        /// Where an earlier search has ended on each shard (`next`): what came after it is wanted, oldest first. nil: the last, newest first.
        public var after: [Int]?
        /// What each piece has found: none is copied again when the next comes.
        public fileprivate(set) var pieces: [[WhyRecord]] = []
        fileprivate var count = 0
        /// With `after`: how many came after it and had to make room for others.
        public fileprivate(set) var missed = 0
        /// Where to go on later.
        public fileprivate(set) var next = 0
        /// The record behind the one that was looked at last, with `after` the one to look at next; nil before the first piece.
        fileprivate var position: Int?

        public init(limit: Int, filter: WhyFilter = WhyFilter(), number: UInt64? = nil, after: [Int]? = nil) {
            (self.limit, self.filter, self.number, self.after) = (limit, filter, number, after)
        }

        public var records: [WhyRecord] { Array(pieces.joined()) }
    }

    /// What a search has found on all shards.
    public struct Found: Sendable {
        private var pieces: [[WhyRecord]] = []
        /// By shard.
        public private(set) var next: [Int]
        public private(set) var missed = 0

        public init(shards: Int) { next = Array(repeating: 0, count: shards) }

        /// In no order. Made anew each time: not for a loop.
        public var records: [WhyRecord] { Array(pieces.joined()) }

        public mutating func add(_ search: Search, ofShard shard: Int) {
            pieces += search.pieces
            next[shard] = search.next
            missed += search.missed
        }
    }

    /// What one turn of the loop does. To look at a record costs one; to take it, or to work out why it went as it did, ten.
    private static let (pieceCost, takenCost) = (1_000, 10)

    /// Looks at some more; returns whether there are others. What is written meanwhile is not found, and what it took the place of neither.
    public func lookFurther(_ search: inout Search) -> Bool {
        if let after = search.after { return lookAhead(&search, from: after.indices.contains(shard) ? after[shard] : 0) }
        if search.position == nil { search.next = written }
        let oldest = max(0, written - capacity)
        var (position, piece) = (search.position ?? written, Piece(search))
        while position > oldest, piece.goesOn {
            position -= 1
            look(at: position, for: search, &piece)
        }
        search.take(piece, at: position)
        return position > oldest && search.count < search.limit
    }

    /// The same, oldest first.
    private func lookAhead(_ search: inout Search, from start: Int) -> Bool {
        let oldest = max(0, written - capacity)
        var (position, piece) = (min(search.position ?? start, written), Piece(search))
        if position < oldest {
            search.missed += oldest - position
            position = oldest
        }
        while position < written, piece.goesOn {
            look(at: position, for: search, &piece)
            position += 1
        }
        search.take(piece, at: position)
        search.next = position
        return position < written && search.count < search.limit
    }

    /// What one turn finds.
    fileprivate struct Piece {
        fileprivate private(set) var records: [WhyRecord] = []
        /// How many more may be found.
        private let wanted: Int
        private let lookCost: Int
        private var cost = 0

        init(_ search: borrowing Search) {
            wanted = search.limit - search.count
            lookCost = search.filter.reason == nil ? 1 : WhyRing.takenCost
        }

        var goesOn: Bool { cost < WhyRing.pieceCost && records.count < wanted }

        mutating func note(_ record: WhyRecord?) {
            cost += lookCost
            guard let record else { return }
            if records.isEmpty { records.reserveCapacity(min(wanted, WhyRing.pieceCost / WhyRing.takenCost)) }
            records.append(record)
            cost += WhyRing.takenCost
        }
    }

    private func look(at position: Int, for search: borrowing Search, _ piece: inout Piece) {
        piece.note(record(at: position, for: search))
    }

    /// nil where it is not wanted.
    private func record(at position: Int, for search: borrowing Search) -> WhyRecord? {
        let slot = position % capacity
        let count = min(Int(traces[slot].targetCount), Self.targetBytes)
        let target = UnsafeBufferPointer(start: targets + slot * Self.targetBytes, count: count)
        guard search.number.map({ $0 == traces[slot].number }) ?? true, search.filter.accepts(traces[slot], target) else { return nil }
        return WhyRecord(trace: traces[slot], shard: shard, target: Array(target))
    }

    /// All in one go.
    public func records(last limit: Int, prefix: [UInt8] = [], number: UInt64? = nil) -> [WhyRecord] {
        var search = Search(limit: limit, filter: WhyFilter(prefix: prefix), number: number)
        while lookFurther(&search) {}
        return search.records
    }
}

extension WhyRing.Search {
    fileprivate mutating func take(_ piece: WhyRing.Piece, at position: Int) {
        self.position = position
        guard !piece.records.isEmpty else { return }
        count += piece.records.count
        pieces.append(piece.records)
    }
}
