// How many requests of one client address are under way, so that one client cannot crowd out the rest. Only those that need the upstream count.

import Addresses
import Locking

public final class AddressBudget: Sendable {
    /// Of one address (of IPv6: one /64 network).
    private let limit: Int
    private let trustedProxies: NetworkList
    private let counts: AddressCounts

    /// nil where there is no limit.
    /// - Parameter counts: those of a budget before this one, if there was one: what was taken there counts here too.
    public convenience init?(limit: Int, trustedProxies: NetworkList, _ counts: AddressCounts = AddressCounts()) {
        guard limit > 0 else { return nil }
        self.init(of: limit, trustedProxies: trustedProxies, counts)
    }

    /// - Parameter limit: at least 1.
    public init(of limit: Int, trustedProxies: NetworkList, _ counts: AddressCounts = AddressCounts()) {
        (self.limit, self.trustedProxies, self.counts) = (limit, trustedProxies, counts)
    }

    /// One request that is under way, until it is let go.
    public final class Place: Sendable {
        private let counts: AddressCounts
        /// nil where the address does not count.
        private let client: UInt128?

        fileprivate init(_ counts: AddressCounts, _ client: UInt128?) { (self.counts, self.client) = (counts, client) }

        deinit {
            guard let client else { return }
            counts.requests.withLock { requests in
                guard let count = requests[client] else { return }
                requests[client] = count > 1 ? count - 1 : nil
            }
        }
    }

    public func isFull(for client: ClientAddress) -> Bool {
        guard let client = client.counted(besides: trustedProxies) else { return false }
        return counts.requests.withLock { $0[client, default: 0] >= limit }
    }

    /// Counts one more; nil where the address does not count.
    public func take(_ client: ClientAddress) -> Place? {
        guard let client = client.counted(besides: trustedProxies) else { return nil }
        counts.requests.withLock { $0[client, default: 0] += 1 }
        return Place(counts, client)
    }

    /// Counts one more, where the address has fewer than it may, or does not count. nil: it has as many.
    public func takeWithinLimit(_ client: ClientAddress) -> Place? {
        guard let client = client.counted(besides: trustedProxies) else { return Place(counts, nil) }
        let isFree = counts.requests.withLock { requests in
            guard requests[client, default: 0] < limit else { return false }
            requests[client, default: 0] += 1
            return true
        }
        return isFree ? Place(counts, client) : nil
    }
}

/// How many requests of each address are under way.
public final class AddressCounts: Sendable {
    /// Only of those who have some: so it is bounded as requests are.
    fileprivate let requests = Mutex<[UInt128: Int]>([:])

    public init() {}
}
