// Parses cache keys (`CacheKey`) for display, listing and purging by prefix. Keys contain only a keyed hash of the credentials. Values of
// arguments that look like secrets, and of fields that may be secret, are never displayed.

import HTTPCore

public struct StoredKey: Sendable {
    /// Scheme, host, port and base path of the upstream.
    public let authority: [UInt8]
    /// Keyed hash of the request's credentials; empty if there were none.
    public let partition: [UInt8]
    /// Other parts: the request's content, the host, and fields that the operator added. Empty if there are none.
    public let extra: [UInt8]
    /// Path and arguments in canonical form.
    public let target: [UInt8]
    /// For a variant: the generation of its marker, and the selecting fields; nil otherwise.
    public let variant: Variant?
    /// Hash of the request's unknown fields; nil if the response serves requests without any, or all requests.
    public let unknownFieldsHash: UInt64?
    /// Length of the key up to the end of the target.
    public let baseCount: Int
    /// Length of the key without the variant part.
    public let markerCount: Int

    public struct Variant: Sendable {
        public let generation: UInt64
        /// Names and values in order; the value is nil if the request did not have the field.
        public let selecting: [(name: String, value: String?)]

        /// In place of a field's name in the key of an item that the marker supersedes. No field has such a name.
        public static let superseded = ":superseded"
        /// Whether the marker supersedes this item.
        public var isSuperseded: Bool { selecting.first?.name == Self.superseded }
    }

    /// nil if the bytes are not the key of a response or a marker.
    public init?(_ key: [UInt8]) {
        var reader = KeyReader(bytes: key)
        guard reader.take(UInt8(ascii: "G")), let authority = reader.part(), let partition = reader.part(), let extra = reader.part(),
            let path = reader.part()
        else { return nil }
        var target = Array(path)
        if reader.take(UInt8(ascii: "?")) {
            var separator = UInt8(ascii: "?")
            while let argument = reader.argument() {
                target.append(separator)
                target += argument
                separator = UInt8(ascii: "&")
            }
        }
        baseCount = reader.position
        unknownFieldsHash = reader.unknownFieldsHash()
        markerCount = reader.position
        if reader.isAtEnd {
            variant = nil
        } else {
            guard let variant = reader.variant() else { return nil }
            self.variant = variant
        }
        self.authority = Array(authority)
        self.partition = Array(partition)
        self.extra = Array(extra)
        self.target = target
    }

    /// Returns the authority part of keys if there are several APIs. No URL begins like this.
    public static func name(ofAPI name: String) -> [UInt8] { Array("api:\(name)".utf8) }

    /// Name of the API; nil if there is only one.
    public var api: String? {
        let prefix = Self.name(ofAPI: "")
        return authority.starts(with: prefix) ? String(decoding: authority[prefix.count...], as: UTF8.self) : nil
    }

    /// Request method; GET unless the key contains another one.
    public var method: String {
        var parts = KeyReader(bytes: extra)
        // Content identities and preflights begin with their method (`RequestContent.said`, `Preflight.identity`).
        guard let content = parts.part() else { return "GET" }
        var reader = KeyReader(bytes: Array(content))
        guard let method = reader.part(), Self.methods.contains(where: { $0.utf8.elementsEqual(method) }) else { return "GET" }
        return String(decoding: method, as: UTF8.self)
    }

    private static let methods = ["OPTIONS", "POST", "QUERY"]

    /// Path and arguments, with the values of secret arguments redacted.
    public var readableTarget: String { SecretNames.redacted(typedTarget) }

    /// A target that a request can use to reach this key. Keys double a stray percent sign; a request has it once. The character after it
    /// is encoded if it could be read as a hexadecimal digit.
    public var typedTarget: [UInt8] {
        let percent = UInt8(ascii: "%")
        var typed: [UInt8] = []
        typed.reserveCapacity(target.count)
        var rest = target[...]
        while let byte = rest.popFirst() {
            typed.append(byte)
            guard byte == percent, rest.first == percent else { continue }
            rest.removeFirst()
            guard let next = rest.first, next.hexValue != nil else { continue }
            rest.removeFirst()
            typed += Array("%\(Self.hexadecimal([next]))".utf8)
        }
        return typed
    }

    /// First 8 hexadecimal digits of the partition; nil if the partition is empty.
    public var shortPartition: String? { partition.isEmpty ? nil : Self.hexadecimal(partition.prefix(4)) }

