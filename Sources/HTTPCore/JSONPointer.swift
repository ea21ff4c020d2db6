// Whether a JSON text has a value at a place (RFC 6901). Walks through the text once, by its bytes, and makes nothing of the rest.

/// A JSON Pointer: `/data/0/id`; the empty one is the whole text.
package struct JSONPointer: Sendable, Equatable {
    private let tokens: [[UInt8]]

    /// nil where the text is no pointer: it is neither empty nor begins with `/`, or `~` is followed by neither 0 nor 1 (§3).
    package init?(_ text: String) {
        guard text.isEmpty || text.hasPrefix("/") else { return nil }
        var tokens: [[UInt8]] = []
        for part in text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst() {
            var token: [UInt8] = []
            var rest = Array(part)[...]
            while let byte = rest.popFirst() {
                guard byte == UInt8(ascii: "~") else {
                    token.append(byte)
                    continue
                }
                switch rest.popFirst() {
                case UInt8(ascii: "0"): token.append(UInt8(ascii: "~"))
                case UInt8(ascii: "1"): token.append(UInt8(ascii: "/"))
                default: return nil
                }
            }
            tokens.append(token)
        }
        self.tokens = tokens
    }

    /// Whether there is a value, `null` too.
    /// - Parameter text: a valid JSON text.
    package func exists(in text: Span<UInt8>) -> Bool {
        text.withUnsafeBufferPointer { bytes in
            var walk = JSONWalk(bytes)
            for token in tokens {
                guard walk.enter(token) else { return false }
            }
            return walk.isAtValue
        }
    }
}

/// A place in a JSON text that has been found valid. Never reads beyond its end, even if it has not.
private struct JSONWalk {
    private let text: UnsafeBufferPointer<UInt8>
    private var position = 0

    init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        skipSpace()
    }

    private var current: UInt8? { position < text.count ? text[position] : nil }

    var isAtValue: Bool { current != nil }

    private mutating func skipSpace() {
        while let byte = current, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { position += 1 }
    }

    /// Goes to the member or element that the token names.
    mutating func enter(_ token: [UInt8]) -> Bool {
        switch current {
        case UInt8(ascii: "{"): enterObject(token)
        case UInt8(ascii: "["): enterArray(token)
        default: false
        }
    }

    private mutating func enterObject(_ name: [UInt8]) -> Bool {
        position += 1
        skipSpace()
        while current == UInt8(ascii: "\"") {
            let isWanted = readString(equals: name)
            skipSpace()
            guard current == UInt8(ascii: ":") else { return false }
            position += 1
            skipSpace()
            if isWanted { return true }
            skipValue()
            guard skipComma() else { return false }
        }
        return false
    }

    /// An index is digits without a leading zero (§4).
    private mutating func enterArray(_ token: [UInt8]) -> Bool {
        guard !token.isEmpty, token.count <= 9, token.allSatisfy(\.isASCIIDigit), token == [0x30] || token[0] != 0x30 else { return false }
        let index = token.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        position += 1
        skipSpace()
        guard current != UInt8(ascii: "]") else { return false }
        for _ in 0..<index {
            skipValue()
            guard skipComma() else { return false }
        }
        return current != nil
    }

    /// Returns false where the container ends.
    private mutating func skipComma() -> Bool {
        skipSpace()
        guard current == UInt8(ascii: ",") else { return false }
        position += 1
        skipSpace()
        return true
    }

    private mutating func skipValue() {
        switch current {
        case UInt8(ascii: "\""): _ = readString(equals: [])
        case UInt8(ascii: "{"), UInt8(ascii: "["): skipContainer()
        default:
            while let byte = current, byte != UInt8(ascii: ","), byte != UInt8(ascii: "]"), byte != UInt8(ascii: "}"), byte > 0x20 {
                position += 1
            }
        }
    }

    private mutating func skipContainer() {
        var depth = 0
        while let byte = current {
            switch byte {
            case UInt8(ascii: "\""):
                _ = readString(equals: [])
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
            position += 1
            if depth == 0 { return }
        }
    }

    /// Reads a string and compares what it means, escapes undone.
    private mutating func readString(equals wanted: [UInt8]) -> Bool {
        position += 1
        var meant: [UInt8] = []
        while let byte = current, byte != UInt8(ascii: "\"") {
            position += 1
            if byte != UInt8(ascii: "\\") {
                if meant.count <= wanted.count { meant.append(byte) }
            } else if let escaped = readEscape(), meant.count <= wanted.count {
                meant += Array(String(Character(escaped)).utf8)
            }
        }
        position += 1
        return meant == wanted
    }

    private mutating func readEscape() -> Unicode.Scalar? {
        guard let byte = current else { return nil }
        position += 1
        switch byte {
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return readUnicode()
        default: return Unicode.Scalar(byte)
        }
    }

    private mutating func readUnicode() -> Unicode.Scalar {
        guard let first = readHex() else { return "\u{fffd}" }
        guard (0xd800..<0xdc00).contains(first) else { return Unicode.Scalar(first) ?? "\u{fffd}" }
        guard current == UInt8(ascii: "\\"), position + 1 < text.count, text[position + 1] == UInt8(ascii: "u") else { return "\u{fffd}" }
        position += 2
        guard let second = readHex(), (0xdc00..<0xe000).contains(second) else { return "\u{fffd}" }
        return Unicode.Scalar(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)) ?? "\u{fffd}"
    }

    private mutating func readHex() -> UInt32? {
        guard position + 4 <= text.count else { return nil }
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = text[position].hexValue else { return nil }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }
}
