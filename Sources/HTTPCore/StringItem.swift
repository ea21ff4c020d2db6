// Strings of structured fields.

extension String {
    /// The text as a string of RFC 9651 §3.3.3. Bytes outside of printable ASCII are replaced by `?`.
    public var asStringItem: String {
        var out: [UInt8] = [0x22]
        for byte in utf8 {
            if byte == 0x22 || byte == 0x5c { out.append(0x5c) }
            out.append((0x20..<0x7f).contains(byte) ? byte : UInt8(ascii: "?"))
        }
        return String(decoding: out + [0x22], as: UTF8.self)
    }
}
