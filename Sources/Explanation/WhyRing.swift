// The last exchanges of one shard, in a ring buffer that is allocated once.

/// One exchange, copied from the ring.
public struct WhyRecord: Sendable {
    public let exchange: ExchangeRecord
    public let shard: Int
    /// Path and query as received; truncated to `WhyRing.targetBytes`.
    public let target: [UInt8]

    public init(exchange: ExchangeRecord, shard: Int, target: [UInt8]) {
        self.exchange = exchange
        self.shard = shard
        self.target = target
    }

    public var id: String { "\(shard)-\(exchange.number)" }
    public var isCut: Bool { Int(exchange.targetCount) > target.count }
}

/// Used on its shard's event loop only.
public final class WhyRing {
    private let shard: Int
    private let capacity: Int
    private let exchanges: UnsafeMutablePointer<ExchangeRecord>
    private let targets: UnsafeMutablePointer<UInt8>
    private var written = 0
    /// Number of the exchange that began last.
    public private(set) var lastNumber: UInt64 = 0

    /// Maximum length of a recorded target in bytes. Most are shorter.
    public static let targetBytes = 256

    /// - Parameter capacity: maximum number of exchanges. Their memory is touched only when they are written.
    public init(shard: Int, capacity: Int) {
        self.shard = shard
        self.capacity = capacity
        exchanges = .allocate(capacity: max(1, capacity))
        targets = .allocate(capacity: max(1, capacity) * Self.targetBytes)
    }

    deinit {
        exchanges.deallocate()
        targets.deallocate()
    }

    public func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// - Parameter exchange: its `targetCount` is set. `inout`, so that it is copied as a block and not member by member.
    public func append(_ exchange: inout ExchangeRecord, target: ArraySlice<UInt8>) {
        guard capacity > 0 else { return }
        let slot = written % capacity
        written += 1
        exchange.targetCount = UInt16(clamping: target.count)
        withUnsafePointer(to: &exchange) { (exchanges + slot).initialize(from: $0, count: 1) }
        target.withUnsafeBytes { bytes in
            let count = min(bytes.count, Self.targetBytes)
            UnsafeMutableRawPointer(targets + slot * Self.targetBytes).copyMemory(from: bytes.baseAddress!, byteCount: count)
        }
    }

    /// A search. It goes through the ring in pieces, because a search through a million records at once would block the event loop.
    public struct Search: Sendable {
        /// Maximum number of records.
        public let limit: Int
        public var filter: WhyFilter
        /// Number of a single exchange to find; nil for all.
        public var number: UInt64?
        /// Positions at which an earlier search ended on each shard (`next`): later records are returned, oldest first. nil: the last
        /// records, newest first.
        public var after: [Int]?
        /// Records found by each piece, kept separately so that none is copied again.
        public fileprivate(set) var pieces: [[WhyRecord]] = []
        fileprivate var count = 0
        /// With `after`: number of later records that were already overwritten.
        public fileprivate(set) var missed = 0
        /// Position at which a later search continues.
        public fileprivate(set) var next = 0
        /// Position after the last examined record; with `after`, position of the next record. nil before the first piece.
        fileprivate var position: Int?

        public init(limit: Int, filter: WhyFilter = WhyFilter(), number: UInt64? = nil, after: [Int]? = nil) {
            (self.limit, self.filter, self.number, self.after) = (limit, filter, number, after)
        }

        public var records: [WhyRecord] { Array(pieces.joined()) }
    }

    /// The results of a search on all shards.
    public struct Found: Sendable {
        private var pieces: [[WhyRecord]] = []
        /// Positions by shard.
        public private(set) var next: [Int]
        public private(set) var missed = 0

        public init(shards: Int) { next = Array(repeating: 0, count: shards) }

        /// The records, unordered. Created anew for each call; do not call repeatedly.
        public var records: [WhyRecord] { Array(pieces.joined()) }

        public mutating func add(_ search: Search, ofShard shard: Int) {
            pieces += search.pieces
            next[shard] = search.next
            missed += search.missed
        }
    }

    /// Work in one turn of the event loop. Examining a record costs one; copying it, or computing its reason, costs ten.
    private static let (pieceCost, takenCost) = (1_000, 10)

    /// Examines more records; returns whether there are others. Records written meanwhile are not found, nor are those that they overwrite.
    public func searchMore(_ search: inout Search) -> Bool {
        if let after = search.after { return searchForward(&search, from: after.indices.contains(shard) ? after[shard] : 0) }
        if search.position == nil { search.next = written }
        let oldest = max(0, written - capacity)
        var (position, piece) = (search.position ?? written, Piece(search))
        while position > oldest, piece.goesOn {
            position -= 1
            piece.note(record(at: position, for: search))
        }
        search.take(piece, at: position)
        return position > oldest && search.count < search.limit
    }

    /// Examines more records, oldest first.
    private func searchForward(_ search: inout Search, from start: Int) -> Bool {
        let oldest = max(0, written - capacity)
        var (position, piece) = (min(search.position ?? start, written), Piece(search))
        if position < oldest {
            search.missed += oldest - position
            position = oldest
        }
        while position < written, piece.goesOn {
            piece.note(record(at: position, for: search))
            position += 1
        }
        search.take(piece, at: position)
        search.next = position
        return position < written && search.count < search.limit
    }

    /// The results of one turn.
    fileprivate struct Piece {
        fileprivate private(set) var records: [WhyRecord] = []
        /// Maximum number of further records.
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

    /// nil if the record does not match.
    private func record(at position: Int, for search: borrowing Search) -> WhyRecord? {
        let slot = position % capacity
        let count = min(Int(exchanges[slot].targetCount), Self.targetBytes)
        let target = UnsafeBufferPointer(start: targets + slot * Self.targetBytes, count: count)
        guard search.number.map({ $0 == exchanges[slot].number }) ?? true, search.filter.accepts(exchanges[slot], target) else {
            return nil
        }
        return WhyRecord(exchange: exchanges[slot], shard: shard, target: Array(target))
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
