// A number that stands for content: for entity tags and for keys that hold a request's content.

import CHash

public enum ContentHash {
    /// Good for telling things apart quickly that are compared afterwards.
    public static func number(of bytes: UnsafeRawBufferPointer) -> UInt64 { XXH3_64bits(bytes.baseAddress, bytes.count) }

    /// Appends 32 hexadecimal digits, the same on every machine and after every restart (XXH3, 128 bits).
    public static func appendHex(of bytes: [UInt8], to out: inout [UInt8]) {
        let hash = XXH3_128bits(bytes, bytes.count)
        let (high, low) = (hash.high64, hash.low64)
        let digits = (
            hexDigits(UInt32(high >> 32)), hexDigits(UInt32(truncatingIfNeeded: high)),
            hexDigits(UInt32(low >> 32)), hexDigits(UInt32(truncatingIfNeeded: low))
        )
        withUnsafeBytes(of: digits) { out.append(contentsOf: $0) }
    }

    /// Eight digits at once, the first in the lowest byte: a step for each took more than the hash.
    static func hexDigits(_ number: UInt32) -> UInt64 {
        var digits = UInt64(number.byteSwapped)
        digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff
        digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff
        digits = (digits >> 4 | digits << 8) & 0x0f0f_0f0f_0f0f_0f0f
        let isLetter = ((digits &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return (digits &+ 0x3030_3030_3030_3030 &+ isLetter &* 39).littleEndian
    }
}
