// Change counters for lookup results. A caller that records the counters before a lookup can later detect whether the result is still
// valid. Several keys share one counter: a change of one key also invalidates results for the others, which costs them one more lookup.

import Synchronization

/// Change counters. A thread that changes an item increments them while it holds the lock of the store's state. All shards read them
/// without the lock.
final class ChangeCounts: Sendable {
    /// Number of counters, 16 KiB in total. At a thousand changes per second, a given key's counter is unchanged for about four seconds.
    static let partCount = 4_096

    private let parts = InlineArray<4_096, Atomic<UInt32>> { _ in Atomic(0) }
    private let all = Atomic<UInt32>(0)

    func raise(_ hash: KeyHash) { parts[hash.changePart].wrappingAdd(1, ordering: .releasing) }

    /// Invalidates all lookup results. Used when a change affects all keys, or when the affected keys are not enumerated.
    func raiseAll() { all.wrappingAdd(1, ordering: .releasing) }

    fileprivate subscript(part: Int) -> UInt32 { parts[part].load(ordering: .acquiring) }

    fileprivate var numberOfAll: UInt32 { all.load(ordering: .acquiring) }
}

extension KeyHash {
    /// Index of the key's counter.
    fileprivate var changePart: Int { Int(truncatingIfNeeded: low >> 32) & (ChangeCounts.partCount - 1) }
}

/// The counters that one or more look-ups depend on, recorded before the look-ups. Keys without a stored item are included.
public struct LookUpBasis: Sendable, Equatable {
    /// Indices of the keys' counters, 16 bits each, packed into two words. A vector type would increase the alignment of every enclosing
    /// value, and so the time of copies.
    private var (firstParts, lastParts): (UInt64, UInt64) = (0, 0)
    private var count = 0
    /// Sum of the recorded counters, each added to the counter for all keys. Counters only increase, so an unchanged sum means that all
    /// counters are unchanged (apart from wrap-around).
    private(set) var sum: UInt32 = 0

    /// Maximum number of recorded keys. A plain hit looks up fewer keys.
    private static let limit = 8

    public init() {}

    /// Records the counters of a key. Must be called before the key is looked up, so that concurrent changes are detected.
    mutating func note(_ hash: KeyHash, _ counts: ChangeCounts) {
        guard count < Self.limit else { return noteUnknown() }
        let part = hash.changePart
        let bits = UInt64(UInt16(truncatingIfNeeded: part)) &<< UInt64(16 &* (count & 3))
        if count < 4 { firstParts |= bits } else { lastParts |= bits }
        count += 1
        sum &+= counts[part] &+ counts.numberOfAll
    }

    /// Records a dependency without a counter. `holds` then always returns false.
    public mutating func noteUnknown() { count = Self.limit + 1 }

    /// Whether a repeated look-up would return an equal result.
    func holds(_ counts: ChangeCounts) -> Bool {
        guard count <= Self.limit else { return false }
        var now: UInt32 = 0
        for index in 0..<count {
            let part = Int(truncatingIfNeeded: (index < 4 ? firstParts : lastParts) &>> UInt64(16 &* (index & 3))) & 0xffff
            now &+= counts[part] &+ counts.numberOfAll
        }
        return now == sum
    }
}
