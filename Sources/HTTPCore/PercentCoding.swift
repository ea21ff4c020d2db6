// Percent-encoding (RFC 3986 §2.1) for the texts of Cistern's own interfaces. Cache keys use a separate canonical form.

public enum PercentCoding {
    /// Decodes a text; nil if a percent sign encodes nothing, or the bytes are not UTF-8.
    public static func decode(_ text: some Collection<UInt8>, plusIsSpace: Bool) -> String? {
        var out: [UInt8] = []
        var iterator = text.makeIterator()
        while let byte = iterator.next() {
            if byte == UInt8(ascii: "%") {
                guard let high = iterator.next()?.hexValue, let low = iterator.next()?.hexValue else { return nil }
                out.append(high << 4 | low)
            } else {
                out.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
            }
        }
        return String(validating: out, as: UTF8.self)
    }

    /// Encodes everything except unreserved characters.
    public static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var out: [UInt8] = []
        for byte in text.utf8 {
            if byte.isASCIILetter || byte.isASCIIDigit || [0x2d, 0x2e, 0x5f, 0x7e].contains(byte) {
                out.append(byte)
            } else {
                out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
