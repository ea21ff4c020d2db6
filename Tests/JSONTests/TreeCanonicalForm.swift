// Reference implementation of the canonical form. It builds each value's form separately and combines them. Slow and simple, for comparison
// with `CanonicalJSON`.

import HTTPCore

enum TreeCanonicalForm {
    static func make(_ text: [UInt8]) -> [UInt8]? {
        text.withUnsafeBufferPointer { bytes in
            var reading = TreeReading(text: bytes)
            guard let value = reading.value(depth: 0), reading.isAtEnd else { return nil }
            return value
        }
    }
}

/// Reads an unchecked text, and returns the canonical form of each value.
private struct TreeReading {
    let text: UnsafeBufferPointer<UInt8>
    private var position = 0

    private static let depthLimit = 64

    init(text: UnsafeBufferPointer<UInt8>) {
        self.text = text
    }

    var isAtEnd: Bool {
        mutating get {
            skipSpace()
            return position == text.count
        }
    }

    private var current: UInt8? { position < text.count ? text[position] : nil }

    private mutating func skipSpace() {
        while let byte = current, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { position += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        skipSpace()
        guard current == byte else { return false }
        position += 1
        return true
    }

    mutating func value(depth: Int) -> [UInt8]? {
        guard depth < Self.depthLimit else { return nil }
        skipSpace()
        switch current {
        case UInt8(ascii: "{"): return object(depth)
        case UInt8(ascii: "["): return array(depth)
        case UInt8(ascii: "\""): return string().map(Self.quoted)
        case UInt8(ascii: "t"): return literal("true")
        case UInt8(ascii: "f"): return literal("false")
        case UInt8(ascii: "n"): return literal("null")
        default: return number()
        }
    }

    private mutating func literal(_ word: StaticString) -> [UInt8]? {
        let count = word.utf8CodeUnitCount
        guard position + count <= text.count else { return nil }
        for index in 0..<count where text[position + index] != word.utf8Start[index] { return nil }
        position += count
        return [UInt8](UnsafeBufferPointer(start: word.utf8Start, count: count))
    }

    private mutating func object(_ depth: Int) -> [UInt8]? {
        position += 1
        var members: [(name: [UInt8], value: [UInt8])] = []
        if take(UInt8(ascii: "}")) { return Array("{}".utf8) }
        repeat {
            skipSpace()
            guard current == UInt8(ascii: "\""), let name = string(), take(UInt8(ascii: ":")), let value = value(depth: depth + 1) else {
                return nil
            }
            members.append((name, value))
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { return nil }
        members.sort { Self.quoted($0.name).lexicographicallyPrecedes(Self.quoted($1.name)) }
        for index in members.indices.dropFirst() where members[index].name == members[index - 1].name { return nil }
        var out: [UInt8] = [UInt8(ascii: "{")]
        for (index, member) in members.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            out += Self.quoted(member.name)
            out.append(UInt8(ascii: ":"))
            out += member.value
        }
        out.append(UInt8(ascii: "}"))
        return out
    }

    private mutating func array(_ depth: Int) -> [UInt8]? {
        position += 1
        var out: [UInt8] = [UInt8(ascii: "[")]
        if take(UInt8(ascii: "]")) { return Array("[]".utf8) }
        repeat {
            guard let value = value(depth: depth + 1) else { return nil }
            if out.count > 1 { out.append(UInt8(ascii: ",")) }
            out += value
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { return nil }
        out.append(UInt8(ascii: "]"))
        return out
    }

    // MARK: Numbers

    private mutating func number() -> [UInt8]? {
        let start = position
        if current == UInt8(ascii: "-") { position += 1 }
        guard let first = current, first.isASCIIDigit else { return nil }
        position += 1
        if first != 0x30 { skipDigits() }
        if current == UInt8(ascii: ".") {
            position += 1
            guard current?.isASCIIDigit == true else { return nil }
            skipDigits()
        }
        if let byte = current, byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") {
            position += 1
            if let sign = current, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { position += 1 }
            guard current?.isASCIIDigit == true else { return nil }
            skipDigits()
        }
        return Self.canonical(Array(text[start..<position]))
    }

    private mutating func skipDigits() {
        while current?.isASCIIDigit == true { position += 1 }
    }

    /// Numbers of up to 15 digits have a canonical spelling (`1`, `1.0` and `1e0` are equal), except subnormal ones. Others keep their
    /// text.
    private static func canonical(_ digits: [UInt8]) -> [UInt8] {
        let significant = digits.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }.count(where: \.isASCIIDigit)
        guard significant <= 15, let value = Double(String(decoding: digits, as: UTF8.self)), value.isNormal || value == 0 else {
            return digits
        }
        // Minus zero becomes zero. A value too small for a double keeps its text.
        if value == 0 {
            let isZero = digits.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }.allSatisfy { !(0x31...0x39).contains($0) }
            return isZero ? [0x30] : digits
        }
        if value.magnitude < 0x1p53, let whole = Int64(exactly: value) { return Array(String(whole).utf8) }
        return Array(value.description.utf8)
    }

    // MARK: Strings

    /// Content of a string as UTF-8; nil if invalid.
    private mutating func string() -> [UInt8]? {
        position += 1
        var out: [UInt8] = []
        while let byte = current {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(validating: out, as: UTF8.self) == nil ? nil : out
            case UInt8(ascii: "\\"):
                guard let scalar = escape() else { return nil }
                out += Array(String(Character(scalar)).utf8)
            case 0..<0x20: return nil
            default: out.append(byte)
            }
        }
        return nil
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard let byte = current else { return nil }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return unicode()
        default: return nil
        }
    }

    private mutating func unicode() -> Unicode.Scalar? {
        guard let first = hex() else { return nil }
        guard (0xd800..<0xdc00).contains(first) else { return Unicode.Scalar(first) }
        guard position + 1 < text.count, text[position] == UInt8(ascii: "\\"), text[position + 1] == UInt8(ascii: "u") else { return nil }
        position += 2
        guard let second = hex(), (0xdc00..<0xe000).contains(second) else { return nil }
        return Unicode.Scalar(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    private mutating func hex() -> UInt32? {
        guard position + 4 <= text.count else { return nil }
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = text[position].hexValue else { return nil }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    private static func quoted(_ meaning: [UInt8]) -> [UInt8] {
        var out: [UInt8] = [0x22]
        for byte in meaning {
            switch byte {
            case 0x22, 0x5c: out += [0x5c, byte]
            case 0..<0x20: out += Array("\\u00".utf8) + [byte >> 4 == 0 ? 0x30 : 0x31, Array("0123456789abcdef".utf8)[Int(byte & 15)]]
            default: out.append(byte)
            }
        }
        out.append(0x22)
        return out
    }
}
