// Finds the entity tag of the stored response that a client of a conditional write may have received.

import CachePolicy
import HTTPCore

extension ResponseCache {
    /// Returns the entity tag that Cistern made for the stored GET response to a request's target, in the request's partition; nil if it
    /// made none, or if no such response is in memory.
    public func ownTag(for head: RequestHead) -> [UInt8]? {
        guard let found = try? find(head.asCompleteGet).result.found, found.metadata.flags.contains(.ownTag) else { return nil }
        return found.withHead { Array(copying: $0.extracting(found.metadata.etag)) }
    }
}
