// Bytes as the key of a table. An array hashes itself byte by byte, which takes ten times as long for a key of the cache.

package struct ByteKey: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}