    public static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Offset of the target in the key.
    public var targetOffset: Int { 1 + 4 + authority.count + 4 + partition.count + 4 + extra.count }

    /// Returns API and path of a key, or of a mark's key next to it, whatever other parts it has. nil if the bytes are not such a key.
    public static func path(of key: [UInt8]) -> (authority: ArraySlice<UInt8>, path: ArraySlice<UInt8>)? {
        var reader = KeyReader(bytes: key)
        guard reader.take(UInt8(ascii: "G")), let authority = reader.part(), reader.part() != nil, reader.part() != nil,
            let path = reader.part()
        else { return nil }
        return (authority, path)
    }

    /// Returns the partition of a key, whatever follows it; nil if the bytes are not such a key.
    public static func partition(of key: [UInt8]) -> ArraySlice<UInt8>? {
        var reader = KeyReader(bytes: key)
        guard reader.take(UInt8(ascii: "G")), reader.part() != nil else { return nil }
        return reader.part()
    }

    /// Returns the key of the path without arguments, in the same partition.
    public func pathKey(of key: [UInt8]) -> [UInt8] {
        var reader = KeyReader(bytes: key, position: targetOffset)
        guard targetOffset <= key.count, reader.part() != nil else { return key }
        return Array(key[..<reader.position])
    }

    /// Returns the key of this target in the partition without credentials.
    public func credentialFreeKey(of key: [UInt8]) -> [UInt8] {
        let rest = 1 + 4 + authority.count + 4 + partition.count
        guard rest <= baseCount, baseCount <= key.count else { return key }
        var targetKey: [UInt8] = [UInt8(ascii: "G")]
        CacheKey.appendPart(authority, to: &targetKey)
        CacheKey.appendPart([], to: &targetKey)
        return targetKey + key[rest..<baseCount]
    }
}

/// A list of parts, each preceded by its length (`CacheKey.appendPart`).
public enum KeyParts {
    /// nil if the bytes are not such a list.
    public static func read(_ bytes: some Sequence<UInt8>) -> [ArraySlice<UInt8>]? {
        var reader = KeyReader(bytes: Array(bytes))
        var parts: [ArraySlice<UInt8>] = []
        while !reader.isAtEnd {
            guard let part = reader.part() else { return nil }
            parts.append(part)
        }
        return parts
    }
}

/// Reads length-prefixed parts. Functions return nil if the bytes do not contain the requested part.
struct KeyReader {
    let bytes: [UInt8]
    var position = 0

    var isAtEnd: Bool { position == bytes.count }

    mutating func take(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        position += 1
        return bytes[position - 1]
    }

    mutating func part() -> ArraySlice<UInt8>? {
        guard bytes.count - position >= 4 else { return nil }
        let count = (0..<4).reduce(0) { $0 | Int(bytes[position + $1]) << (8 * $1) }
        guard count <= bytes.count - position - 4 else { return nil }
        position += 4 + count
        return bytes[position - count..<position]
    }

    /// Reads an argument, which is visible ASCII. A variant part begins with a letter and a generation, which are not.
    mutating func argument() -> ArraySlice<UInt8>? {
        let start = position
        if let text = part(), text.allSatisfy({ $0 > 0x20 }) { return text }
        position = start
        return nil
    }

    /// nil if the key contains no such hash.
    mutating func unknownFieldsHash() -> UInt64? {
        let rest = bytes[position...]
        guard rest.count >= UnknownFields.suffixBytes, rest.starts(with: UnknownFields.marker) else { return nil }
        let start = position + UnknownFields.marker.count
        position += UnknownFields.suffixBytes
        return (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[start + $1]) << (8 * UInt64($1)) }
    }

    mutating func variant() -> StoredKey.Variant? {
        guard take(UInt8(ascii: "V")), bytes.count - position >= 8 else { return nil }
        let generation = (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[position + $1]) << (8 * UInt64($1)) }
        position += 8
        var selecting: [(name: String, value: String?)] = []
        while !isAtEnd {
            guard let name = part(), position < bytes.count else { return nil }
            let isPresent = bytes[position] != 0
            position += 1
            guard let value = part() else { return nil }
            selecting.append((String(decoding: name, as: UTF8.self), isPresent ? String(decoding: value, as: UTF8.self) : nil))
        }
        return StoredKey.Variant(generation: generation, selecting: selecting)
    }
}
