// The key under which requests that can have one response meet.

import HTTPCore

/// With its hash, which is asked for several times.
public struct FlightKey: Hashable, Sendable {
    public let bytes: [UInt8]
    public let hash: SeededHash

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
        hash = SeededHash(UInt64(truncatingIfNeeded: ByteKey(bytes).hashValue))
    }

    public static func == (one: FlightKey, other: FlightKey) -> Bool { one.hash == other.hash && one.bytes == other.bytes }

    public func hash(into hasher: inout Hasher) { hash.hash(into: &hasher) }

    public func _rawHashValue(seed: Int) -> Int { hash._rawHashValue(seed: seed) }
}
