// A stored response together with the request's view of it.

import CachePolicy
import CacheStore
import HTTPCore

/// A stored response that was found for a request. A class, because its parts are more than 200 bytes and it is passed along often.
public final class FoundResponse {
    /// The item with the Date of the last confirmation.
    let item: StoredItem
    /// Metadata with the times of the last confirmation, whether written to the store or not.
    public let metadata: StoredMetadata
    /// The complete key; for a variant, that of the variant.
    public let key: [UInt8]
    /// The item as read from the store. Its bytes may have been evicted from memory since.
    let written: StoredItem
    /// Metadata as written to the store.
    let writtenMetadata: StoredMetadata
    /// Second in which a lookup could read the item without waiting (`ResidencyTrust.now`).
    let foundAt: Int

    init(item: StoredItem, metadata: StoredMetadata, key: [UInt8]) {
        var metadata = metadata
        written = item
        writtenMetadata = metadata
        foundAt = ResidencyTrust.now
        self.item = item.confirmed(&metadata)
        self.metadata = metadata
        self.key = key
    }

    private init(_ other: FoundResponse, staleBy flag: StoredFlags) {
        var stale = other.metadata
        stale.flags.insert(flag)
        metadata = stale
        (item, key, written) = (other.item, other.key, other.written)
        (writtenMetadata, foundAt) = (other.writtenMetadata, other.foundAt)
    }

    private init(holdingHeadOf other: FoundResponse) {
        item = other.item.holdingHead
        (metadata, key, written) = (other.metadata, other.key, other.written)
        (writtenMetadata, foundAt) = (other.writtenMetadata, other.foundAt)
    }

    var head: UnsafeBufferPointer<UInt8> { item.head }
    /// Calls `body` with the stored head.
    public func withHead<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        withExtendedLifetime(self) {
            let head = item.head
            return body(head.span)
        }
    }
    /// The content as stored, with its coding if it has one.
    public var content: UnsafeRawBufferPointer { item.body }
    public var coding: ContentCoding { ContentCoding(number: item.form.coding) ?? .identity }
    /// Length of the content without its coding, in bytes.
    public var contentBytes: Int { item.form.plainBytes }
    /// Identifies the content; unique during the lifetime of the process.
    public var contentNumber: UInt64 { item.contentNumber }
    /// Owns the memory of head and content. Must be retained while they are used.
    public var owner: AnyObject { item.owner }

    /// This response marked stale, because another node may have purged it.
    var unconfirmed: FoundResponse { FoundResponse(self, staleBy: .unseen) }

    /// This response marked stale, because the requesting script may not be permitted to read it.
    public var ofOtherOrigin: FoundResponse { FoundResponse(self, staleBy: .ofOtherOrigin) }

    /// This response with a head that stays in memory, for use during a fetch.
    public var holdingHead: FoundResponse { FoundResponse(holdingHeadOf: self) }
}

extension ContentCoding {
    /// Number of the coding in the store (`ContentForm.coding`). It is written to records and must never change.
    var number: UInt8 {
        switch self {
        case .identity: 0
        case .gzip: 1
        case .brotli: 2
        case .zstd: 3
        }
    }

    /// Later versions may have more codings.
    static let lastNumber: UInt8 = 3

    init?(number: UInt8) {
        switch number {
        case 0: self = .identity
        case 1: self = .gzip
        case 2: self = .brotli
        case 3: self = .zstd
        default: return nil
        }
    }
}

extension StoredItem {
    /// Returns the item after its last confirmation, which may not have been written to the store.
    /// - Parameter metadata: metadata read from the item; it is updated.
    func confirmed(_ metadata: inout StoredMetadata) -> StoredItem {
        guard note != 0 else { return self }
        let date = metadata.date
        ConfirmationNote.apply(note, to: &metadata)
        guard metadata.date != date, let head = StoredHead.redated(head.span, metadata.date) else { return self }
        return replacingHead(head)
    }
}
