// Base64 (RFC 4648 §4), as archives carry content that is not text.

public enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    public static func encode(_ bytes: [UInt8]) -> String {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            let group = (0..<3).reduce(0) { $0 << 8 | ($1 < count ? Int(bytes[start + $1]) : 0) }
            for place in 0..<4 { out.append(place <= count ? digits[group >> (18 - 6 * place) & 63] : UInt8(ascii: "=")) }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// nil where the text is something else. White space is stepped over.
    public static func decode(_ text: String) -> [UInt8]? {
        let symbols = text.utf8.filter { $0 > 0x20 }
        guard symbols.count % 4 == 0 else { return nil }
        let padding = symbols.suffix(2).count { $0 == UInt8(ascii: "=") }
        var out: [UInt8] = []
        out.reserveCapacity(symbols.count / 4 * 3)
        var group = 0
        for (index, symbol) in symbols.enumerated() {
            let value = index >= symbols.count - padding && symbol == UInt8(ascii: "=") ? 0 : value(of: symbol)
            guard let value else { return nil }
            group = group << 6 | value
            guard index % 4 == 3 else { continue }
            out += [UInt8(truncatingIfNeeded: group >> 16), UInt8(truncatingIfNeeded: group >> 8), UInt8(truncatingIfNeeded: group)]
            group = 0
        }
        return Array(out.dropLast(padding))
    }

    private static func value(of symbol: UInt8) -> Int? {
        switch symbol {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): Int(symbol) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): Int(symbol) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(symbol) + 4
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
