// The part of a cache key besides upstream, partition and target (`StoredKey.extra`). Encoding and decoding are in this file only, so that
// listing and purging find every key.

import HTTPCore

public struct KeyExtra: Sendable, Equatable {
    /// The parts of keys that depend on the settings.
    public struct Shape: Sendable {
        let hasHost: Bool
        let fieldNames: [[UInt8]]

        public init(hasHost: Bool, fieldNames: [[UInt8]]) { (self.hasHost, self.fieldNames) = (hasHost, fieldNames) }
    }

    /// A field that the operator added to the key. Its name is in the key, so that no response of another field is found after a change of
    /// the settings.
    public struct Field: Sendable, Equatable {
        let name: [UInt8]
        let values: [[UInt8]]

        public init(name: [UInt8], values: [[UInt8]]) { (self.name, self.values) = (name, values) }
    }

    /// Identity of the request's content or of a preflight, or the upstream's No-Vary-Search; nil if none applies.
    public var content: [UInt8]?
    /// In lower case; nil if keys do not contain the host.
    public var host: [UInt8]?
    public var fields: [Field]
    /// Whether the request used https; only if the upstream is informed of the scheme.
    public var isSecure: Bool

    public init(content: [UInt8]? = nil, host: [UInt8]? = nil, fields: [Field] = [], isSecure: Bool = false) {
        (self.content, self.host, self.fields, self.isSecure) = (content, host, fields, isSecure)
    }

    /// Each part is preceded by its length, the values of a field by their number. Keys of requests without TLS contain no scheme, for
    /// compatibility with keys of older versions.
    public var encoded: [UInt8] {
        var bytes: [UInt8] = []
        if let content { CacheKey.appendPart(content, to: &bytes) }
        if let host { CacheKey.appendPart(host, to: &bytes) }
        for field in fields {
            CacheKey.appendPart(field.name, to: &bytes)
            bytes.append(UInt8(truncatingIfNeeded: field.values.count))
            for value in field.values { CacheKey.appendPart(value, to: &bytes) }
        }
        if isSecure { CacheKey.appendPart(Self.secure, to: &bytes) }
        return bytes
    }

    /// Part that states https. It cannot equal a host or a content identity.
    private static let secure = Array(ConnectionField.scheme.utf8)

    /// Returns whether a part states that the request used https.
    public static func isScheme(_ part: ArraySlice<UInt8>) -> Bool { part.elementsEqual(secure) }

    /// nil if the key was made under other settings.
    public init?(_ bytes: [UInt8], _ shape: Shape) {
        // A content identity is not a valid host: it begins with a length, or contains a line feed.
        guard let extra = Self(bytes, shape, hasContent: false) ?? Self(bytes, shape, hasContent: true) else { return nil }
        self = extra
    }

    private init?(_ bytes: [UInt8], _ shape: Shape, hasContent: Bool) {
        self.init()
        var reader = KeyReader(bytes: bytes)
        if hasContent {
            guard let content = reader.part() else { return nil }
            self.content = Array(content)
        }
        if shape.hasHost {
            guard let host = reader.part(), host.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { return nil }
            self.host = Array(host)
        }
        for name in shape.fieldNames {
            guard reader.part()?.elementsEqual(name) == true, let values = reader.values() else { return nil }
            fields.append(Field(name: name, values: values))
        }
        guard !reader.isAtEnd else { return }
        guard let last = reader.part(), Self.isScheme(last), reader.isAtEnd else { return nil }
        isSecure = true
    }
}

extension KeyReader {
    fileprivate mutating func values() -> [[UInt8]]? {
        guard let count = byte() else { return nil }
        var values: [[UInt8]] = []
        for _ in 0..<count {
            guard let value = part() else { return nil }
            values.append(Array(value))
        }
        return values
    }
}
