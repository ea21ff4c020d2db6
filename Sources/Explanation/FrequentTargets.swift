// Which targets something happens to most often, in bounded memory, however many there are (space-saving: Metwally, Agrawal, El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams", 2005). Pure: times are passed in.

import HTTPCore

/// One target, and how often it was counted.
public struct CountedTarget: Sendable, Equatable {
    /// The place of its API, or `ExchangeTrace.noAPI`.
    public let api: UInt16
    /// Of the whole target.
    let hash: UInt64
    /// Path and query as received; cut where it is longer than what is kept.
    public let target: [UInt8]
    public let isCut: Bool
    /// It was counted so often at least.
    public var count: UInt64
    /// It may have been more often: there were more targets than there is room for.
    public var isAtLeast: Bool
}

/// Counts of as many targets as it has room for. One that comes when there is none takes the place of the one with the fewest, and its count with
/// it: so whatever makes up more than one in `capacity` of all is among them.
public struct FrequentTargets: Sendable {
    /// What is read only where counts are told.
    private struct Slot {
        /// Of the count, what may be others'.
        var others: UInt64
        var api: UInt16
        /// Bytes of the target, of which no more than `targetBytes` are kept.
        var length: Int
    }

    /// A count, and in its lowest bit whether all of it is certain: of those with the fewest, one that is not goes first.
    private struct Rank {
        var value: UInt64

        init(_ count: UInt64, isCertain: Bool) { value = count << 1 | (isCertain ? 1 : 0) }

        var count: UInt64 { value >> 1 }

        mutating func increase() { value += 2 }
    }

    public static let targetBytes = WhyRing.targetBytes

    private let capacity: Int
    private var slots: [Slot] = []
    /// Of each slot; by themselves, since all are gone through for each that is counted.
    private var hashes: [UInt64] = []
    private var ranks: [Rank] = []
    /// Of each slot, `targetBytes`.
    private var targets: [UInt8] = []

    public init(capacity: Int) { self.capacity = capacity }

    /// Takes memory the first time only.
    public mutating func count(_ target: ArraySlice<UInt8>, ofAPI api: UInt16) {
        if slots.isEmpty {
            slots.reserveCapacity(capacity)
            hashes.reserveCapacity(capacity)
            ranks.reserveCapacity(capacity)
            targets = Array(repeating: 0, count: capacity * Self.targetBytes)
        }
        let hash = Self.hash(target, api)
        if let place = hashes.withUnsafeBufferPointer({ $0.firstIndex(of: hash) }) {
            ranks[place].increase()
        } else if slots.count < capacity {
            keep(target, at: slots.count)
            slots.append(Slot(others: 0, api: api, length: target.count))
            hashes.append(hash)
            ranks.append(Rank(1, isCertain: true))
        } else {
            let place = ranks.withUnsafeBufferPointer { Self.least(of: $0) }
            keep(target, at: place)
            let others = ranks[place].count
            slots[place] = Slot(others: others, api: api, length: target.count)
            hashes[place] = hash
            ranks[place] = Rank(others + 1, isCertain: false)
        }
    }

    /// The place of the smallest, the first of several.
    private static func least(of ranks: UnsafeBufferPointer<Rank>) -> Int {
        var place = 0
        for index in ranks.indices where ranks[index].value < ranks[place].value { place = index }
        return place
    }

    private mutating func keep(_ target: ArraySlice<UInt8>, at place: Int) {
        let first = place * Self.targetBytes
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

    /// In no order.
    public var counted: [CountedTarget] {
        slots.enumerated().map { place, slot in
            let kept = min(slot.length, Self.targetBytes)
            return CountedTarget(
                api: slot.api, hash: hashes[place], target: Array(targets[place * Self.targetBytes..<place * Self.targetBytes + kept]),
                isCut: slot.length > kept, count: ranks[place].count - slot.others, isAtLeast: slot.others > 0)
        }
    }
}

/// The same of the last while: a table for each span of time, of which the oldest is forgotten.
public struct RecentTargets: Sendable {
    /// Milliseconds.
    public static let span: Int64 = 600_000
    /// With the one that is not over: what is told of is at most an hour old.
    public static let spans = 6
    public static let capacity = 64

    /// By the number of its span since the clock's zero; newest last.
    private var tables: [(span: Int64, table: FrequentTargets)] = []

    public init() {}

    /// - Parameter now: milliseconds of the clock that is never set.
    public mutating func count(_ target: ArraySlice<UInt8>, ofAPI api: UInt16, now: Int64) {
        let span = now / Self.span
        if tables.last?.span != span {
            forget(now: now)
            tables.append((span, FrequentTargets(capacity: Self.capacity)))
        }
        tables[tables.count - 1].table.count(target, ofAPI: api)
    }

    private mutating func forget(now: Int64) { tables.removeAll { $0.span <= now / Self.span - Int64(Self.spans) } }

    /// Since when counts are told, as the clock stands now.
    public static func since(now: Int64) -> Int64 { (now / span - Int64(spans - 1)) * span }

    /// In no order; of each span and each loop by itself.
    public func counted(now: Int64) -> [CountedTarget] {
        tables.filter { $0.span > now / Self.span - Int64(Self.spans) }.flatMap(\.table.counted)
    }

    /// Those that were counted in several tables, added up: the most frequent first.
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

/// What requests came to, by target, on one loop. Hits are not among them: to count these would cost them a part of their time.
public struct TargetTally: Sendable {
    /// Responses with a status of 5xx, whoever made them.
    public var failed = RecentTargets()
    public var rescued = RecentTargets()
    /// What the upstream was asked for, and did not just confirm.
    public var forwarded = RecentTargets()

    public init() {}
}
