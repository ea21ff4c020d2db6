// Percent-encoding in paths as strict and lenient servers decode it. Lenient servers leave a percent sign that encodes nothing, accept
// overlong UTF-8 and `%u0041`, and drop bytes that are not text.

enum PathDecoding {
    /// Decodes each encoded byte. A percent sign that encodes nothing remains.
    static func decoded(_ text: [UInt8]) -> [UInt8] {
        replacing(text) { text, index in text.encodedByte(at: index).map { ([$0], 3) } }
    }

    /// Decodes a path that was encoded twice once. Returns any other path unchanged.
    static func decodedBefore(_ path: [UInt8]) -> [UInt8] {
        let decoded = decoded(path)
        return decoded.indices.contains { decoded.encodedByte(at: $0) != nil } ? decoded : path
    }

    /// Replaces parts of a path that begin with a percent sign.
    /// - Parameter replacement: returns the new bytes and the length of the part at an index; nil if it stays.
    static func replacing(_ path: [UInt8], _ replacement: ([UInt8], Int) -> (bytes: [UInt8], count: Int)?) -> [UInt8] {
        guard path.contains(UInt8(ascii: "%")) else { return path }
        var out: [UInt8] = []
        out.reserveCapacity(path.count)
        var index = 0
        while index < path.count {
            let part = path[index] == UInt8(ascii: "%") ? replacement(path, index) : nil
            if let part { out += part.bytes } else { out.append(path[index]) }
            index += part?.count ?? 1
        }
        return out
    }

    /// Whether lenient servers may decode the path in other ways than strict ones (`PathReadings.isOpaque`).
    static func isOpaque(_ path: [UInt8]) -> Bool {
        // Number of decoded bytes since a decoded percent sign, while they are hexadecimal digits; nil otherwise.
        var digits: Int?
        var index = 0
        while index < path.count {
            let encoded = path.encodedByte(at: index)
            if encoded == nil, path[index] == UInt8(ascii: "%") { return true }
            if let encoded, encoded.isNotText || path.overlongByte(at: index) != nil { return true }
            let byte = encoded ?? path[index]
            digits = byte == UInt8(ascii: "%") ? 0 : byte.hexValue == nil ? nil : digits.map { $0 + 1 }
            if digits == 2 { return true }
            index += encoded == nil ? 1 : 3
        }
        return false
    }
}

extension UInt8 {
    /// Whether the byte is a control character, or occurs in no UTF-8 text.
    var isNotText: Bool { self < 0x20 || self == 0x7f || self == 0xc0 || self == 0xc1 || self >= 0xf5 }
}

extension [UInt8] {
    /// The byte encoded by a percent sign and two hexadecimal digits; nil if there is none.
    func encodedByte(at index: Int) -> UInt8? {
        guard index + 2 < count, self[index] == UInt8(ascii: "%"), let high = self[index + 1].hexValue, let low = self[index + 2].hexValue
        else { return nil }
        return UInt8(truncatingIfNeeded: Int(high) << 4 | Int(low))
    }

    /// The ASCII character that overlong UTF-8 encodes, and the length of the encoded bytes: `%c0%ae` or `%e0%80%ae` is a dot.
    func overlongByte(at index: Int) -> (byte: UInt8, count: Int)? {
        // Leading bytes that contribute nothing to the value.
        let zeros: Int
        switch encodedByte(at: index) {
        case 0xc0, 0xc1: zeros = 0
        case 0xe0: zeros = 1
        case 0xf0: zeros = 2
        default: return nil
        }
        for step in 1..<Swift.max(zeros, 1) where encodedByte(at: index + 3 * step) != 0x80 { return nil }
        guard let high = encodedByte(at: index + 3 * zeros), let low = encodedByte(at: index + 3 * (zeros + 1)),
            zeros == 0 || high & 0xfe == 0x80
        else { return nil }
        return ((high & 1) << 6 | low & 0x3f, 3 * (zeros + 2))
    }

    /// The ASCII character encoded as `%u0041`; nil if there is none.
    func unicodeByte(at index: Int) -> UInt8? {
        guard index + 5 < count, self[index + 1] | 0x20 == UInt8(ascii: "u"), self[index + 2] == UInt8(ascii: "0"),
            self[index + 3] == UInt8(ascii: "0"), let high = self[index + 4].hexValue, let low = self[index + 5].hexValue, high < 8
        else { return nil }
        return high << 4 | low
    }
}
