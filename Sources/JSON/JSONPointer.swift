// Places in a JSON text (RFC 6901), and a search for several of them in one pass.

import HTTPCore

/// A JSON Pointer: `/data/0/id`; the empty one is the whole text.
public struct JSONPointer: Sendable, Equatable {
    let tokens: [[UInt8]]

    /// nil where the text is no pointer: it is neither empty nor begins with `/`, or `~` is followed by neither 0 nor 1 (§3).
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

    /// An index is digits without a leading zero (§4).
    static func index(_ token: [UInt8]) -> Int? {
        guard !token.isEmpty, token.count <= 9, token.allSatisfy(\.isASCIIDigit), token == [0x30] || token[0] != 0x30 else { return nil }
        return token.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}

extension JSONPointer {
    /// What lies there; nil where nothing does.
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

    /// Which of the places hold a value, `null` too; the same order.
    /// - Parameter text: that `JSONTextChecker` has called valid.
    public static func found(_ pointers: [JSONPointer], in text: Span<UInt8>) -> [Bool] {
        text.withUnsafeBufferPointer { text in
            var search = PointerSearch(pointers)
            var cursor = JSONCursor(text)
            while search.isOpen, let token = cursor.next() { search.take(token, text) }
            return search.found
        }
    }
}

/// Follows each pointer down the text. At every level there is one way at most, since a repeated name counts where it stands first: who
/// has left that way has lost.
private struct PointerSearch {
    private struct Trail {
        let tokens: [[UInt8]]
        /// The levels gone down.
        var depth = 0
        /// The container that it stands in: an array's next element, nil in an object.
        var element: Int?
        /// In an object, whether the next value is the one.
        var isNext = false
        /// nil while it is open.
        var isFound: Bool?
    }

    private var trails: [Trail]
    private var depth = 0
    private var scratch: [UInt8] = []
    /// Trails that are not decided.
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

    /// A trail at depth n stands in the container that its first n - 1 tokens lead to, and looks for the n-th.
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

    /// Whether the value that begins is what the trail's token names.
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
