// A stored response in the hands of the request that it was found for.

import CachePolicy
import CacheStore
import HTTPCore

/// A stored response that was found for a request. A class, since it is handed from hand to hand: its parts are more than 200 bytes.
public final class FoundResponse {
    /// With the Date of the last confirmation.
    let item: StoredItem
    /// With the times of the last confirmation, written or not.
    public let metadata: StoredMetadata
    /// The whole key: of the variant, where there are several.
    public let key: [UInt8]
    /// What the store knows it by. Its bytes may have left the memory since it was found.
    let written: StoredItem
    /// As they lie in the store.
    let writtenMetadata: StoredMetadata

    init(item: StoredItem, metadata: StoredMetadata, key: [UInt8]) {
        var metadata = metadata
        written = item
        writtenMetadata = metadata
        self.item = item.confirmed(&metadata)
        self.metadata = metadata
        self.key = key
    }

    private init(_ other: FoundResponse, staleBy flag: StoredFlags) {
        var stale = other.metadata
        stale.flags.insert(flag)
        metadata = stale
        (item, key, written, writtenMetadata) = (other.item, other.key, other.written, other.writtenMetadata)
    }

    private init(holdingHeadOf other: FoundResponse) {
        item = other.item.holdingHead
        (metadata, key, written, writtenMetadata) = (other.metadata, other.key, other.written, other.writtenMetadata)
    }

    public var head: UnsafeRawBufferPointer { item.head }
    /// As it lies in the store: with its coding, where it has one.
    public var content: UnsafeRawBufferPointer { item.body }
    public var coding: ContentCoding { ContentCoding(number: item.form.coding) ?? .identity }
    /// Without it.
    public var contentBytes: Int { item.form.plainBytes }
    /// No other content ever has the same number, as long as the process lives.
    public var contentNumber: UInt64 { item.contentNumber }
    /// Owns the memory of head and content: to be held for as long as they are used.
    public var owner: AnyObject { item.owner }

    /// The same; it is stale, since nobody knows whether it has been purged elsewhere.
    var unconfirmed: FoundResponse { FoundResponse(self, staleBy: .unseen) }

    /// The same; it is stale, since nobody knows whether the script that asks for it may read it.
    public var ofOtherOrigin: FoundResponse { FoundResponse(self, staleBy: .ofOtherOrigin) }

    /// The same with a head that is always in memory: for one who keeps it while the upstream is asked.
    public var holdingHead: FoundResponse { FoundResponse(holdingHeadOf: self) }
}

extension ContentCoding {
    /// By which the store knows it (`ContentForm.coding`): written in records, so it never changes.
    var number: UInt8 {
        switch self {
        case .identity: 0
        case .gzip: 1
        case .brotli: 2
        case .zstd: 3
        }
    }

    /// A later version may know more.
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
    /// The item as its last confirmation left it, where that was not written down.
    /// - Parameter metadata: read from it; brought up to date.
    func confirmed(_ metadata: inout StoredMetadata) -> StoredItem {
        guard note != 0 else { return self }
        let date = metadata.date
        UnwrittenConfirmation.apply(note, to: &metadata)
        guard metadata.date != date, let head = StoredHead.redated(head, metadata.date) else { return self }
        return replacingHead(head)
    }
}
