// A hash table of values by stream number, for the open streams of a connection.

/// Numbers are their own hash. A peer's numbers usually increase by two, so open streams are adjacent. A peer may choose other numbers, but
/// so few are open at once that collisions cost little.
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
        @inlinable get { place(of: stream).flatMap { slots[$0]?.value } }
        @inlinable set {
            guard let newValue else {
                _ = remove(stream)
                return
            }
            if let place = place(of: stream) {
                slots[place] = Slot(stream, newValue)
            } else {
                insert(Slot(stream, newValue))
            }
        }
    }

    @inlinable public mutating func remove(_ stream: Int32) -> Value? {
        guard let place = place(of: stream), let slot = slots[place].take() else { return nil }
        taken -= 1
        if place != home(stream) { displaced -= 1 }
        if displaced > 0 { moveUp(to: place) }
        return slot.value
    }

    /// Moves later values into a freed slot if a search for them would otherwise end there.
    @inlinable mutating func moveUp(to free: Int) {
        var (hole, place) = (free, next(free))
        while let number = slots[place]?.number {
            let distance = (place &- home(number)) & (slots.count &- 1)
            if distance >= (place &- hole) & (slots.count &- 1) {
                slots.swapAt(hole, place)
                if hole == home(number) { displaced -= 1 }
                hole = place
            }
            place = next(place)
        }
    }

    @inlinable func home(_ stream: Int32) -> Int { Int(stream &>> 1) & (slots.count &- 1) }

    @inlinable func next(_ place: Int) -> Int { (place &+ 1) & (slots.count &- 1) }

    @inlinable func place(of stream: Int32) -> Int? {
        guard !slots.isEmpty else { return nil }
        var place = home(stream)
        while let number = slots[place]?.number {
            if number == stream { return place }
            place = next(place)
        }
        return nil
    }

    @inlinable mutating func insert(_ slot: Slot) {
        if 4 * (taken + 1) > 3 * slots.count { grow() }
        var place = home(slot.number)
        if slots[place] != nil { displaced += 1 }
        while slots[place] != nil { place = next(place) }
        slots[place] = slot
        taken += 1
    }

    @inlinable mutating func grow() {
        let former = slots
        slots = Array(repeating: nil, count: max(Self.leastCapacity, 2 * former.count))
        (taken, displaced) = (0, 0)
        for case let slot? in former { insert(slot) }
    }
}
