// Limits the concurrent requests of one client address, so that one client cannot crowd out all other clients. Only requests that need the
// upstream count.

import Addresses
import Reactor

public final class AddressBudget: Sendable {
    /// Maximum number of concurrent requests of one address (IPv6: of one /64 network).
    private let limit: Int
    private let trustedProxies: NetworkList
    private let counts: AddressCounts

    /// - Parameters:
    ///   - limit: at least 1.
    ///   - counts: counts of an earlier budget, whose active requests are included here.
    public init(of limit: Int, trustedProxies: NetworkList, _ counts: AddressCounts = AddressCounts([:])) {
        (self.limit, self.trustedProxies, self.counts) = (limit, trustedProxies, counts)
    }

    /// One counted request. Deinitialization decrements the count.
    public final class Slot: Sendable {
        private let counts: AddressCounts
        /// nil if requests of this address do not count.
        private let client: UInt128?

        fileprivate init(_ counts: AddressCounts, _ client: UInt128?) { (self.counts, self.client) = (counts, client) }

        deinit {
            guard let client else { return }
            counts.withLock { requests in
                guard let count = requests[client] else { return }
                requests[client] = count > 1 ? count - 1 : nil
            }
        }
    }

    public func isFull(for client: ClientAddress) -> Bool {
        guard let client = client.counted(besides: trustedProxies) else { return false }
        return counts.withLock { $0[client, default: 0] >= limit }
    }

    /// Counts a request. Returns nil if requests of the address do not count.
    public func take(_ client: ClientAddress) -> Slot? {
        guard let client = client.counted(besides: trustedProxies) else { return nil }
        counts.withLock { $0[client, default: 0] += 1 }
        return Slot(counts, client)
    }

    /// Counts a request if the address is below its limit. Returns nil at the limit. Addresses without a limit always get a slot.
    public func takeWithinLimit(_ client: ClientAddress) -> Slot? {
        guard let client = client.counted(besides: trustedProxies) else { return Slot(counts, nil) }
        let isFree = counts.withLock { requests in
            guard requests[client, default: 0] < limit else { return false }
            requests[client, default: 0] += 1
            return true
        }
        return isFree ? Slot(counts, client) : nil
    }
}

/// Number of concurrent requests of each address. Contains only addresses with at least one request, so its size is bounded by the number
/// of requests.
public typealias AddressCounts = Mutex<[UInt128: Int]>
