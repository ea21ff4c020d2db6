// What the operator decides about caching, as plain values for the rules.

import HTTPCore

/// How far a stored answer may be used against the letter while the upstream cannot be reached.
package enum Strictness: String, Sendable, CaseIterable {
    /// A stored answer goes out while the upstream fails, even if it said `no-cache`, `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    case rescue
    /// RFC 9111 to the letter.
    case strict
}

package struct CachePolicySettings: Sendable {
    package var strictness = Strictness.rescue
    /// Media types that are kept: `type/subtype`, `+suffix`, or `*` for all. In lower case.
    package var contentTypes: [String] = ["application/json", "+json", "text/json"] {
        didSet { typePatterns = contentTypes.map { Array($0.utf8) } }
    }
    /// The same as bytes, which are compared with each answer.
    private var typePatterns: [[UInt8]] = ["application/json", "+json", "text/json"].map { Array($0.utf8) }
    /// Request fields that carry credentials, in lower case. Each combination of their values has a partition of its own.
    package var credentialFields: [String] = [
        "authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token", "x-csrf-token",
        "x-amz-security-token",
    ]
    /// Request fields that are part of every key, in lower case: for upstreams whose answers depend on them without saying so in Vary.
    package var keyFields: [String] = []

    package init() {}

    /// Whether answers of this media type are kept.
    package func keeps(_ type: MediaType?) -> Bool {
        typePatterns.contains { pattern in
            if pattern == [UInt8(ascii: "*")] { return true }
            guard let type else { return false }
            if pattern.first == UInt8(ascii: "+") { return type.suffix.elementsEqual(pattern.dropFirst()) }
            return pattern.count == type.type.count + 1 + type.subtype.count && pattern.starts(with: type.type)
                && pattern[type.type.count] == UInt8(ascii: "/") && pattern.dropFirst(type.type.count + 1).elementsEqual(type.subtype)
        }
    }
}

extension MediaType {
    /// Whether content of this type must be a JSON text (RFC 8259, RFC 6839 §3.1).
    package var isJSON: Bool {
        subtype.elementsEqual("json".utf8) && (type.elementsEqual("application".utf8) || type.elementsEqual("text".utf8))
            || suffix.elementsEqual("json".utf8)
    }
}
