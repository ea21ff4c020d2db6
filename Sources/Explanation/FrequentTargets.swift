// Finds the most frequent targets of an event in bounded memory, with the space-saving algorithm. See Metwally, Agrawal, El Abbadi,
// "Efficient computation of frequent and top-k elements in data streams", 2005. Pure: times are passed in.

public struct CountedTarget: Sendable, Equatable {
    /// Index of the API, or `ExchangeRecord.noAPI`.
    public let api: UInt16
    /// Hash of the complete target.
    let hash: UInt64
    /// Path and query as received; truncated to `targetBytes`.
    public let target: [UInt8]
    public let isCut: Bool
    /// Lower bound of the count.
    public var count: UInt64
    /// Whether the actual count may be higher, because there were more targets than slots.
    public var isAtLeast: Bool
}

/// Counts a limited number of targets. A new target replaces the one with the lowest count and inherits that count. So every target with
/// more than one in `capacity` of all events is included.
public struct FrequentTargets: Sendable {
    /// Data that is read only for output.
    private struct Slot {
        /// The inherited part of the count.
        var others: UInt64
        var api: UInt16
        /// Length of the target; at most `targetBytes` of it are stored.
        var length: Int
    }

    /// A count; the lowest bit is 1 if no part is inherited. Among the lowest counts, one with an inherited part is replaced first.
    private struct Rank {
        var value: UInt64

        init(_ count: UInt64, isCertain: Bool) { value = count << 1 | (isCertain ? 1 : 0) }

        var count: UInt64 { value >> 1 }

        mutating func increase() { value += 2 }
    }

    public static let targetBytes = WhyRing.targetBytes

    private let capacity: Int
    private var slots: [Slot] = []
    /// Hash of each slot; in a separate array, because every event scans all of them.
    private var hashes: [UInt64] = []
    private var ranks: [Rank] = []
    /// `targetBytes` for each slot.
    private var targets: [UInt8] = []

    public init(capacity: Int) { self.capacity = capacity }

    /// Counts an event. Allocates memory at the first call only.
    public mutating func count(_ target: ArraySlice<UInt8>, ofAPI api: UInt16) {
        if slots.isEmpty {
            slots.reserveCapacity(capacity)
            hashes.reserveCapacity(capacity)
            ranks.reserveCapacity(capacity)
            targets = Array(repeating: 0, count: capacity * Self.targetBytes)
        }
        let hash = Self.hash(target, api)
        if let slotIndex = hashes.withUnsafeBufferPointer({ $0.firstIndex(of: hash) }) {
            ranks[slotIndex].increase()
        } else if slots.count < capacity {
            keep(target, at: slots.count)
            slots.append(Slot(others: 0, api: api, length: target.count))
            hashes.append(hash)
            ranks.append(Rank(1, isCertain: true))
        } else {
            let slotIndex = ranks.withUnsafeBufferPointer { Self.least(of: $0) }
            keep(target, at: slotIndex)
            let others = ranks[slotIndex].count
            slots[slotIndex] = Slot(others: others, api: api, length: target.count)
            hashes[slotIndex] = hash
            ranks[slotIndex] = Rank(others + 1, isCertain: false)
        }
    }

    /// Returns the index of the smallest rank; the first one of several.
    private static func least(of ranks: UnsafeBufferPointer<Rank>) -> Int {
        var slotIndex = 0
        for index in ranks.indices where ranks[index].value < ranks[slotIndex].value { slotIndex = index }
        return slotIndex
    }

    private mutating func keep(_ target: ArraySlice<UInt8>, at slotIndex: Int) {
        let first = slotIndex * Self.targetBytes
        targets.withUnsafeMutableBytes { targets in
            target.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: targets[first...]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: $0.prefix(Self.targetBytes)))
            }
        }
    }

    private static func hash(_ target: ArraySlice<UInt8>, _ api: UInt16) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(api)
        target.withUnsafeBytes { hasher.combine(bytes: $0) }
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// The counted targets, unordered.
    public var counted: [CountedTarget] {
        slots.enumerated().map { slotIndex, slot in
            let kept = min(slot.length, Self.targetBytes)
            return CountedTarget(
                api: slot.api, hash: hashes[slotIndex],
                target: Array(targets[slotIndex * Self.targetBytes..<slotIndex * Self.targetBytes + kept]),
                isCut: slot.length > kept, count: ranks[slotIndex].count - slot.others, isAtLeast: slot.others > 0)
        }
    }
}

/// Counts of recent events: one table for each time span; the oldest is discarded.
public struct RecentTargets: Sendable {
    /// Milliseconds.
    public static let span: Int64 = 600_000
    /// Number of spans, including the current one: counts are at most an hour old.
    public static let spans = 6
    public static let capacity = 64

    /// Tables with the number of their span on the monotonic clock; newest last.
    private var tables: [(span: Int64, table: FrequentTargets)] = []

    public init() {}

    /// - Parameter now: milliseconds of the monotonic clock.
    public mutating func count(_ target: ArraySlice<UInt8>, ofAPI api: UInt16, now: Int64) {
        let span = now / Self.span
        if tables.last?.span != span {
            forget(now: now)
            tables.append((span, FrequentTargets(capacity: Self.capacity)))
        }
        tables[tables.count - 1].table.count(target, ofAPI: api)
    }

    private mutating func forget(now: Int64) { tables.removeAll { $0.span <= now / Self.span - Int64(Self.spans) } }

    /// Returns the time from which events are counted, on the monotonic clock.
    public static func since(now: Int64) -> Int64 { (now / span - Int64(spans - 1)) * span }

    /// Returns the targets, unordered; each span and each event loop is counted separately.
    public func counted(now: Int64) -> [CountedTarget] {
        tables.filter { $0.span > now / Self.span - Int64(Self.spans) }.flatMap(\.table.counted)
    }

    /// Adds up targets from several tables, and returns the most frequent ones first.
    public static func most(_ counted: [CountedTarget], limit: Int) -> [CountedTarget] {
        var sums: [UInt64: CountedTarget] = [:]
        for one in counted {
            if let known = sums[one.hash] {
                sums[one.hash]?.count += one.count
                sums[one.hash]?.isAtLeast = known.isAtLeast || one.isAtLeast
            } else {
                sums[one.hash] = one
            }
        }
        let sorted = sums.values.sorted { $0.count == $1.count ? $0.target.lexicographicallyPrecedes($1.target) : $0.count > $1.count }
        return Array(sorted.prefix(limit))
    }
}

/// Counts of requests by target on one event loop. Hits are not counted, because that would slow them down noticeably.
public struct TargetTally: Sendable {
    /// 5xx responses, from the upstream or from Cistern.
    public var failed = RecentTargets()
    public var rescued = RecentTargets()
    /// Requests forwarded to the upstream, except mere confirmations.
    public var forwarded = RecentTargets()

    public init() {}
}
