// How many client connections all shards together may have open. The kernel spreads connections over the shards unevenly, so a limit
// for each would turn clients away while there is room elsewhere.

import Locking

package final class ConnectionBudget: Sendable {
    package let limit: Int
    /// Taken by each shard's listener, given back by its connections.
    private let open = Mutex(0)

    package init(limit: Int) { self.limit = limit }

    /// Returns false where the limit is reached.
    func take() -> Bool {
        open.withLock { open in
            guard open < limit else { return false }
            open += 1
            return true
        }
    }

    func giveBack() { open.withLock { $0 -= 1 } }
}
