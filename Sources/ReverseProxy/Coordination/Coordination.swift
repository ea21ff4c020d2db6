// State that the requests of one API on a shard share: the failure memory, collapsed requests, leases of the fleet, and budgets.

import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// Used on its shard's loop only. The failure memory, the table of collapsed requests and the budgets are shared by all shards.
final class Coordination {
    let health: UpstreamHealth
    let collapsed: CollapsedRequests
    let keys: ShardKeys
    let level: any FleetStorage
    let modes: ServingModes
    /// Holds responses to writes until their marks are propagated.
    let marks: MarkPropagation
    private let loop: EventLoop
    let routes: Routes
    /// nil if nothing is stored.
    private let surprises: SurpriseMemory?
    /// nil if the number of requests per address is not limited.
    let requestsPerAddress: AddressBudget?
    /// Fetches that continue although their client has disconnected.
    let abandoned: AddressBudget
    let isKeyedByHost: Bool
    /// Number of writes without a response that will invalidate their targets once more. Bounded, because each retains its request.
    var lostWrites = 0
    static let lostWritesLimit = 1_024

    init(_ api: APIState, on shard: Shard, _ keys: ShardKeys) {
        (health, collapsed, routes, surprises) = (api.health, api.collapsed, api.routes, api.cache?.surprises)
        (loop, level, self.keys, modes) = (shard.loop, shard.level, keys, ServingModes(api.modes))
        marks = MarkPropagation(loop: shard.loop, cache: api.cache, peer: api.process.peer, level: shard.level)
        (requestsPerAddress, abandoned) = (api.process.requestsPerAddress, api.abandoned)
        isKeyedByHost = api.settings.forwarding.sendsClientHost
    }

    // MARK: Collapsed requests

    /// Records a write that may have changed data.
    /// - Parameter hasFailed: whether it ended with an error, or without a response.
    func noteWrite(_ request: DecidedRequest, hasFailed: Bool) {
        collapsed.noteWrite(by: request.scopes.user)
        if !hasFailed { surprises?.noteWrite(writer(of: request), now: loop.batchMilliseconds) }
    }

    /// Whether the client of this request wrote to its target recently.
    func hasJustWritten(_ request: DecidedRequest) -> Bool {
        surprises?.hasWritten(writer(of: request), now: loop.batchMilliseconds) ?? false
    }

    /// Returns a number for the client and the path of its request. Without credentials, the client's address identifies the client.
    private func writer(of request: DecidedRequest) -> UInt64 {
        var hasher = Hasher()
        let user = request.scopes.user
        hasher.combine(user == 0 ? request.scopes.client : user)
        hasher.combine(request.head.pathAndQuery.withoutQuery)
        return max(1, UInt64(truncatingIfNeeded: hasher.finalize()))
    }

    /// Ends the lease of a target after a request that does not ask the upstream, so that another node may take the lease. Keeps it while
    /// other requests of this node may ask.
    func endLease(of fetchTarget: FetchTarget?) {
        guard level.isShared, let fetchTarget, fetchTarget.takesLease, !collapsed.isUnderWay(fetchTarget.flight) else { return }
        level.ended(fetchTarget.keys.own, .free, by: 0)
    }
}

/// The modes of an API on a shard: a copy of those that an administrator may change.
final class ServingModes {
    var table: ModeTable { didSet { isLive = table.isLive } }
    /// Whether all modes are `live`. Each request checks this, and access to the table would copy it.
    private(set) var isLive: Bool

    init(_ table: ModeTable) { (self.table, isLive) = (table, table.isLive) }

    /// Whether no request is sent to the upstream.
    var isOffline: Bool { table.all == .offline }
}
