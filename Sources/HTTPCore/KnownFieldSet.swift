// A set of known field names as bits. Testing membership takes one instruction; a hashed set costs as much as finding the name did.

public struct KnownFieldSet: Sendable, Equatable, ExpressibleByArrayLiteral {
    // Two words, because a 128-bit integer requires an alignment with which allocations take twice as long.
    @usableFromInline var low: UInt64 = 0
    @usableFromInline var high: UInt64 = 0

    public init() {}

    public init(arrayLiteral fields: KnownField...) {
        for field in fields { insert(field) }
    }

    @inlinable static func bit(_ field: KnownField) -> UInt64 { 1 &<< UInt64(field.rawValue) }

    @inlinable public func contains(_ field: KnownField) -> Bool { (field.rawValue < 64 ? low : high) & Self.bit(field) != 0 }

    @inlinable public func isDisjoint(with others: KnownFieldSet) -> Bool { low & others.low == 0 && high & others.high == 0 }

    /// Returns whether the line's field is in the set.
    public func holds(_ entry: Fields.Entry) -> Bool { entry.known.map(contains) ?? false }

    mutating func subtract(_ others: KnownFieldSet) {
        low &= ~others.low
        high &= ~others.high
    }

    public mutating func insert(_ field: KnownField) {
        if field.rawValue < 64 { low |= Self.bit(field) } else { high |= Self.bit(field) }
    }

    public mutating func remove(_ field: KnownField) {
        if field.rawValue < 64 { low &= ~Self.bit(field) } else { high &= ~Self.bit(field) }
    }
}
