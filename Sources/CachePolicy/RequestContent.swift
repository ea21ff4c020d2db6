// What a request's content means for the key, where the answer depends on it: QUERY (RFC 10008 §2.7) and POST that only reads. The same call
// in another spelling has one identity; the upstream gets the client's own bytes.

import HTTPCore

package enum RequestContent {
    /// What the content says, with the fields that describe it, each part with its length. nil where the answer must not be kept: QUERY
    /// without a Content-Type, or GraphQL that changes something.
    /// - Parameter rules: what the route says of arguments; form content is arguments too.
    package static func identity(
        method: Method, fields: Fields, content: Span<UInt8>, rules: ArgumentRules?
    ) -> [UInt8]? {
        let type = fields.first(.contentType)
        guard type != nil || method != .query else { return nil }
        var identity: [UInt8] = []
        CacheKey.appendPart(method.bytes, to: &identity)
        let media = type.flatMap(MediaType.init)
        let isPlain = !fields.contains(.contentEncoding)
        let isForm = media?.isForm == true
        let isCanonical = isPlain && (isForm || media?.isJSON == true)
        let parts = isPlain ? type.flatMap { MultipartForm.canonical(Array(copying: content), type: $0, rules: rules) } : nil
        if parts != nil {
            // No field's value has a zero byte, so this is no client's own spelling.
            CacheKey.appendPart(Array("multipart/form-data\0".utf8), to: &identity)
        } else {
            // The parameters of these two types say nothing (RFC 8259 §11); of others they may.
            CacheKey.appendPart(isCanonical ? (media?.essence ?? []) : Array(type ?? []), to: &identity)
        }
        for name in ["content-encoding", "content-language"] {
            CacheKey.appendPart(fields.combined(named: Array(name.utf8)), to: &identity)
        }
        guard let meaning = parts ?? (isPlain ? meaning(content, media, rules) : Array(copying: content)) else { return nil }
        CacheKey.appendPart(meaning, to: &identity)
        return identity
    }

    private static func meaning(_ content: Span<UInt8>, _ media: MediaType?, _ rules: ArgumentRules?) -> [UInt8]? {
        guard let media else { return Array(copying: content) }
        if media.isForm {
            var canonical: [UInt8] = []
            CacheKey.appendArguments(content, to: &canonical, rules: rules)
            return canonical
        }
        if media.isGraphQL { return GraphQLDocument.changesSomething(content) ? nil : Array(copying: content) }
        guard media.isJSON else { return Array(copying: content) }
        if let value = JSONValue(Array(copying: content)), GraphQLDocument.changesSomething(value) { return nil }
        return CanonicalJSON.make(content) ?? Array(copying: content)
    }
}

/// The operations of a GraphQL document, as far as a key needs to know.
enum GraphQLDocument {
    /// The same of a request in JSON, or of several in one array. Of a name that is there twice, nobody knows which one counts.
    static func changesSomething(_ request: JSONValue) -> Bool {
        if let batch = request.array { return batch.contains { changesSomething($0) } }
        return request.members?.contains { member in
            guard member.name == "query", let query = member.value.string else { return false }
            let document = Array(query.utf8)
            return changesSomething(document.span)
        } ?? false
    }

    /// Whether any operation is a mutation or a subscription: words outside of all braces, strings and comments.
    static func changesSomething(_ document: Span<UInt8>) -> Bool {
        var depth = 0
        var index = 0
        while index < document.count {
            let byte = document[index]
            index += 1
            switch byte {
            case UInt8(ascii: "#"):
                while index < document.count, document[index] != 0x0a, document[index] != 0x0d { index += 1 }
            case UInt8(ascii: "\""): index = endOfString(document, from: index)
            case UInt8(ascii: "{"), UInt8(ascii: "("): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: ")"): depth -= 1
            case _ where depth == 0 && (byte.isASCIILetter || byte == UInt8(ascii: "_")):
                let start = index - 1
                while index < document.count,
                    document[index].isASCIILetter || document[index].isASCIIDigit || document[index] == UInt8(ascii: "_")
                {
                    index += 1
                }
                let word = document.extracting(start..<index)
                if word.equals("mutation") || word.equals("subscription") { return true }
            default: break
            }
        }
        return false
    }

    /// - Parameter start: behind the first quote. Three of them begin a string that only three of them end.
    private static func endOfString(_ document: Span<UInt8>, from start: Int) -> Int {
        let isBlock = areQuotes(document, at: start, 2)
        let quotes = isBlock ? 3 : 1
        var index = isBlock ? start + 2 : start
        while index < document.count, !areQuotes(document, at: index, quotes) {
            let isEscape = document[index] == UInt8(ascii: "\\") && (!isBlock || areQuotes(document, at: index + 1, quotes))
            index += isEscape ? 1 + quotes : 1
        }
        return index + quotes
    }

    private static func areQuotes(_ document: Span<UInt8>, at start: Int, _ count: Int) -> Bool {
        guard start + count <= document.count else { return false }
        for index in start..<start + count where document[index] != UInt8(ascii: "\"") { return false }
        return true
    }
}

extension MediaType {
    package var essence: [UInt8] { type + [UInt8(ascii: "/")] + subtype }
    fileprivate var isForm: Bool { essence.elementsEqual("application/x-www-form-urlencoded".utf8) }
    fileprivate var isGraphQL: Bool { essence.elementsEqual("application/graphql".utf8) }
}

extension Fields {
    fileprivate func combined(named name: [UInt8]) -> [UInt8] {
        Array(all(named: name.span).joined(separator: [UInt8(ascii: ",")]))
    }
}

extension [UInt8] {
    fileprivate init(copying span: Span<UInt8>) { self = span.withUnsafeBufferPointer { Array($0) } }
}
