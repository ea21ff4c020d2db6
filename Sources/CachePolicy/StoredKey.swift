// A key read back (`CacheKey`): what the administrator is shown, and what listing and purging by prefix go by. Credentials are a keyed hash
// in the key already; values of arguments that look like secrets, and of fields that may be, are never shown.

import HTTPCore

public struct StoredKey: Sendable {
    /// Scheme, host, port and base path of the upstream.
    public let authority: [UInt8]
    /// The keyed hash of the request's credentials; empty where there were none.
    public let partition: [UInt8]
    /// What else is in it: the request's content, the host, fields that the operator made part of it. Empty where nothing is.
    public let extra: [UInt8]
    /// Path and arguments in their canonical spelling.
    public let target: [UInt8]
    /// Of a variant: the generation of the marker that leads to it, and the selecting fields.
    public let variant: Variant?
    /// The hash of the request's unknown fields; nil if the response is for requests without any, or for all.
    public let unknownFieldsHash: UInt64?
    /// How long the key is up to the target's end.
    public let baseCount: Int
    /// How long the key is without the variant's part.
    public let markerCount: Int

    public struct Variant: Sendable {
        public let generation: UInt64
        /// Names and values, in order; nil where the request did not have the field.
        public let selecting: [(name: String, value: String?)]
    }

    /// nil where the bytes are not the key of a response or of a marker.
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

    /// What stands for one of several APIs in the place of the upstream. No URL begins so.
    public static func name(ofAPI name: String) -> [UInt8] { Array("api:\(name)".utf8) }

    /// The name of the API, where there are several.
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

    /// Path and arguments, with the values of secret arguments left out.
    public var readableTarget: String { SecretNames.redacted(typedTarget) }

    /// The target as somebody may ask for it and meet this key. Keys have a percent sign that encodes nothing twice, where a request has it once;
    /// what follows it must not be taken for its digits.
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

    /// The first 8 digits of the partition's hash; nil where there is none.
    public var shortPartition: String? { partition.isEmpty ? nil : Self.hexadecimal(partition.prefix(4)) }

    public static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Where the target begins in the key.
    public var targetOffset: Int { 1 + 4 + authority.count + 4 + partition.count + 4 + extra.count }

    /// What a key, or a mark's key beside it, says of API and path, whatever else is in it; nil where the bytes are no such key.
    public static func path(of key: [UInt8]) -> (authority: ArraySlice<UInt8>, path: ArraySlice<UInt8>)? {
        var reader = KeyReader(bytes: key)
        guard reader.take(UInt8(ascii: "G")), let authority = reader.part(), reader.part() != nil, reader.part() != nil,
            let path = reader.part()
        else { return nil }
        return (authority, path)
    }

    /// The key of the path alone, in the same partition.
    public func pathKey(of key: [UInt8]) -> [UInt8] {
        var reader = KeyReader(bytes: key, position: targetOffset)
        guard targetOffset <= key.count, reader.part() != nil else { return key }
        return Array(key[..<reader.position])
    }

    /// The same target's key in the partition of those without credentials.
    public func sharedKey(of key: [UInt8]) -> [UInt8] {
        let rest = 1 + 4 + authority.count + 4 + partition.count
        guard rest <= baseCount, baseCount <= key.count else { return key }
        var shared: [UInt8] = [UInt8(ascii: "G")]
        CacheKey.appendPart(authority, to: &shared)
        CacheKey.appendPart([], to: &shared)
        return shared + key[rest..<baseCount]
    }
}

/// A list of parts, each with its length before it (`CacheKey.appendPart`).
public enum KeyParts {
    /// nil where the bytes are no such list.
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

/// Reads length-prefixed parts; nil where the bytes do not hold what is asked for.
struct KeyReader {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8], position: Int = 0) { (self.bytes, self.position) = (bytes, position) }

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

    /// An argument is in visible ASCII; what begins a variant's part is a letter and a time.
    mutating func argument() -> ArraySlice<UInt8>? {
        let start = position
        if let text = part(), text.allSatisfy({ $0 > 0x20 }) { return text }
        position = start
        return nil
    }

    /// nil where there is none.
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
