// Finds the entity tag of the stored response that a client of a conditional write may have received.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// Returns the entity tag of the stored GET response to a request's target, in the request's partition; empty if it has none, or if a
    /// write has removed it. nil if neither such a response nor a write is in memory.
    public func currentTag(for head: RequestHead) -> [UInt8]? {
        let get = head.asCompleteGet
        if let found = try? find(get).result.found { return found.withHead { Array(copying: $0.extracting(found.metadata.etag)) } }
        let mark = Self.invalidationKey(credentialFreeKey(of: get.pathAndQuery, for: get))
        return store.lookUp(mark.span) == nil ? nil : []
    }
}
