// A number that stands for content: for entity tags and for keys that hold a request's content.

import CHash

package enum ContentHash {
    /// Good for telling things apart quickly that are compared afterwards.
    package static func number(of bytes: UnsafeRawBufferPointer) -> UInt64 { XXH3_64bits(bytes.baseAddress, bytes.count) }

    /// 32 hexadecimal digits, the same on every machine and after every restart (XXH3, 128 bits).
    package static func hex(of bytes: [UInt8]) -> [UInt8] {
        let hash = XXH3_128bits(bytes, bytes.count)
        let digits = Array("0123456789abcdef".utf8)
        return [hash.high64, hash.low64].flatMap { half in
            (0..<16).map { digits[Int(half >> UInt64(60 - $0 * 4) & 15)] }
        }
    }
}
