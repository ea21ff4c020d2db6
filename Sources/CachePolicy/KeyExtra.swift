// What a key holds beside the upstream, the partition and the target (`StoredKey.extra`). It is written and read here and nowhere else, so that all that a
// look-up finds is listed and purged too.

import HTTPCore

public struct KeyExtra: Sendable, Equatable {
    /// What the settings put into keys.
    public struct Shape: Sendable {
        let hasHost: Bool
        let fieldCount: Int

        public init(hasHost: Bool, fieldCount: Int) { (self.hasHost, self.fieldCount) = (hasHost, fieldCount) }
    }

    /// The meaning of the request's content, a preflight's demands, or what the upstream said of its arguments; nil where none of these counts.
    public var content: [UInt8]?
    /// In lower case; nil where the host makes no difference.
    public var host: [UInt8]?
    /// For each field that the operator made part of the key, its values.
    public var fields: [[[UInt8]]]
    /// Whether the request came by https, where the upstream is told so.
    public var isSecure: Bool

    public init(content: [UInt8]? = nil, host: [UInt8]? = nil, fields: [[[UInt8]]] = [], isSecure: Bool = false) {
        (self.content, self.host, self.fields, self.isSecure) = (content, host, fields, isSecure)
    }

    /// Each part is preceded by its length, the values of a field by their number. Without TLS a key is as it was before there was another scheme.
    public var encoded: [UInt8] {
        var bytes: [UInt8] = []
        if let content { CacheKey.appendPart(content, to: &bytes) }
        if let host { CacheKey.appendPart(host, to: &bytes) }
        for values in fields {
            bytes.append(UInt8(truncatingIfNeeded: values.count))
            for value in values { CacheKey.appendPart(value, to: &bytes) }
        }
        if isSecure { CacheKey.appendPart(Self.secure, to: &bytes) }
        return bytes
    }

    /// No host and no content has this spelling.
    private static let secure = Array(ConnectionField.scheme.utf8)

    /// Whether a part of it says that the request came by https.
    public static func isScheme(_ part: ArraySlice<UInt8>) -> Bool { part.elementsEqual(secure) }

    /// nil where the key was made under other settings.
    public init?(_ bytes: [UInt8], _ shape: Shape) {
        // A content identity is no host: it begins with a length, or contains a line feed.
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
        for _ in 0..<shape.fieldCount {
            guard let values = reader.values() else { return nil }
            fields.append(values)
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
