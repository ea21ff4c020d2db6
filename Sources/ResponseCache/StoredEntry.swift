// A stored response as shown to the administrator: its key in readable form, its head, its tags.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore

/// Identifies a stored response as long as it is stored under its key: 32 hexadecimal digits.
public struct EntryID: Sendable, Comparable, CustomStringConvertible {
    let item: StoredItemID

    init(_ item: StoredItemID) { self.item = item }

    public init?(_ text: some StringProtocol) {
        guard let item = StoredItemID(text) else { return nil }
        self.item = item
    }

    public var description: String { item.description }

    public static func < (left: EntryID, right: EntryID) -> Bool { left.item < right.item }
}

public struct StoredEntry {
    public let id: EntryID
    public let key: StoredKey
    public private(set) var metadata: StoredMetadata
    public let head: ResponseHead
    /// Key of the stored response; for a gone record, that of the response next to it.
    let keyBytes: [UInt8]
    private let item: StoredItem

    /// nil if the item is not a response of this kind, or is damaged. `ResponseCache.entry` decides whether clients can receive it.
    init?(_ listed: ListedItem, _ keyBytes: [UInt8], _ key: StoredKey, as kind: StoredKind = .response) {
        guard var metadata = ResponseCache.metadata(of: listed.item, as: kind), let head = StoredHead.parse(listed.item.head.span) else {
            return nil
        }
        if listed.item.isMarkedStale { metadata.flags.insert(.markedStale) }
        item = listed.item.confirmed(&metadata)
        self.keyBytes = keyBytes
        (id, self.key, self.metadata) = (EntryID(listed.id), key, metadata)
        self.head = item.note == 0 ? head : StoredHead.parse(item.head.span) ?? head
    }

    mutating func markStale() { metadata.flags.insert(.markedStale) }

    public var tags: [String] { CacheTags.tags(of: head.fields) }
    public var contentBytes: Int { item.form.plainBytes }
    /// Coding of the stored content, and its coded length in bytes.
    public var coding: ContentCoding { ContentCoding(number: item.form.coding) ?? .identity }
    public var codedBytes: Int { item.body.count }
    /// Whether the key contains the request's content, unknown fields, the host, or fields that the operator added.
    public var isKeyedByMore: Bool {
        // No-Vary-Search in the key does not count, because the response shows it.
        key.unknownFieldsHash != nil
            || KeyParts.read(key.extra).map { $0.contains { !KeyExtra.isScheme($0) && !RememberedVariance.isEncoded(Array($0)) } } ?? true
    }
    /// The content without its stored coding; nil if it is damaged, or memory is exhausted.
    public var content: [UInt8]? {
        withExtendedLifetime(item.owner) {
            coding == .identity ? Array(item.body) : PieceDecoder(coding)?.decode(item.body, count: contentBytes)
        }
    }
}
