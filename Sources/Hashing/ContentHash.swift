// A number that stands for content: for entity tags and for keys that hold a request's content.

import CHash

package enum ContentHash {
    /// Good for telling things apart quickly that are compared afterwards.
    package static func number(of bytes: UnsafeRawBufferPointer) -> UInt64 { XXH3_64bits(bytes.baseAddress, bytes.count) }

    /// Appends 32 hexadecimal digits, the same on every machine and after every restart (XXH3, 128 bits).
    package static func appendHex(of bytes: [UInt8], to out: inout [UInt8]) {
        let hash = XXH3_128bits(bytes, bytes.count)
        appendHex(hash.high64, to: &out)
        appendHex(hash.low64, to: &out)
    }

    private static func appendHex(_ half: UInt64, to out: inout [UInt8]) {
        out.append(addingCapacity: 16) { digits in
            for place in UInt64(0)..<16 {
                let digit = UInt8(truncatingIfNeeded: half >> (60 - place * 4)) & 15
                digits.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") - 10 + digit)
            }
        }
    }
}
