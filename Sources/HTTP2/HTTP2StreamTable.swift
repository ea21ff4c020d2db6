// What belongs to each open stream of a connection, by the stream's number.

/// Numbers are their own hash: a peer's rise by two, so those that are open at once lie side by side. A peer may choose others, but so few are open at
/// once that those which meet cost next to nothing.
public struct HTTP2StreamTable<Value> {
    @usableFromInline struct Slot {
        @usableFromInline var number: Int32
        @usableFromInline var value: Value

        @usableFromInline init(_ number: Int32, _ value: Value) { (self.number, self.value) = (number, value) }
    }

    /// A power of two, at most three quarters of them taken; none before the first stream. What does not find its own place free lies in the next that is.
    @usableFromInline var slots: [Slot?] = []
    @usableFromInline var taken = 0
    /// Those that found their own place taken. Mostly there are none, and nobody moves up where one is removed.
    @usableFromInline var displaced = 0

    @inlinable static var leastCapacity: Int { 16 }

    @inlinable public init() {}

    @inlinable public var isEmpty: Bool { taken == 0 }
    @inlinable public var count: Int { taken }
    /// In no order.
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

    /// Who lies behind a place that is free now, and would have taken it, does so: else a search for it would end there.
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
