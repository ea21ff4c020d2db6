// Keys of hash tables that hash quickly. Hashing an array byte by byte takes ten times as long for a cache key.

public struct ByteKey: Hashable, Sendable {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    public func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// A number that is already a hash with a secret seed, so that attackers cannot choose colliding keys. It is not hashed again, which would
/// take as long as the rest of the lookup.
public struct SeededHash: Hashable, Sendable {
    public let value: UInt64

    @inlinable public init(_ value: UInt64) { self.value = value }

    @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(value) }

    /// Called by hash tables. Each table has its own seed, so that copying one table into another in order does not cluster the entries.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        let mixed = (value ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: mixed ^ mixed >> 32)
    }
}

/// Bytes with their hash, for keys that are looked up several times.
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
