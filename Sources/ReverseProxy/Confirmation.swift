// What is in hand of a stored response while its request is being answered, and what becomes of it when the upstream confirms it.

import CachePolicy
import CacheStore
import HTTPCore

/// A stored response that was found for a request.
struct FoundResponse {
    let item: StoredItem
    let metadata: StoredMetadata
    /// The whole key: of the variant, where there are several.
    let key: [UInt8]
}

/// The upstream has said that a stored response still holds: the same with its head brought up to date.
struct Confirmation {
    let found: FoundResponse
    let head: [UInt8]
    let metadata: StoredMetadata
    /// Those of the 304, for the client that caused it.
    let cookies: [ArraySlice<UInt8>]
}
