// Base64 with the alphabet for URLs and no padding (RFC 4648 §5, RFC 7515 §2), read strictly: one text for one value, so that no token can
// be written in two ways.

import HTTPCore

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
        let symbols = Base64.encode(bytes).utf8.lazy.filter { $0 != UInt8(ascii: "=") }
        return String(
            decoding: symbols.map { symbol in
                switch symbol {
                case UInt8(ascii: "+"): UInt8(ascii: "-")
                case UInt8(ascii: "/"): UInt8(ascii: "_")
                default: symbol
                }
            }, as: UTF8.self)
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
