// Detects GraphQL requests that change or may change data. Their responses are never stored, regardless of the route's settings. Documents
// are scanned for operations only, not parsed in full.

import HTTPCore
import JSON

/// The operations of a GraphQL document.
enum GraphQLDocument {
    struct Operations: Equatable {
        /// True if one of them is a query.
        var reads = false
        /// True if one of them is a mutation or a subscription.
        var changes = false
    }

    /// Finds operation keywords outside of braces, strings and comments, followed by braces. Braces without a keyword are a query.
    static func operations(in document: Span<UInt8>) -> Operations {
        var found = Operations()
        var depth = 0
        var index = 0
        var mayChange = false
        // True if the current definition began without a keyword or with `query`; nil before a definition begins.
        var isQuery: Bool?
        while index < document.count, !found.changes {
            let byte = document[index]
            switch byte {
            case UInt8(ascii: "#"):
                while index < document.count, document[index] != 0x0a, document[index] != 0x0d { index += 1 }
            case UInt8(ascii: "\""): index = endOfString(document, from: index)
            case UInt8(ascii: "{"), UInt8(ascii: "("):
                if mayChange { found.changes = true }
                if depth == 0, byte == UInt8(ascii: "{"), isQuery ?? true { found.reads = true }
                depth += 1
                index += 1
            case UInt8(ascii: "}"), UInt8(ascii: ")"):
                depth = max(0, depth - 1)
                if depth == 0, byte == UInt8(ascii: "}") { isQuery = nil }
                index += 1
            case _ where depth == 0 && isNameByte(byte):
                let start = index
                while index < document.count, isNameByte(document[index]) { index += 1 }
                let word = document.extracting(start..<index)
                if word.equals("mutation") || word.equals("subscription") { mayChange = true }
                if isQuery == nil { isQuery = word.equals("query") }
            default: index += 1
            }
        }
        return found
    }

    static func changesSomething(_ document: Span<UInt8>) -> Bool { operations(in: document).changes }

