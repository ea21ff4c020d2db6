// Hashes of content, for entity tags and for keys that include a request's content.

import CHash

public enum ContentHash {
    /// A quick 64-bit hash, for comparisons that are verified afterwards.
    public static func number(of bytes: Span<UInt8>) -> UInt64 {
        bytes.withUnsafeBufferPointer { XXH3_64bits($0.baseAddress, $0.count) }
    }

    /// A quick 64-bit hash that depends on a seed.
    public static func number(of bytes: Span<UInt8>, seed: UInt64) -> UInt64 {
        bytes.withUnsafeBufferPointer { XXH3_64bits_withSeed($0.baseAddress, $0.count, seed) }
    }

    /// A 128-bit hash that depends on a secret seed.
    public static func numbers(of bytes: [UInt8], seed: UInt64) -> (UInt64, UInt64) {
        let hash = XXH3_128bits_withSeed(bytes, bytes.count, seed)
        return (hash.high64, hash.low64)
    }

    /// A 128-bit hash, equal on every machine and after every restart (XXH3).
    public static func numbers(of bytes: Span<UInt8>) -> (high: UInt64, low: UInt64) {
        let hash = bytes.withUnsafeBufferPointer { XXH3_128bits($0.baseAddress, $0.count) }
        return (hash.high64, hash.low64)
    }

    /// Number of digits that `appendHex` appends.
    public static let hexDigits = 32

    /// Appends the 32 hexadecimal digits of `numbers(of:)`.
    public static func appendHex(of bytes: Span<UInt8>, to out: inout [UInt8]) {
        let (high, low) = numbers(of: bytes)
        let digits = (
            HexDigits.of(UInt32(high >> 32)), HexDigits.of(UInt32(truncatingIfNeeded: high)),
            HexDigits.of(UInt32(low >> 32)), HexDigits.of(UInt32(truncatingIfNeeded: low))
        )
        withUnsafeBytes(of: digits) { out.append(contentsOf: $0) }
    }
}

extension Hasher {
    public mutating func combine(bytes: Span<UInt8>) { bytes.withUnsafeBytes { combine(bytes: $0) } }
}
