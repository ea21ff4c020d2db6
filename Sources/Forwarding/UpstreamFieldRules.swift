// The operator's changes to the fields of requests to the upstream (`upstream.fields`). Values may be secrets, such as API keys, so nothing
// but the request itself contains them. Nodes of a fleet compare hashes of some.

import HTTPCore

public struct UpstreamFieldRules: Sendable, Equatable {
    public struct Field: Sendable, Equatable, CustomStringConvertible {
        public let name: [UInt8]
        fileprivate let value: [UInt8]
        /// Whether the settings contain the value itself, so that it is no key that is renewed.
        fileprivate let isFixed: Bool

        public static func == (one: Field, other: Field) -> Bool { one.name == other.name && one.value == other.value }

        public var description: String { "\(String(decoding: name, as: UTF8.self)): REDACTED" }
    }

    /// Fields that every request has.
    public private(set) var fields: [Field] = []
    /// Names of client fields that are not forwarded, because they are set or removed. As upstreams may read them (`asFieldNameByte`).
    public private(set) var unforwarded: [[UInt8]] = []

    public init() {}

    public var isEmpty: Bool { unforwarded.isEmpty }

    /// - Parameter isFixed: whether the settings contain the value itself, not a reference to it.
    public mutating func set(_ name: [UInt8], to value: [UInt8], isFixed: Bool = false) {
        remove(name)
        fields.append(Field(name: name, value: value, isFixed: isFixed))
    }

    /// Hashes of the fields with fixed values. Nodes of a fleet compare them.
    public var fixed: [UInt64] {
        fields.filter(\.isFixed).map { ContentHash.number(of: ($0.name.map(\.asFieldNameByte) + [UInt8(ascii: ":")] + $0.value).span) }
    }

    public mutating func remove(_ name: [UInt8]) {
        fields.removeAll { $0.name.span.isReadAsName(name.span) }
        let name = name.map(\.asFieldNameByte)
        if !unforwarded.contains(name) { unforwarded.append(name) }
    }

    /// Returns whether clients' fields with this name are not forwarded.
    public func holds(_ name: Span<UInt8>) -> Bool { Self.contains(name, in: unforwarded) }

    /// - Parameter names: names as in `unforwarded`.
    public static func contains(_ name: Span<UInt8>, in names: [[UInt8]]) -> Bool {
        for other in names where name.isReadAsName(other.span) { return true }
        return false
    }

    /// Removes the clients' fields, in any spelling that an upstream may read as one of the names, and adds the operator's.
    func apply(to fields: inout Fields) {
        guard !isEmpty else { return }
        fields.removeAll { entry, bytes in holds(bytes.span.extracting(entry.nameRange)) }
        for field in self.fields { fields.append(name: field.name.span, value: field.value.span) }
    }

    /// Names of the fields that every request has, and of those that no request has.
    public var names: (set: [String], removed: [String]) {
        let removed = unforwarded.filter { name in !fields.contains { $0.name.span.isReadAsName(name.span) } }
        return (fields.map { String(decoding: $0.name, as: UTF8.self) }, removed.map { String(decoding: $0, as: UTF8.self) })
    }

    /// Returns the rules without those for which the condition holds.
    public func without(_ isLeftOut: (_ name: [UInt8]) -> Bool) -> UpstreamFieldRules {
        var rules = self
        rules.fields.removeAll { isLeftOut($0.name.map(\.asFieldNameByte)) }
        rules.unforwarded.removeAll(where: isLeftOut)
        return rules
    }

    /// Returns the rules for a path that the upstream may read as a path of either: it gets only fields that both set, so that no client
    /// can direct a secret to another path.
    public func stricter(_ other: UpstreamFieldRules) -> UpstreamFieldRules {
        var rules = self
        rules.fields.removeAll { !other.fields.contains($0) }
        rules.unforwarded += other.unforwarded.filter { !unforwarded.contains($0) }
        return rules
    }

    // MARK: Permitted names and values

    /// Fields that Cistern manages: framing, connections, conditions, and what it can decode.
    private static let managed: KnownFieldSet = [
        .acceptEncoding, .cdnLoop, .cisternKey, .cisternMode, .cisternStale, .cisternWhy, .connection, .contentEncoding, .contentLength,
        .contentRange, .expect, .host, .http2Settings, .ifMatch, .ifModifiedSince, .ifNoneMatch, .ifRange, .ifUnmodifiedSince, .keepAlive,
        .maxForwards, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization, .proxyConnection, .range, .te, .trailer,
        .transferEncoding, .upgrade, .via,
    ]

    /// Returns whether the text is a field name (RFC 9110 §5.1). `*` is not accepted, because it looks like a pattern.
    public static func isName(_ name: [UInt8]) -> Bool { !name.isEmpty && name.allSatisfy { isTokenByte($0) && $0 != UInt8(ascii: "*") } }

    /// Returns whether Cistern manages the field, in any spelling that an upstream may read as its name.
    public static func isManaged(_ name: [UInt8]) -> Bool {
        let hyphenated = name.map(\.asFieldNameByte)
        return KnownField(hyphenated.span).map(managed.contains) ?? false || ConnectionField.isName(name.span)
    }

    /// Maximum length of a value in bytes.
    public static let valueLimitBytes = 8_192

    /// Returns whether the text is a field value (RFC 9110 §5.5): not empty, without line ends and other control characters, and without
    /// white space at its ends.
    public static func isValue(_ value: [UInt8]) -> Bool {
        guard let first = value.first, let last = value.last, value.count <= valueLimitBytes else { return false }
        return !first.isOptionalWhitespace && !last.isOptionalWhitespace
            && value.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 }
    }
}