    /// Searches content with unknown document boundaries. Prefers false positives to false negatives.
    static func changesSomething(anywhereIn content: Span<UInt8>) -> Bool {
        // An operation consists of a keyword, a name, variables, directives, and then the braces.
        var foundKeyword = false
        for index in content.indices {
            switch content[index] {
            case UInt8(ascii: "m"): foundKeyword = foundKeyword || begins("mutation", content, index)
            case UInt8(ascii: "s"): foundKeyword = foundKeyword || begins("subscription", content, index)
            case UInt8(ascii: "{"): if foundKeyword { return true }
            case 0x09, 0x0a, 0x0d: break
            case 0..<0x20: foundKeyword = false
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

    /// Returns the index after the string that begins at `start`. A string is enclosed in quotes on one line. A block string is enclosed in
    /// triple quotes, and a backslash in it escapes only triple quotes.
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

/// Members and arguments that identify a stored document on the server, or that accompany one. A document referenced by identifier may be
/// of any operation type.
enum GraphQLName {
    /// Names in lower case.
    private static let ofDocuments: Set<String> = [
        "docid", "doc_id", "documentid", "document_id", "queryid", "query_id", "queryhash", "query_hash", "operationid", "operation_id",
        "operationname", "operation_name", "persistedquery", "persisted_query", "namedquery", "sha256hash",
    ]
    /// Names that count in content only: in a target they may belong to any API.
    private static let ofContent: Set<String> = ["id", "hash", "variables"]
    private static let longest = 16

    /// - Parameter name: in any case, because several servers compare names without regard to case.
    static func isOfDocument(_ name: some Collection<UInt8>, inTarget: Bool = false) -> Bool {
        guard name.count <= longest else { return false }
        let name = String(decoding: name.map(\.asciiLowercased), as: UTF8.self)
        return ofDocuments.contains(name) || (!inTarget && ofContent.contains(name))
    }
}

/// A request that may hold GraphQL: JSON with a `query`, an array of such objects, or form content with one. A request that identifies a
/// stored document counts as one that changes data, unless it also contains the text of a query.
enum GraphQLRequest {
    /// Returns whether JSON content changes data; nil if the content is not a JSON text.
    static func changesSomething(json content: Span<UInt8>) -> Bool? {
        guard [.valid, .validScalar].contains(JSONTextChecker.check(content)) else { return nil }
        var search = ChangeSearch()
        JSONWalk.through(content) { token, meaning in
            search.take(token, meaning)
            return !search.isFound
        }
        return search.isFound
    }

    /// Returns whether form content or the query of a target changes data.
    static func changesSomething(form content: some Collection<UInt8>, inTarget: Bool = false) -> Bool {
        // Some servers also separate arguments by semicolons.
        changesSomething(content.split(separator: UInt8(ascii: "&")), inTarget)
            || changesSomething(content.split { $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }, inTarget)
    }

    private static func changesSomething(_ arguments: [some Collection<UInt8>], _ inTarget: Bool) -> Bool {
        var request = GraphQLParts()
        for argument in arguments {
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            guard let meant = PercentCoding.decode(name, plusIsSpace: true)?.lowercased() else { continue }
            if GraphQLName.isOfDocument(meant.utf8, inTarget: inTarget) { request.namesDocument = true }
            guard ["query", "operations", "extensions"].contains(meant) else { continue }
            guard let value = PercentCoding.decode(argument.dropFirst(name.count + 1), plusIsSpace: true) else { return true }
            switch meant {
            case "query": request.take(document: Array(value.utf8).span)
            case "operations": if changesSomething(json: Array(value.utf8).span) ?? false { return true }
            default: if value.lowercased().contains("persistedquery") { request.namesDocument = true }
            }
        }
        return request.mayChange
    }

    /// Returns whether content of unknown structure may identify a stored document. Prefers false positives to false negatives.
    static func namesDocument(anywhereIn content: Span<UInt8>) -> Bool {
        var start: Int?
        for index in content.indices {
            let byte = content[index]
            if byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "_") { continue }
            if let begun = start, [0x22, 0x3b, 0x0d, 0x0a].contains(byte), index - begun <= 32,
                GraphQLName.isOfDocument((begun..<index).map { content[$0] })
            {
                return true
            }
            start = byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "=") ? index + 1 : nil
        }
        return false
    }
}

/// Facts about one request, collected from its members or arguments.
private struct GraphQLParts {
    var namesDocument = false
    private var hasQuery = false
    private var hasOther = false
    private(set) var changes = false

    mutating func take(document: Span<UInt8>) {
        let operations = GraphQLDocument.operations(in: document)
        changes = changes || operations.changes
        if operations.reads { hasQuery = true } else { hasOther = true }
    }

    /// Records a `query` member that is not a string.
    mutating func takeOther() { hasOther = true }

    /// If a request has several `query` members, the server may use any of them.
    var mayChange: Bool { changes || (namesDocument && (!hasQuery || hasOther)) }
}

/// Searches a JSON text for requests that change data. A request is an object that is nested in arrays only.
private struct ChangeSearch {
    private enum Member {
        case query, extensions, other
    }

    private(set) var isFound = false
    private var depth = 0
    /// Nesting depth of the members of the current request object, and of its `extensions` object; nil outside of them.
    private var requestDepth: Int?
    private var extensionsDepth: Int?
    private var member = Member.other
    private var parts = GraphQLParts()

    mutating func take(_ token: JSONToken, _ meaning: (Range<Int>) -> [UInt8]) {
        let isQuery = depth == requestDepth && member == .query
        switch token {
        case .name(let range): takeName(range, meaning)
        case .string(let range) where isQuery:
            parts.take(document: meaning(range).span)
            if parts.changes { isFound = true }
        case .string, .number, .literal: if isQuery { parts.takeOther() }
        case .beginArray:
            if isQuery { parts.takeOther() }
            depth += 1
        case .beginObject:
            if isQuery { parts.takeOther() }
            beginObject()
        case .endArray: depth -= 1
        case .endObject: endObject()
        }
    }

    private mutating func takeName(_ range: Range<Int>, _ meaning: (Range<Int>) -> [UInt8]) {
        guard depth == requestDepth || depth == extensionsDepth else { return }
        let name = meaning(range)
        if depth == extensionsDepth {
            if name[...].equalsIgnoringCase("persistedQuery") { parts.namesDocument = true }
            return
        }
        member = name[...].equalsIgnoringCase("query") ? .query : name[...].equalsIgnoringCase("extensions") ? .extensions : .other
        if GraphQLName.isOfDocument(name) { parts.namesDocument = true }
    }

    private mutating func beginObject() {
        if requestDepth == nil {
            (requestDepth, parts) = (depth + 1, GraphQLParts())
        } else if depth == requestDepth, member == .extensions {
            extensionsDepth = depth + 1
        }
        depth += 1
    }

    private mutating func endObject() {
        if depth == extensionsDepth { extensionsDepth = nil }
        if depth == requestDepth {
            if parts.mayChange { isFound = true }
            requestDepth = nil
        }
        depth -= 1
    }
}
