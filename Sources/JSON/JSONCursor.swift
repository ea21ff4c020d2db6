// Iterates over the tokens of a JSON text. It copies nothing, keeps only its position and is not recursive, so a text of any length and
// depth costs one pass. It requires a text that `JSONTextChecker` accepted; for other texts the tokens are meaningless, but it never reads
// out of bounds.

import HTTPCore

public enum JSONToken: Equatable {
    case beginObject, endObject, beginArray, endArray
    /// The text between the quotes, with escapes.
    case name(Range<Int>)
    case string(Range<Int>)
    case number(Range<Int>)
    /// `true`, `false` or `null`.
    case literal(Range<Int>)
}

struct JSONCursor {
    let text: UnsafeBufferPointer<UInt8>
    /// Offset after the last token.
    private(set) var position = 0

    init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        // Skips a byte order mark.
        if text.count >= 3, text[0] == 0xef, text[1] == 0xbb, text[2] == 0xbf { position = 3 }
    }

    /// Returns the next token; nil at the end.
    mutating func next() -> JSONToken? {
        while position < text.count {
            let start = position
            position += 1
            switch text[start] {
            case 0x20, 0x0d, 0x09, UInt8(ascii: ","), UInt8(ascii: ":"): continue
            case 0x0a: position = JSONScanning.spacesEnd(text, from: position)
            case UInt8(ascii: "{"): return .beginObject
            case UInt8(ascii: "}"): return .endObject
            case UInt8(ascii: "["): return .beginArray
            case UInt8(ascii: "]"): return .endArray
            case 0x22: return string(from: start + 1)
            case UInt8(ascii: "t"), UInt8(ascii: "f"), UInt8(ascii: "n"): return .literal(scalar(from: start))
            default: return .number(scalar(from: start))
            }
        }
        return nil
    }

    private mutating func string(from start: Int) -> JSONToken {
        var end = JSONScanning.quoteOrEscape(text, from: start)
        while end < text.count, text[end] == 0x5c { end = JSONScanning.quoteOrEscape(text, from: end + 2) }
        end = min(end, text.count)
        position = min(end + 1, text.count)
        // A string followed by a colon is a name.
        while position < text.count, JSONScanning.isSpace(text[position]) { position += 1 }
        guard position < text.count, text[position] == UInt8(ascii: ":") else { return .string(start..<end) }
        position += 1
        return .name(start..<end)
    }

    private mutating func scalar(from start: Int) -> Range<Int> {
        while position < text.count {
            switch text[position] {
            case UInt8(ascii: ","), UInt8(ascii: "]"), UInt8(ascii: "}"), 0x20, 0x0a, 0x0d, 0x09: return start..<position
            default: position += 1
            }
        }
        return start..<position
    }
}

/// Iterates over the tokens of a text, for modules that do not use unsafe memory.
public enum JSONWalk {
    /// Passes each token to `take`, until it returns false.
    /// - Parameters:
    ///   - text: text that `JSONTextChecker` accepted as valid.
    ///   - take: receives the token, and a function that decodes a name or string.
    public static func through(_ text: Span<UInt8>, _ take: (JSONToken, (Range<Int>) -> [UInt8]) -> Bool) {
        text.withUnsafeBufferPointer { text in
            var cursor = JSONCursor(text)
            while let token = cursor.next() {
                guard take(token, { meaning(of: $0, in: text) }) else { return }
            }
        }
    }

    private static func meaning(of range: Range<Int>, in text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        JSONString.appendMeaning(of: range, in: text, to: &out)
        return out
    }
}

/// Decodes strings.
enum JSONString {
    /// Appends the text between the quotes without escapes, as UTF-8.
    /// - Returns: false if there is a lone surrogate (RFC 8259 §8.2), which is replaced by U+FFFD.
    @discardableResult
    static func appendMeaning(of range: Range<Int>, in text: UnsafeBufferPointer<UInt8>, to out: inout [UInt8]) -> Bool {
        var index = range.lowerBound
        var isWhole = true
        while index < range.upperBound {
            let byte = text[index]
            guard byte == 0x5c, index + 1 < range.upperBound else {
                out.append(byte)
                index += 1
                continue
            }
            index += 2
            switch text[index - 1] {
            case UInt8(ascii: "b"): out.append(0x08)
            case UInt8(ascii: "f"): out.append(0x0c)
            case UInt8(ascii: "n"): out.append(0x0a)
            case UInt8(ascii: "r"): out.append(0x0d)
            case UInt8(ascii: "t"): out.append(0x09)
            case UInt8(ascii: "u"):
                let scalar = scalar(in: text, &index, before: range.upperBound)
                isWhole = isWhole && scalar != nil
                if let bytes = UTF8.encode(scalar ?? "\u{fffd}") { out.append(contentsOf: bytes) }
            case let other: out.append(other)
            }
        }
        return isWhole
    }

    /// Returns whether the decoded text between the quotes equals `wanted`.
    static func means(_ wanted: [UInt8], _ range: Range<Int>, in text: UnsafeBufferPointer<UInt8>, scratch: inout [UInt8]) -> Bool {
        let spelt = UnsafeBufferPointer(rebasing: text[range])
        if spelt.count == wanted.count, spelt.elementsEqual(wanted) { return !wanted.contains(0x5c) }
        guard spelt.count > wanted.count, spelt.contains(0x5c) else { return false }
        scratch.removeAll(keepingCapacity: true)
        appendMeaning(of: range, in: text, to: &scratch)
        return scratch == wanted
    }

    /// Decodes one `\u` escape, or two that form a surrogate pair. `index` is after the `u`, and advances past the consumed text. nil for a
    /// lone surrogate.
    private static func scalar(in text: UnsafeBufferPointer<UInt8>, _ index: inout Int, before end: Int) -> Unicode.Scalar? {
        let first = unit(text, &index, before: end)
        guard first & 0xfc00 == 0xd800, index + 1 < end, text[index] == 0x5c, text[index + 1] == UInt8(ascii: "u") else {
            return Unicode.Scalar(first)
        }
        var behind = index + 2
        let second = unit(text, &behind, before: end)
        guard second & 0xfc00 == 0xdc00 else { return nil }
        index = behind
        return Unicode.Scalar(0x10000 + (first & 0x3ff) << 10 + second & 0x3ff)
    }

    private static func unit(_ text: UnsafeBufferPointer<UInt8>, _ index: inout Int, before end: Int) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 where index < end {
            value = value << 4 | UInt32(text[index].hexValue ?? 0)
            index += 1
        }
        return value
    }
}
