// What is in hand of a stored response while its request is being answered, and what becomes of it when the upstream confirms it.

import CachePolicy
import CacheStore
import HTTPCore

/// A stored response that was found for a request. A class, since it is handed from hand to hand: its parts are more than 200 bytes.
final class FoundResponse {
    let item: StoredItem
    let metadata: StoredMetadata
    /// The whole key: of the variant, where there are several.
    let key: [UInt8]

    init(item: StoredItem, metadata: StoredMetadata, key: [UInt8]) {
        self.item = item
        self.metadata = metadata
        self.key = key
    }
}

/// The upstream has said that a stored response still holds: the same with its head brought up to date.
struct Confirmation {
    let found: FoundResponse
    let head: [UInt8]
    let metadata: StoredMetadata
    /// Those of the 304, for the client that caused it.
    let cookies: [ArraySlice<UInt8>]
}
