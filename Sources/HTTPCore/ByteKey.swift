// Keys of tables: bytes, and what stands for bytes. An array hashes itself byte by byte, which takes ten times as long for a key of the cache.

public struct ByteKey: Hashable, Sendable {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    public func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// A number that is a hash already, by a secret seed: nobody outside can choose numbers that meet in a table. So it is not hashed again, which
/// would take as long as all the rest of looking it up.
public struct SeededHash: Hashable, Sendable {
    public let value: UInt64

    @inlinable public init(_ value: UInt64) { self.value = value }

    @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(value) }

    /// What tables ask. Their seeds differ, so that copying one into another in its order fills no part of that first.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        let mixed = (value ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: mixed ^ mixed >> 32)
    }
}

/// Bytes with their hash, where that is asked for several times.
public struct HashedKey: Hashable, Sendable {
    public let bytes: [UInt8]
    public let hash: SeededHash

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
        hash = SeededHash(UInt64(truncatingIfNeeded: ByteKey(bytes).hashValue))
    }

    public static func == (one: HashedKey, other: HashedKey) -> Bool { one.hash == other.hash && one.bytes == other.bytes }

    public func hash(into hasher: inout Hasher) { hash.hash(into: &hasher) }

    public func _rawHashValue(seed: Int) -> Int { hash._rawHashValue(seed: seed) }
}
