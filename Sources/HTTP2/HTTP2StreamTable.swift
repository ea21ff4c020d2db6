// What belongs to each open stream of a connection, by the stream's number.

/// Numbers are not hashed with a secret: that takes longer than all the rest of looking one up. Peers choose them, but so few are open at once that
/// those which meet cost next to nothing.
public struct HTTP2StreamTable<Value> {
    @usableFromInline struct Number: Hashable {
        @usableFromInline let value: Int32

        @inlinable init(_ value: Int32) { self.value = value }

        @inlinable func hash(into hasher: inout Hasher) { hasher.combine(value) }

        /// What tables ask.
        @inlinable func _rawHashValue(seed: Int) -> Int {
            let mixed = (UInt64(UInt32(bitPattern: value)) ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
            return Int(truncatingIfNeeded: mixed ^ mixed >> 32)
        }
    }

    @usableFromInline var table: [Number: Value] = [:]

    @inlinable public init() {}

    @inlinable public var isEmpty: Bool { table.isEmpty }
    @inlinable public var count: Int { table.count }
    /// In no order.
    @inlinable public var values: some Collection<Value> { table.values }

    @inlinable public subscript(stream: Int32) -> Value? {
        get { table[Number(stream)] }
        set { table[Number(stream)] = newValue }
    }

    @inlinable public mutating func remove(_ stream: Int32) -> Value? { table.removeValue(forKey: Number(stream)) }
}
