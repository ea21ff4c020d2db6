// The last exchanges of one shard, in memory that is taken once and used round and round.

import HTTPCore

/// One exchange, taken out of the ring.
package struct WhyRecord: Sendable {
    package let trace: ExchangeTrace
    package let shard: Int
    /// Path and query as received; cut where it is longer than what is kept.
    package let target: [UInt8]

    package init(trace: ExchangeTrace, shard: Int, target: [UInt8]) {
        self.trace = trace
        self.shard = shard
        self.target = target
    }

    package var id: String { "\(shard)-\(trace.number)" }
    package var isCut: Bool { Int(trace.targetCount) > target.count }
}

/// Touched on its shard's loop only.
package final class WhyRing {
    private let shard: Int
    private let capacity: Int
    private let traces: UnsafeMutablePointer<ExchangeTrace>
    private let targets: UnsafeMutablePointer<UInt8>
    private var written = 0
    /// Of the exchange that began last.
    package private(set) var lastNumber: UInt64 = 0

    /// What is kept of a target. Most are shorter.
    package static let targetBytes = 256

    /// - Parameter capacity: exchanges that are kept. Their memory is used only when they are written.
    package init(shard: Int, capacity: Int) {
        self.shard = shard
        self.capacity = capacity
        traces = .allocate(capacity: max(1, capacity))
        targets = .allocate(capacity: max(1, capacity) * Self.targetBytes)
    }

    deinit {
        traces.deallocate()
        targets.deallocate()
    }

    package func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    package func append(_ trace: borrowing ExchangeTrace, target: ArraySlice<UInt8>) {
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
    package struct Search: Sendable {
        /// So many at most.
        package let limit: Int
        /// What the targets begin with.
        package var prefix: [UInt8] = []
        /// The one exchange that is wanted.
        package var number: UInt64?
        /// Newest first.
        package fileprivate(set) var records: [WhyRecord] = []
        /// The record behind the one that was looked at last; nil before the first piece.
        fileprivate var position: Int?

        package init(limit: Int, prefix: [UInt8] = [], number: UInt64? = nil) {
            (self.limit, self.prefix, self.number) = (limit, prefix, number)
        }
    }

    private static let pieceCount = 1_000

    /// Looks at some more; returns whether there are others. What is written meanwhile is not found, and what it took the place of neither.
    package func lookFurther(_ search: inout Search) -> Bool {
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
    package func records(last limit: Int, prefix: [UInt8] = [], number: UInt64? = nil) -> [WhyRecord] {
        var search = Search(limit: limit, prefix: prefix, number: number)
        while lookFurther(&search) {}
        return search.records
    }
}
