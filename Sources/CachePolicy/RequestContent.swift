// Canonical form of a request's content for cache keys: for QUERY (RFC 10008 §2.7), and for POST requests that only read. Different
// spellings of one call have one identity, except for numbers: an upstream with typed parsing may refuse `7.0` where it accepts `7`. The
// upstream receives the client's bytes.

import HTTPCore
import JSON

public enum RequestContent {
    /// Returns the meaning of the content with the fields that describe it, each part with its length. Returns nil if the response must not
    /// be stored: QUERY without Content-Type, GraphQL that changes data, or POST content that may change data.
    /// - Parameters:
    ///   - target: path and query; several servers search the query of a POST for GraphQL first.
    ///   - rules: the route's rules for arguments; they also apply to form content.
    public static func identity(
        method: Method, target: ArraySlice<UInt8> = [], fields: Fields, content: Span<UInt8>, rules: ArgumentRules?
    ) -> [UInt8]? {
        guard !GraphQLRequest.changesSomething(form: target.dropFirst(target.withoutQuery.count + 1), inTarget: true) else { return nil }
        let type = fields.first(.contentType)
        guard type != nil || method != .query else { return nil }
        let isPlain = !fields.contains(.contentEncoding)
        guard !mayChange(method, content, type.flatMap(MediaType.init), isPlain: isPlain) else { return nil }
        return said(method: method, fields: fields, content: content, rules: rules)
    }

    /// Returns the part of a cache key that replaces an identity that is too long.
    public static func short(_ method: Method, digest: [UInt8]) -> [UInt8] {
        var identity: [UInt8] = []
        CacheKey.appendPart(method.bytes, to: &identity)
        return identity + digest
    }

    /// The content in an identity, without the parts before it.
    public static func content(in identity: [UInt8]) -> ArraySlice<UInt8> {
        var start = 0
        for _ in 0..<4 where start + 4 <= identity.count { start += 4 + Int(identity.span.littleEndian(at: start, as: UInt32.self)) }
        return identity[min(start + 4, identity.count)...]
    }

    /// Returns the identity without checking whether the request changes data.
    /// - Parameter keepsNumbers: whether `7` and `7.0` differ.
    public static func said(
        method: Method, fields: Fields, content: Span<UInt8>, rules: ArgumentRules?, keepsNumbers: Bool = true
    ) -> [UInt8] {
        let type = fields.first(.contentType)
        var identity: [UInt8] = []
        CacheKey.appendPart(method.bytes, to: &identity)
        let media = type.flatMap(MediaType.init)
        let isPlain = !fields.contains(.contentEncoding)
        let isCanonical = isPlain && (media?.isForm == true || media?.isJSON == true)
        let parts = isPlain ? type.flatMap { MultipartForm.canonical(Array(copying: content), type: $0, rules: rules) } : nil
        if parts != nil {
            // No field value contains a zero byte, so no client can send this type.
            CacheKey.appendPart(Array("multipart/form-data\0".utf8), to: &identity)
        } else {
            CacheKey.appendPart(isCanonical && isUsual(type) ? (media?.essence ?? []) : Array(type ?? []), to: &identity)
        }
        for name in ["content-encoding", "content-language"] {
            CacheKey.appendPart(fields.combined(named: Array(name.utf8)), to: &identity)
        }
        CacheKey.appendPart(parts ?? (isPlain ? meaning(content, media, rules, keepsNumbers) : Array(copying: content)), to: &identity)
        return identity
    }

    /// Whether a media type has no parameter but the encoding that JSON and forms have anyway. Some servers decode content by `charset`, so
    /// with another one it has another meaning.
    private static func isUsual(_ type: ArraySlice<UInt8>?) -> Bool {
        let compact = (type ?? []).filter { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") && $0 != UInt8(ascii: "\"") }
        let parameters = compact.drop { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") }
        return parameters.isEmpty || parameters.map(\.asciiLowercased).elementsEqual(";charset=utf-8".utf8)
    }

    private static func meaning(_ content: Span<UInt8>, _ media: MediaType?, _ rules: ArgumentRules?, _ keepsNumbers: Bool) -> [UInt8] {
        if media?.isForm == true {
            var canonical: [UInt8] = []
            CacheKey.appendArguments(content, to: &canonical, rules: rules)
            return canonical
        }
        return (media?.isJSON == true ? CanonicalJSON.make(content, keepsNumbers: keepsNumbers) : nil) ?? Array(copying: content)
    }

    /// Returns whether the content may change data. QUERY is safe by definition (RFC 10008 §2), so unreadable content of QUERY counts as
    /// safe; that of POST does not.
    private static func mayChange(_ method: Method, _ content: Span<UInt8>, _ media: MediaType?, isPlain: Bool) -> Bool {
        guard isPlain else { return method != .query }
        guard let media else { return GraphQLRequest.changesSomething(json: content) ?? false }
        if media.isGraphQL { return GraphQLDocument.changesSomething(content) }
        if media.isForm { return GraphQLRequest.changesSomething(form: Array(copying: content)) }
        if media.isJSON { return GraphQLRequest.changesSomething(json: content) ?? (method != .query) }
        // Multipart content, or a type that some servers ignore.
        return GraphQLRequest.changesSomething(json: content)
            ?? (GraphQLDocument.changesSomething(anywhereIn: content) || GraphQLRequest.namesDocument(anywhereIn: content))
    }
}

extension MediaType {
    public var isForm: Bool { isEssence("application/x-www-form-urlencoded") }
    fileprivate var isGraphQL: Bool { isEssence("application/graphql") }
}

extension Fields {
    fileprivate func combined(named name: [UInt8]) -> [UInt8] {
        Array(all(named: name.span).joined(separator: [UInt8(ascii: ",")]))
    }
}
