// Base64 with both alphabets (RFC 4648 §4 and §5).

public enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// Returns Base64 text with padding.
    public static func encode(_ bytes: [UInt8]) -> String {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            let group = (0..<3).reduce(0) { $0 << 8 | ($1 < count ? Int(bytes[start + $1]) : 0) }
            for index in 0..<4 { out.append(index <= count ? digits[group >> (18 - 6 * index) & 63] : UInt8(ascii: "=")) }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// Returns text in the URL-safe alphabet, without padding.
    public static func encodeURL(_ bytes: [UInt8]) -> String {
        String(encode(bytes).compactMap { $0 == "=" ? nil : $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
    }

    /// Decodes Base64 and skips white space. Returns nil unless the text is valid Base64 with padding.
    public static func decode(_ text: String) -> [UInt8]? {
        let symbols = text.utf8.filter { $0 > 0x20 }
        guard symbols.count % 4 == 0 else { return nil }
        let padding = symbols.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return decode(symbols.dropLast(padding), "+/")?.bytes
    }

    /// Decodes the URL-safe alphabet without padding (RFC 7515 §2). Strict, so that each value has exactly one encoding.
    /// - Returns: nil for an invalid symbol, padding, an impossible length, or bits after the last byte.
    public static func decodeURL(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1, let (bytes, rest) = decode(text, "-_"), rest == 0 else { return nil }
        return bytes
    }

    /// - Parameter last: the symbols for 62 and 63.
    /// - Returns: the bytes, and the bits after the last byte; nil for an invalid symbol.
    private static func decode(_ text: some Collection<UInt8>, _ last: StaticString) -> (bytes: [UInt8], rest: UInt32)? {
        var out: [UInt8] = []
        out.reserveCapacity(text.count * 3 / 4)
        var (bits, count) = (UInt32(0), 0)
        for symbol in text {
            let value: UInt32
            switch symbol {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = UInt32(symbol) - 65
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt32(symbol) - 71
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = UInt32(symbol) + 4
            case last.utf8Start[0]: value = 62
            case last.utf8Start[1]: value = 63
            default: return nil
            }
            bits = bits << 6 | value
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            out.append(UInt8(truncatingIfNeeded: bits >> count))
            bits &= 1 << count - 1
        }
        return (out, bits)
    }
}
