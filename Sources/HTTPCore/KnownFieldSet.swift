// A set of known field names, a bit each: asking it is one instruction, where a hashed set costs as much as finding the name did.

package struct KnownFieldSet: Sendable, Equatable, ExpressibleByArrayLiteral {
    private var bits: UInt128 = 0

    package init() {}

    package init(arrayLiteral fields: KnownField...) {
        for field in fields { insert(field) }
    }

    package func contains(_ field: KnownField) -> Bool { bits & 1 << UInt128(field.rawValue) != 0 }

    package func isDisjoint(with others: KnownFieldSet) -> Bool { bits & others.bits == 0 }

    package mutating func insert(_ field: KnownField) { bits |= 1 << UInt128(field.rawValue) }

    package mutating func remove(_ field: KnownField) { bits &= ~(1 << UInt128(field.rawValue)) }
}
