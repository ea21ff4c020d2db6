// How many requests of one client address are under way, so that one client cannot crowd out the rest. Only those that need the upstream count.

import Addresses
import Locking

package final class AddressBudget: Sendable {
    /// Of one address (of IPv6: one /64 network).
    private let limit: Int
    private let trustedProxies: NetworkList
    /// Only of those who have some: so it is bounded as requests are.
    private let requests = Mutex<[UInt128: Int]>([:])

    /// nil where there is no limit.
    package init?(limit: Int, trustedProxies: NetworkList) {
        guard limit > 0 else { return nil }
        (self.limit, self.trustedProxies) = (limit, trustedProxies)
    }

    /// One request that is under way, until it is let go.
    package final class Place: Sendable {
        private let budget: AddressBudget
        private let client: UInt128

        fileprivate init(_ budget: AddressBudget, _ client: UInt128) { (self.budget, self.client) = (budget, client) }

        deinit {
            budget.requests.withLock { requests in
                guard let count = requests[client] else { return }
                requests[client] = count > 1 ? count - 1 : nil
            }
        }
    }

    package func isFull(for client: ClientAddress) -> Bool {
        guard let client = client.counted(besides: trustedProxies) else { return false }
        return requests.withLock { $0[client, default: 0] >= limit }
    }

    /// Counts one more; nil where the address does not count.
    package func take(_ client: ClientAddress) -> Place? {
        guard let client = client.counted(besides: trustedProxies) else { return nil }
        requests.withLock { $0[client, default: 0] += 1 }
        return Place(self, client)
    }
}
