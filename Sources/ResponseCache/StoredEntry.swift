// A stored response as the administrator sees it: its key in readable form, its head, its tags.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore

/// Names one stored response, for as long as it is stored under its key: 32 hexadecimal digits.
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
    /// The copy's own key, where this says that it is gone.
    let keyBytes: [UInt8]
    private let item: StoredItem

    /// nil where the item is no response of this kind, or damaged. Whether clients can get it, `ResponseCache.entry` says.
    init?(_ listed: ListedItem, _ keyBytes: [UInt8], _ key: StoredKey, as kind: StoredKind = .response) {
        guard var metadata = ResponseCache.metadata(of: listed.item, as: kind), let head = StoredHead.parse(listed.item.head) else {
            return nil
        }
        if listed.item.isMarkedStale { metadata.flags.insert(.markedStale) }
        item = listed.item.confirmed(&metadata)
        self.keyBytes = keyBytes
        (id, self.key, self.metadata) = (EntryID(listed.id), key, metadata)
        self.head = item.note == 0 ? head : StoredHead.parse(item.head) ?? head
    }

    mutating func markStale() { metadata.flags.insert(.markedStale) }

    /// Where it stands in the order of all.
    public var place: EntryPlace { EntryPlace(target: key.readableTarget, id: id) }
    public var tags: [String] { CacheTags.tags(of: head.fields) }
    public var contentBytes: Int { item.form.plainBytes }
    /// The coding that it has in the store, and its length with it.
    public var coding: ContentCoding { ContentCoding(number: item.form.coding) ?? .identity }
    public var codedBytes: Int { item.body.count }
    /// Whether a request's content, its unknown fields, the host or fields that the operator named are part of the key.
    public var isKeyedByMore: Bool {
        // What the upstream says of its arguments stands in the response too.
        key.unknownFieldsHash != nil
            || KeyParts.read(key.extra).map { $0.contains { !KeyExtra.isScheme($0) && !RememberedVariance.isEncoded(Array($0)) } } ?? true
    }
    /// Without that coding; nil where it is damaged, or there is no memory.
    public var content: [UInt8]? {
        withExtendedLifetime(item.owner) {
            coding == .identity ? Array(item.body) : PieceDecoder(coding)?.decode(item.body, count: contentBytes)
        }
    }
}
