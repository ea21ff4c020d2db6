// Numbers all requests to the upstream in the order in which they are sent, to determine which of two responses is more recent.

import CachePolicy
import Synchronization

public final class SentRequests: Sendable {
    /// Used by all shards.
    private let last = Atomic(UInt64.random(in: SentOrder.beginnings))

    public init() {}

    public func next() -> SentOrder { SentOrder(number: last.wrappingAdd(1, ordering: .relaxed).newValue) }
}
