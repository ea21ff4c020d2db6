// How often what look-ups find has been changed. Who notes the counts before a look-up knows, for as long as they stay the same, that another
// look-up would bring the same. Keys share counts: the change of one costs those that share its count one look-up, and nothing else.

import Synchronization

/// Raised by whoever changes something, with the store's state locked; read by all shards without it.
final class ChangeCounts: Sendable {
    /// 16 KiB in all: with a thousand changes a second, what is looked up keeps its count for four seconds.
    static let partCount = 4_096

    private let parts = InlineArray<4_096, Atomic<UInt32>> { _ in Atomic(0) }
    private let all = Atomic<UInt32>(0)

    static func part(_ hash: KeyHash) -> Int { Int(truncatingIfNeeded: hash.low >> 32) & (partCount - 1) }

    func raise(_ hash: KeyHash) { parts[Self.part(hash)].wrappingAdd(1, ordering: .releasing) }

    /// Where it concerns all, or nobody goes through what it concerns.
    func raiseAll() { all.wrappingAdd(1, ordering: .releasing) }

    fileprivate func number(ofPart part: Int) -> UInt32 { parts[part].load(ordering: .acquiring) }

    fileprivate var numberOfAll: UInt32 { all.load(ordering: .acquiring) }
}

/// What look-ups went by: under which keys they looked, also where nothing lay, and how often that had been changed until then.
public struct LookUpBasis: Sendable, Equatable {
    /// Of the keys, by which counts they go: sixteen bits each. Two words, since a vector would have all that holds it aligned, which takes the C
    /// library longer.
    private var (firstParts, lastParts): (UInt64, UInt64) = (0, 0)
    private var count = 0
    /// Of their counts, each with the one of all. None of them ever goes down, so the sum stays the same only while each of them does.
    private(set) var sum: UInt32 = 0

    /// More keys than a plain hit needs.
    private static let limit = 8

    public init() {}

    /// Before it is looked at what lies there: whoever changes that meanwhile is noticed.
    mutating func note(_ hash: KeyHash, _ counts: ChangeCounts) {
        guard count < Self.limit else { return noteUnknown() }
        let part = ChangeCounts.part(hash)
        let bits = UInt64(UInt16(truncatingIfNeeded: part)) &<< UInt64(16 &* (count & 3))
        if count < 4 { firstParts |= bits } else { lastParts |= bits }
        count += 1
        sum &+= counts.number(ofPart: part) &+ counts.numberOfAll
    }

    /// It went by something that has no count: it never holds.
    public mutating func noteUnknown() { count = Self.limit + 1 }

    private func part(_ place: Int) -> Int {
        Int(truncatingIfNeeded: (place < 4 ? firstParts : lastParts) &>> UInt64(16 &* (place & 3))) & 0xffff
    }

    /// Whether other look-ups would bring the same.
    func holds(_ counts: ChangeCounts) -> Bool {
        guard count <= Self.limit else { return false }
        var now: UInt32 = 0
        for place in 0..<count { now &+= counts.number(ofPart: part(place)) &+ counts.numberOfAll }
        return now == sum
    }
}
