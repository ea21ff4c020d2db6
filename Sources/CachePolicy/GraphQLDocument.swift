// GraphQL, as far as a key needs to know: whether a request changes something. Then its response is never kept, whatever its route says.

import HTTPCore
import JSON

/// The operations of a GraphQL document.
enum GraphQLDocument {
    /// Whether any operation is a mutation or a subscription: words outside of all braces, strings and comments, with braces behind them.
    static func changesSomething(_ document: Span<UInt8>) -> Bool {
        var depth = 0
        var index = 0
        var hasWord = false
        while index < document.count {
            let byte = document[index]
            switch byte {
            case UInt8(ascii: "#"):
                while index < document.count, document[index] != 0x0a, document[index] != 0x0d { index += 1 }
            case UInt8(ascii: "\""): index = endOfString(document, from: index)
            case UInt8(ascii: "{"), UInt8(ascii: "("):
                if hasWord { return true }
                depth += 1
                index += 1
            case UInt8(ascii: "}"), UInt8(ascii: ")"):
                depth = max(0, depth - 1)
                index += 1
            case _ where depth == 0 && isNameByte(byte):
                let start = index
                while index < document.count, isNameByte(document[index]) { index += 1 }
                let word = document.extracting(start..<index)
                if word.equals("mutation") || word.equals("subscription") { hasWord = true }
            default: index += 1
            }
        }
        return false
    }

    /// The same for content of which it is not known where documents stand in it: rather once too often.
    static func changesSomething(anywhereIn content: Span<UInt8>) -> Bool {
        // A name, variables, directives, and then the braces.
        var hasWord = false
        for index in content.indices {
            switch content[index] {
            case UInt8(ascii: "m"): hasWord = hasWord || begins("mutation", content, index)
            case UInt8(ascii: "s"): hasWord = hasWord || begins("subscription", content, index)
            case UInt8(ascii: "{"): if hasWord { return true }
            case 0x09, 0x0a, 0x0d: break
            case 0..<0x20: hasWord = false
            default: break
            }
        }
        return false
    }

    private static func begins(_ word: StaticString, _ content: Span<UInt8>, _ index: Int) -> Bool {
        let end = index + word.utf8CodeUnitCount
        return end <= content.count && content.extracting(index..<end).equals(word)
    }

    private static func isNameByte(_ byte: UInt8) -> Bool { byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "_") }

    /// Behind the string that begins at `start`: one between quotes on one line, or a block between three of them, where a backslash means
    /// something only before the quotes that would end it.
    private static func endOfString(_ document: Span<UInt8>, from start: Int) -> Int {
        var index = start + 1
        if hasMarks(document, at: start) {
            index = start + 3
            while index < document.count, !hasMarks(document, at: index) {
                index += document[index] == UInt8(ascii: "\\") && hasMarks(document, at: index + 1) ? 4 : 1
            }
            return min(index + 3, document.count)
        }
        while index < document.count, document[index] != UInt8(ascii: "\""), document[index] != 0x0a {
            index += document[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, document.count)
    }

    private static func hasMarks(_ document: Span<UInt8>, at index: Int) -> Bool {
        guard index + 2 < document.count else { return false }
        return document[index] == UInt8(ascii: "\"") && document[index + 1] == UInt8(ascii: "\"")
            && document[index + 2] == UInt8(ascii: "\"")
    }
}

/// A request that may hold GraphQL: JSON with a `query`, several of them in an array, or form content with one.
enum GraphQLRequest {
    /// nil where the content is no JSON text.
    static func changesSomething(json content: Span<UInt8>) -> Bool? {
        guard [.valid, .validScalar].contains(JSONTextChecker.check(content)) else { return nil }
        var search = ChangeSearch()
        JSONWalk.through(content) { token, meaning in
            search.take(token, meaning)
            return !search.isFound
        }
        return search.isFound
    }

    static func changesSomething(form content: [UInt8]) -> Bool {
        content.split(separator: UInt8(ascii: "&")).contains { argument in
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            guard let value = PercentCoding.decode(argument.dropFirst(name.count + 1), plusIsSpace: true) else { return false }
            switch PercentCoding.decode(name, plusIsSpace: true) {
            case "query": return isChange(value)
            case "operations": return changesSomething(json: Array(value.utf8).span) ?? false
            default: return false
            }
        }
    }

    private static func isChange(_ document: String) -> Bool { GraphQLDocument.changesSomething(Array(document.utf8).span) }
}

/// Looks through a JSON text for requests that change something: its objects that stand in nothing but arrays.
private struct ChangeSearch {
    private enum Member {
        case query, extensions, other
    }

    private(set) var isFound = false
    private var depth = 0
    /// Of the members of the request that is open; of those of its `extensions`.
    private var requestDepth: Int?
    private var extensionsDepth: Int?
    private var member = Member.other
    private var hasDocument = false
    private var isPersisted = false

    mutating func take(_ token: JSONToken, _ meaning: (Range<Int>) -> [UInt8]) {
        switch token {
        case .name(let range): takeName(range, meaning)
        case .string(let range) where depth == requestDepth && member == .query:
            hasDocument = true
            if GraphQLDocument.changesSomething(meaning(range).span) { isFound = true }
        case .string, .number, .literal: break
        case .beginArray: depth += 1
        case .beginObject: beginObject()
        case .endArray: depth -= 1
        case .endObject: endObject()
        }
    }

    private mutating func takeName(_ range: Range<Int>, _ meaning: (Range<Int>) -> [UInt8]) {
        if depth == requestDepth {
            let name = meaning(range)
            member = name.elementsEqual("query".utf8) ? .query : name.elementsEqual("extensions".utf8) ? .extensions : .other
        } else if depth == extensionsDepth, meaning(range).elementsEqual("persistedQuery".utf8) {
            isPersisted = true
        }
    }

    private mutating func beginObject() {
        if requestDepth == nil {
            (requestDepth, hasDocument, isPersisted) = (depth + 1, false, false)
        } else if depth == requestDepth, member == .extensions {
            extensionsDepth = depth + 1
        }
        depth += 1
    }

    private mutating func endObject() {
        if depth == extensionsDepth { extensionsDepth = nil }
        if depth == requestDepth {
            // A document that the server knows by its hash may be anything.
            if !hasDocument, isPersisted { isFound = true }
            requestDepth = nil
        }
        depth -= 1
    }
}
