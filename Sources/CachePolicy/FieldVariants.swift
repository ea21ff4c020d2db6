// Tracks the stored responses of each key that differ in unknown fields. It limits their number, so that one client's variants do not
// displace those of other clients. It also names the field that prevented a hit.

import HTTPCore

/// Not thread-safe: the owner synchronizes access.
public struct FieldVariants: Sendable {
    /// Maximum number of variants of one key.
    public static let limit = 64
    /// Maximum number of variants of all keys. Beyond it, another key is forgotten: its variants stay in the store and are counted again
    /// from zero.
    static let totalLimit = 16_384

    public struct Variant: Sendable {
        public let hash: UInt64
        /// Number for the client that caused the fetch.
        public let client: UInt64
        /// The fields that separate the variant, with numbers for their values.
        public let fields: [NamedValue]
        fileprivate var used: UInt64 = 0

        public init(hash: UInt64, client: UInt64, fields: [NamedValue]) { (self.hash, self.client, self.fields) = (hash, client, fields) }
    }

    public struct NamedValue: Sendable, Equatable {
        public let name: ByteKey
        public let value: UInt64

        public init(_ name: ByteKey, _ value: UInt64) { (self.name, self.value) = (name, value) }
    }

    private var variants: [UInt64: [Variant]] = [:]
    private var total = 0
    private var time: UInt64 = 0

    public init() {}

    /// Records that a variant has been stored.
    /// - Parameter key: number for the key.
    /// - Returns: hash of the variant to remove; nil if none.
    public mutating func note(_ variant: Variant, of key: UInt64) -> UInt64? {
        time += 1
        var (variant, own) = (variant, variants[key] ?? [])
        variant.used = time
        defer { variants[key] = own }
        if let index = own.firstIndex(where: { $0.hash == variant.hash }) {
            own[index] = variant
            return nil
        }
        own.append(variant)
        total += 1
        if total > Self.totalLimit { forgetAny(but: key) }
        guard own.count > Self.limit else { return nil }
        let counts = Dictionary(own.map { ($0.client, 1) }, uniquingKeysWith: +)
        // If two clients have equally many variants, that of the new variant loses one.
        let rank = { (count: (key: UInt64, value: Int)) in (count.value, count.key == variant.client ? 1 : 0) }
        let most = counts.max { rank($0) < rank($1) }
        guard let client = most?.key,
            let index = own.indices.filter({ own[$0].client == client }).min(by: { own[$0].used < own[$1].used })
        else { return nil }
        total -= 1
        return own.remove(at: index).hash
    }

    private mutating func forgetAny(but key: UInt64) {
        guard let other = variants.keys.first(where: { $0 != key }) else { return }
        total -= variants.removeValue(forKey: other)?.count ?? 0
    }

    /// Returns the names of the fields in which a request differs from the most similar variant; empty if there is no other variant.
    public func differences(of fields: [NamedValue], hash: UInt64, from key: UInt64) -> [ByteKey] {
        let others = (variants[key] ?? []).filter { $0.hash != hash }
        return others.map { Self.differences(fields, $0.fields) }.min { $0.count < $1.count } ?? []
    }

    private static func differences(_ one: [NamedValue], _ other: [NamedValue]) -> [ByteKey] {
        let different = one.filter { !other.contains($0) } + other.filter { !one.contains($0) }
        var names: [ByteKey] = []
        for field in different where !names.contains(field.name) { names.append(field.name) }
        return names
    }
}
