// GraphQL, as far as a key needs to know: whether a request changes something. Then its answer is never kept, whatever its route says.

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
    static func changesSomething(anywhereIn content: [UInt8]) -> Bool {
        for word in ["mutation", "subscription"] {
            var rest = content[...]
            while let found = rest.firstRange(of: Array(word.utf8)) {
                rest = rest[found.upperBound...]
                // A name, variables, directives, and then the braces.
                let next = rest.first { $0 == UInt8(ascii: "{") || $0 < 0x20 && $0 != 0x0a && $0 != 0x0d && $0 != 0x09 }
                if next == UInt8(ascii: "{") { return true }
            }
        }
        return false
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
    static func changesSomething(json content: [UInt8]) -> Bool? {
        JSONValue(content).map(changesSomething)
    }

    private static func changesSomething(_ value: JSONValue) -> Bool {
        if let items = value.array { return items.contains(where: changesSomething) }
        guard let members = value.members else { return false }
        let documents = members.filter { $0.name == "query" }.compactMap(\.value.string)
        // A document that the server knows by its hash may be anything.
        let isPersisted = members.contains { $0.name == "extensions" && $0.value["persistedQuery"] != nil }
        return documents.contains(where: isChange) || (documents.isEmpty && isPersisted)
    }

    static func changesSomething(form content: [UInt8]) -> Bool {
        content.split(separator: UInt8(ascii: "&")).contains { argument in
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            guard let value = PercentCoding.decode(argument.dropFirst(name.count + 1), plusIsSpace: true) else { return false }
            switch PercentCoding.decode(name, plusIsSpace: true) {
            case "query": return isChange(value)
            case "operations": return changesSomething(json: Array(value.utf8)) ?? false
            default: return false
            }
        }
    }

    private static func isChange(_ document: String) -> Bool { GraphQLDocument.changesSomething(Array(document.utf8).span) }
}
