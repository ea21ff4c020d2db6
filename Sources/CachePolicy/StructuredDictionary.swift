// Reads a dictionary of RFC 9651 (§4.2) in one pass: the parser of the package that reads the other structured fields looks for each key among
// all before it, and takes a time that grows with the square of their number. Of values only those are told apart that a directive may have;
// all others, and all parameters, are only checked, since one mistake anywhere has the whole field ignored.

import HTTPCore

struct StructuredDictionary {
    enum Value: Equatable {
        case integer(Int64)
        case boolean(Bool)
        case string
        /// Of another type, or a list.
        case other
    }

    /// Of several members of one name the last counts.
    private(set) var members: [String: Value] = [:]
    private let text: [UInt8]
    private var position = 0

    /// nil where the text is no dictionary. An empty one is.
    init?(_ text: [UInt8]) {
        self.text = text
        guard readMembers() else { return nil }
    }

    private var next: UInt8? { position < text.count ? text[position] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    /// - Parameter fits: the bytes that are skipped.
    /// - Returns: how many there were.
    private mutating func skip(_ fits: (UInt8) -> Bool) -> Int {
        let start = position
        while let byte = next, fits(byte) { position += 1 }
        return position - start
    }

    private mutating func skipSpaces() { _ = skip { $0 == 0x20 } }

    private mutating func skipWhiteSpace() { _ = skip { $0 == 0x20 || $0 == 0x09 } }

    // MARK: Members

    private mutating func readMembers() -> Bool {
        skipSpaces()
        while next != nil {
            guard let key = readKey(), let value = readMemberValue() else { return false }
            members[key] = value
            skipWhiteSpace()
            guard next != nil else { return true }
            guard take(UInt8(ascii: ",")) else { return false }
            skipWhiteSpace()
            // A comma at the end.
            guard next != nil else { return false }
        }
        return true
    }

    private mutating func readKey() -> String? {
        let start = position
        guard let first = next, Self.isLower(first) || first == UInt8(ascii: "*") else { return nil }
        _ = skip { Self.isLower($0) || $0.isASCIIDigit || $0 == 0x5f || $0 == 0x2d || $0 == 0x2e || $0 == 0x2a }
        return String(decoding: text[start..<position], as: UTF8.self)
    }

    private static func isLower(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z") }

    private mutating func readMemberValue() -> Value? {
        var value: Value? = .boolean(true)
        if take(UInt8(ascii: "=")) { value = take(UInt8(ascii: "(")) ? readInnerList() : readBareItem() }
        guard let value, readParameters() else { return nil }
        return value
    }

    private mutating func readParameters() -> Bool {
        while take(UInt8(ascii: ";")) {
            skipSpaces()
            guard readKey() != nil else { return false }
            if take(UInt8(ascii: "=")), readBareItem() == nil { return false }
        }
        return true
    }

    /// Behind its opening parenthesis.
    private mutating func readInnerList() -> Value? {
        while next != nil {
            skipSpaces()
            if take(UInt8(ascii: ")")) { return .other }
            guard readBareItem() != nil, readParameters(), next == 0x20 || next == UInt8(ascii: ")") else { return nil }
        }
        return nil
    }

    // MARK: Items

    private mutating func readBareItem() -> Value? {
        guard let first = next else { return nil }
        switch first {
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return readNumber()
        case 0x22: return readString()
        case UInt8(ascii: ":"): return readBytes()
        case UInt8(ascii: "?"): return readBoolean()
        case UInt8(ascii: "@"):
            position += 1
            if case .integer? = readNumber() { return .other }
            return nil
        case UInt8(ascii: "%"): return readDisplayString()
        case _ where first.isASCIILetter || first == UInt8(ascii: "*"):
            _ = skip { isTokenByte($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }
            return .other
        default: return nil
        }
    }

    /// Integers have 15 digits at most, decimals 12 and behind the point 1 to 3.
    private mutating func readNumber() -> Value? {
        let isNegative = take(UInt8(ascii: "-"))
        let start = position
        let digits = skip(\.isASCIIDigit)
        guard digits > 0, digits <= 15 else { return nil }
        let magnitude = text[start..<position].reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) }
        guard take(UInt8(ascii: ".")) else { return .integer(isNegative ? -magnitude : magnitude) }
        let fraction = skip(\.isASCIIDigit)
        return digits <= 12 && fraction > 0 && fraction <= 3 ? .other : nil
    }

    private mutating func readString() -> Value? {
        position += 1
        while let byte = next {
            position += 1
            switch byte {
            case 0x22: return .string
            case 0x5c: guard take(0x22) || take(0x5c) else { return nil }
            case 0x20..<0x7f: continue
            default: return nil
            }
        }
        return nil
    }

    private mutating func readBytes() -> Value? {
        position += 1
        _ = skip { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "=") }
        return take(UInt8(ascii: ":")) ? .other : nil
    }

    private mutating func readBoolean() -> Value? {
        position += 1
        if take(UInt8(ascii: "1")) { return .boolean(true) }
        return take(UInt8(ascii: "0")) ? .boolean(false) : nil
    }

    /// UTF-8, of which what is not ASCII, and the quote and the percent sign, are percent-encoded in lower case.
    private mutating func readDisplayString() -> Value? {
        position += 1
        guard take(0x22) else { return nil }
        var decoded: [UInt8] = []
        while let byte = next {
            position += 1
            switch byte {
            case 0x22: return String(validating: decoded, as: UTF8.self) == nil ? nil : .other
            case UInt8(ascii: "%"):
                guard let high = readHexDigit(), let low = readHexDigit() else { return nil }
                decoded.append(high << 4 | low)
            case 0x20..<0x7f: decoded.append(byte)
            default: return nil
            }
        }
        return nil
    }

    private mutating func readHexDigit() -> UInt8? {
        guard let byte = next, let value = byte.hexValue, byte.isASCIIDigit || Self.isLower(byte) else { return nil }
        position += 1
        return value
    }
}
