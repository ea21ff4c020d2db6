// Base64 with the alphabet for URLs and no padding (RFC 4648 §5, RFC 7515 §2), read strictly: one text for one value, so that no token can
// be written in two ways.

enum Base64URL {
    /// nil where the text is something else: another symbol, padding, a length that none has, or bits behind the last byte.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(text.count * 3 / 4)
        var (bits, count) = (UInt32(0), 0)
        for symbol in text {
            guard let value = value(of: symbol) else { return nil }
            bits = bits << 6 | value
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            out.append(UInt8(truncatingIfNeeded: bits >> count))
            bits &= 1 << count - 1
        }
        return bits == 0 ? out : nil
    }

    static func encode(_ bytes: [UInt8]) -> String {
        let symbols = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var out: [UInt8] = []
        var (bits, count) = (UInt32(0), 0)
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                out.append(symbols[Int(bits >> UInt32(count) & 63)])
            }
            bits &= 1 << UInt32(count) - 1
        }
        if count > 0 { out.append(symbols[Int(bits << UInt32(6 - count) & 63)]) }
        return String(decoding: out, as: UTF8.self)
    }

    private static func value(of symbol: UInt8) -> UInt32? {
        switch symbol {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(symbol) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(symbol) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(symbol) + 4
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
