// Finds and removes values in a JSON text without building a tree, so that all other bytes stay as they are.

import HTTPCore

/// Range of a value in a JSON text.
public struct JSONValueRange: Equatable, Sendable {
    /// The value, with the quotes of a string.
    public let value: Range<Int>
    /// The value with the name of its member. Equal to `value` outside objects.
    public let member: Range<Int>
}

extension JSONPointer {
    /// Returns the range of the value; nil if there is none. Of several members with one name, the first counts.
    /// - Parameter text: text that `JSONTextChecker` accepted as valid.
    public func range(in text: Span<UInt8>) -> JSONValueRange? {
        text.withUnsafeBufferPointer { text in
            var search = ValueSearch(tokens)
            var cursor = JSONCursor(text)
            while let token = cursor.next(), search.take(token, end: cursor.position, text) {}
            return search.found
        }
    }

    /// Returns the text without the values of the pointers.
    /// - Parameters:
    ///   - pointers: none of them is empty.
    ///   - text: text that `JSONTextChecker` accepted as valid.
    public static func removing(_ pointers: [JSONPointer], from text: [UInt8]) -> [UInt8] {
        let members = pointers.compactMap { $0.range(in: text.span)?.member }.sorted { $0.lowerBound < $1.lowerBound }
        let comma = UInt8(ascii: ",")
        var out: [UInt8] = []
        var position = 0
        // A value within another removed value begins before `position`.
        for member in members where member.lowerBound >= position {
            out += text[position..<member.lowerBound]
            position = member.upperBound
            if let next = text[position...].firstIndex(where: { !JSONScanning.isSpace($0) }), text[next] == comma {
                position = next + 1
            } else if let last = out.lastIndex(where: { !JSONScanning.isSpace($0) }), out[last] == comma {
                out.removeSubrange(last...)
            }
        }
        return out + text[position...]
    }
}

/// Follows one pointer through the text. Containers on the path are those that contain the value.
private struct ValueSearch {
    private let tokens: [[UInt8]]
    /// Number of open containers on the path.
    private var depth = 0
    /// Number of open containers outside the path, or within the value.
    private var inner = 0
    /// Index of the next element if the innermost container on the path is an array; nil in an object.
    private var element: Int?
    /// In an object, whether the next value matches, and the start of its name.
    private var isNext = false
    private var nameStart = 0
    /// Start of the value while its container is open.
    private var start: Int?
    private(set) var found: JSONValueRange?
    private var scratch: [UInt8] = []

    init(_ tokens: [[UInt8]]) { self.tokens = tokens }

    /// - Returns: false if the search has ended.
    mutating func take(_ token: JSONToken, end: Int, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        switch token {
        case .name(let range):
            guard inner == 0, depth > 0 else { return true }
            nameStart = range.lowerBound - 1
            isNext = JSONString.means(tokens[depth - 1], range, in: text, scratch: &scratch)
            return true
        case .string(let range): return takeScalar(range.lowerBound - 1..<min(range.upperBound + 1, text.count))
        case .number(let range), .literal(let range): return takeScalar(range)
        case .beginObject: return open(at: end - 1, isArray: false)
        case .beginArray: return open(at: end - 1, isArray: true)
        case .endObject, .endArray:
            guard inner > 0 else { return false }
            inner -= 1
            guard inner == 0, let start else { return true }
            return finish(start..<end)
        }
    }

    private mutating func takeScalar(_ range: Range<Int>) -> Bool {
        guard inner == 0, isOnPath() else { return true }
        return depth == tokens.count ? finish(range) : false
    }

    private mutating func open(at position: Int, isArray: Bool) -> Bool {
        guard inner == 0, isOnPath() else {
            inner += 1
            return true
        }
        if depth == tokens.count {
            (start, inner) = (position, 1)
        } else {
            depth += 1
            (element, isNext) = (isArray ? 0 : nil, false)
        }
        return true
    }

    private mutating func isOnPath() -> Bool {
        guard depth > 0 else { return true }
        guard let element else { return isNext }
        self.element = element + 1
        return JSONPointer.index(tokens[depth - 1]) == element
    }

    private mutating func finish(_ range: Range<Int>) -> Bool {
        found = JSONValueRange(value: range, member: (depth > 0 && element == nil ? nameStart : range.lowerBound)..<range.upperBound)
        return false
    }
}
