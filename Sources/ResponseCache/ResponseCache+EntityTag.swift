// Finds the entity tag of the stored response that a client of a conditional write may have received.

import CachePolicy
import Forwarding
import HTTPCore

extension ResponseCache {
    /// Returns the entity tag of the stored GET response to a request's target, in the request's partition; nil if no such response is in
    /// memory.
    public func knownTag(for head: RequestHead) -> KnownTag? {
        guard let found = try? find(head.asCompleteGet).result.found, !found.metadata.isNegative else { return nil }
        let (flags, range) = (found.metadata.flags, found.metadata.etag)
        let tag = found.withHead { Array(copying: $0.extracting(range)) }
        if flags.contains(.ownTag) { return .own(tag) }
        return .upstream(flags.contains(.weakenedETag) ? Array(tag.dropFirst(2)) : tag)
    }
}
