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

    public func append(_ trace: borrowing ExchangeTrace, target: ArraySlice<UInt8>) {
        guard capacity > 0 else { return }
        let slot = written % capacity
        written += 1
        (traces + slot).initialize(to: copy trace)
        traces[slot].targetCount = UInt16(clamping: target.count)
        target.withUnsafeBytes { bytes in
            let count = min(bytes.count, Self.targetBytes)
            UnsafeMutableRawPointer(targets + slot * Self.targetBytes).copyMemory(from: bytes.baseAddress!, byteCount: count)
        }
    }

    /// What is looked for. Goes through the ring in pieces: with a million records all at once would hold up the loop.
    public struct Search: Sendable {
        /// So many at most.
        public let limit: Int
        /// What the targets begin with.
        public var prefix: [UInt8] = []
        /// The one exchange that is wanted.
        public var number: UInt64?
        /// Newest first.
        public fileprivate(set) var records: [WhyRecord] = []
        /// The record behind the one that was looked at last; nil before the first piece.
        fileprivate var position: Int?

        public init(limit: Int, prefix: [UInt8] = [], number: UInt64? = nil) {
            (self.limit, self.prefix, self.number) = (limit, prefix, number)
        }
    }

    private static let pieceCount = 1_000

    /// Looks at some more; returns whether there are others. What is written meanwhile is not found, and what it took the place of neither.
    public func lookFurther(_ search: inout Search) -> Bool {
        let (prefix, number) = (search.prefix, search.number)
        let oldest = max(0, written - capacity)
        var position = search.position ?? written
        let end = max(oldest, position - Self.pieceCount)
        while position > end, search.records.count < search.limit {
            position -= 1
            let slot = position % capacity
            let trace = traces[slot]
            let count = min(Int(trace.targetCount), Self.targetBytes)
            let target = UnsafeBufferPointer(start: targets + slot * Self.targetBytes, count: count)
            guard number.map({ $0 == trace.number }) ?? true, target.starts(with: prefix) else { continue }
            search.records.append(WhyRecord(trace: trace, shard: shard, target: Array(target)))
        }
        search.position = position
        return position > oldest && search.records.count < search.limit
    }

    /// All in one go.
    public func records(last limit: Int, prefix: [UInt8] = [], number: UInt64? = nil) -> [WhyRecord] {
        var search = Search(limit: limit, prefix: prefix, number: number)
        while lookFurther(&search) {}
        return search.records
    }
}
