// A hash table of values by stream number, for the open streams of a connection.

/// Stream numbers are used as hashes directly. A peer's numbers usually increase by two, so open streams are adjacent. A peer may choose
/// other numbers, but few streams are open at once, so collisions cost little.
public struct HTTP2StreamTable<Value> {
    @usableFromInline struct Slot {
        @usableFromInline var number: Int32
        @usableFromInline var value: Value

        @usableFromInline init(_ number: Int32, _ value: Value) { (self.number, self.value) = (number, value) }
    }

    /// A power of two, at most three quarters occupied; empty before the first stream. A value with an occupied home slot is stored in the
    /// next free slot.
    @usableFromInline var slots: [Slot?] = []
    @usableFromInline var taken = 0
    /// Number of values outside their home slots. It is usually zero, and removals then need no moves.
    @usableFromInline var displaced = 0

    @inlinable static var leastCapacity: Int { 16 }

    @inlinable public init() {}

    @inlinable public var isEmpty: Bool { taken == 0 }
    @inlinable public var count: Int { taken }
    /// All values, in no particular order.
    @inlinable public var values: [Value] { slots.compactMap { $0?.value } }

    public subscript(stream: Int32) -> Value? {
        @inlinable get { index(of: stream).flatMap { slots[$0]?.value } }
        @inlinable set {
            guard let newValue else {
                _ = remove(stream)
                return
            }
            if let index = index(of: stream) {
                slots[index] = Slot(stream, newValue)
            } else {
                insert(Slot(stream, newValue))
            }
        }
    }

    @inlinable public mutating func remove(_ stream: Int32) -> Value? {
        guard let index = index(of: stream), let slot = slots[index].take() else { return nil }
        taken -= 1
        if index != home(stream) { displaced -= 1 }
        if displaced > 0 { moveUp(to: index) }
        return slot.value
    }

    /// Moves later values into a freed slot if a search for them would otherwise end there.
    @inlinable mutating func moveUp(to free: Int) {
        var (hole, index) = (free, next(free))
        while let number = slots[index]?.number {
            let distance = (index &- home(number)) & (slots.count &- 1)
            if distance >= (index &- hole) & (slots.count &- 1) {
                slots.swapAt(hole, index)
                if hole == home(number) { displaced -= 1 }
                hole = index
            }
            index = next(index)
        }
    }

    @inlinable func home(_ stream: Int32) -> Int { Int(stream &>> 1) & (slots.count &- 1) }

    @inlinable func next(_ index: Int) -> Int { (index &+ 1) & (slots.count &- 1) }

    @inlinable func index(of stream: Int32) -> Int? {
        guard !slots.isEmpty else { return nil }
        var index = home(stream)
        while let number = slots[index]?.number {
            if number == stream { return index }
            index = next(index)
        }
        return nil
    }

    @inlinable mutating func insert(_ slot: Slot) {
        if 4 * (taken + 1) > 3 * slots.count { grow() }
        var index = home(slot.number)
        if slots[index] != nil { displaced += 1 }
        while slots[index] != nil { index = next(index) }
        slots[index] = slot
        taken += 1
    }

    @inlinable mutating func grow() {
        let former = slots
        slots = Array(repeating: nil, count: max(Self.leastCapacity, 2 * former.count))
        (taken, displaced) = (0, 0)
        for case let slot? in former { insert(slot) }
    }
}
