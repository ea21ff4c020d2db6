// A number that stands for content: for entity tags and for keys that hold a request's content.

import CHash
import HTTPCore

public enum ContentHash {
    /// Good for telling things apart quickly that are compared afterwards.
    public static func number(of bytes: UnsafeRawBufferPointer) -> UInt64 { XXH3_64bits(bytes.baseAddress, bytes.count) }

    /// Appends 32 hexadecimal digits, the same on every machine and after every restart (XXH3, 128 bits).
    public static func appendHex(of bytes: [UInt8], to out: inout [UInt8]) {
        let hash = XXH3_128bits(bytes, bytes.count)
        let (high, low) = (hash.high64, hash.low64)
        let digits = (
            HexDigits.of(UInt32(high >> 32)), HexDigits.of(UInt32(truncatingIfNeeded: high)),
            HexDigits.of(UInt32(low >> 32)), HexDigits.of(UInt32(truncatingIfNeeded: low))
        )
        withUnsafeBytes(of: digits) { out.append(contentsOf: $0) }
    }
}
