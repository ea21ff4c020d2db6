// The key under which requests that can have one response meet.

import HTTPCore

/// With its hash, which is asked for several times.
package struct FlightKey: Hashable, Sendable {
    package let bytes: [UInt8]
    package let hash: SeededHash

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        hash = SeededHash(UInt64(truncatingIfNeeded: ByteKey(bytes).hashValue))
    }

    package static func == (one: FlightKey, other: FlightKey) -> Bool { one.hash == other.hash && one.bytes == other.bytes }

    package func hash(into hasher: inout Hasher) { hash.hash(into: &hasher) }

    package func _rawHashValue(seed: Int) -> Int { hash._rawHashValue(seed: seed) }
}
