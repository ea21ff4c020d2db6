// JSON Pointer (RFC 6901), and a search for several pointers in one pass.

import HTTPCore

/// A JSON Pointer such as `/data/0/id`. The empty pointer refers to the whole text.
public struct JSONPointer: Sendable, Equatable {
    let tokens: [[UInt8]]

    /// nil if the text is not a pointer: it does not begin with `/` although it is not empty, or contains an invalid `~` escape (§3).
    public init?(_ text: String) {
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

    /// Parses an array index: digits without a leading zero (§4). nil for other tokens.
    static func index(_ token: [UInt8]) -> Int? {
        guard !token.isEmpty, token.count <= 9, token.allSatisfy(\.isASCIIDigit), token == [0x30] || token[0] != 0x30 else { return nil }
        return token.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}

extension JSONPointer {
    /// Returns the value at the pointer; nil if there is none.
    public func value(in text: JSONValue) -> JSONValue? {
        var value = text
        for token in tokens {
            switch value {
            case .object:
                guard let member = value[String(decoding: token, as: UTF8.self)] else { return nil }
                value = member
            case .array(let items):
                guard let index = Self.index(token), index < items.count else { return nil }
                value = items[index]
            case .null, .bool, .integer, .number, .string: return nil
            }
        }
        return value
    }

    /// Returns for each pointer whether it refers to a value, including `null`.
    /// - Parameter text: text that `JSONTextChecker` accepted as valid.
    public static func found(_ pointers: [JSONPointer], in text: Span<UInt8>) -> [Bool] {
        text.withUnsafeBufferPointer { text in
            var search = PointerSearch(pointers)
            var cursor = JSONCursor(text)
            while search.isOpen, let token = cursor.next() { search.take(token, text) }
            return search.found
        }
    }
}

/// Follows each pointer through the text. At every level only one branch can match, because only the first member with a repeated name
/// counts. A pointer that leaves its branch is not found.
private struct PointerSearch {
    private struct Trail {
        let tokens: [[UInt8]]
        /// Number of levels descended.
        var depth = 0
        /// Index of the next element if the current container is an array; nil in an object.
        var element: Int?
        /// In an object, whether the next value matches.
        var isNext = false
        /// nil while undecided.
        var isFound: Bool?
    }

    private var trails: [Trail]
    private var depth = 0
    private var scratch: [UInt8] = []
    /// Number of undecided trails.
    private var open: Int

    init(_ pointers: [JSONPointer]) {
        trails = pointers.map { Trail(tokens: $0.tokens) }
        open = trails.count
    }

    var isOpen: Bool { open > 0 }
    var found: [Bool] { trails.map { $0.isFound ?? false } }

    mutating func take(_ token: JSONToken, _ text: UnsafeBufferPointer<UInt8>) {
        switch token {
        case .name(let range): takeName(range, text)
        case .string, .number, .literal: takeValue(opens: false, isArray: false)
        case .beginObject: takeValue(opens: true, isArray: false)
        case .beginArray: takeValue(opens: true, isArray: true)
        case .endObject, .endArray:
            for index in trails.indices where trails[index].isFound == nil && trails[index].depth == depth { decide(index, false) }
            depth -= 1
        }
    }

    private mutating func takeName(_ range: Range<Int>, _ text: UnsafeBufferPointer<UInt8>) {
        for index in trails.indices where depth > 0 && trails[index].isFound == nil && trails[index].depth == depth {
            trails[index].isNext = JSONString.means(trails[index].tokens[depth - 1], range, in: text, scratch: &scratch)
        }
    }

    /// A trail at depth n is in the container that its first n - 1 tokens lead to, and searches for the n-th.
    private mutating func takeValue(opens: Bool, isArray: Bool) {
        for index in trails.indices where trails[index].isFound == nil && trails[index].depth == depth && isWay(index) {
            if trails[index].depth == trails[index].tokens.count {
                decide(index, true)
            } else if opens {
                trails[index].depth += 1
                trails[index].element = isArray ? 0 : nil
                trails[index].isNext = false
            } else {
                decide(index, false)
            }
        }
        if opens { depth += 1 }
    }

    /// Returns whether the value that begins here matches the trail's token.
    private mutating func isWay(_ index: Int) -> Bool {
        guard depth > 0 else { return true }
        guard let element = trails[index].element else { return trails[index].isNext }
        trails[index].element = element + 1
        return JSONPointer.index(trails[index].tokens[depth - 1]) == element
    }

    private mutating func decide(_ index: Int, _ isFound: Bool) {
        trails[index].isFound = isFound
        open -= 1
    }
}
