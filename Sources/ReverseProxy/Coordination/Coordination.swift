// State that the requests of one API on a shard share: the failure memory, collapsed requests, leases of the fleet, and budgets.

import Addresses
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
    private let routes: Routes
    /// nil if nothing is stored.
    private let surprises: SurpriseMemory?
    /// nil if the number of requests per address is not limited.
    private let requestsPerAddress: AddressBudget?
    private let isKeyedByHost: Bool
    private let maximumConnections: Int
    /// Milliseconds.
    private let firstByteTimeout: Int64

    init(_ api: APIState, on shard: Shard, _ keys: ShardKeys) {
        (health, collapsed, routes, surprises) = (api.health, api.collapsed, api.routes, api.cache?.surprises)
        (loop, level, self.keys, modes) = (shard.loop, shard.level, keys, ServingModes(api.modes))
        marks = MarkPropagation(loop: shard.loop, cache: api.cache, peer: api.process.peer, level: shard.level)
        requestsPerAddress = api.process.requestsPerAddress
        isKeyedByHost = api.settings.forwarding.sendsClientHost
        maximumConnections = api.settings.upstream.maximumConnections
        firstByteTimeout = api.settings.upstream.firstByteTimeout.wholeMilliseconds
    }

    // MARK: The failure memory

    func admit(_ request: DecidedRequest, _ kind: FailureMemory.RequestKind) -> FailureAdmission {
        health.admit(request.scopes, kind, now: loop.batchMilliseconds)
    }

    func isFailing(_ request: DecidedRequest) -> Bool { health.isFailing(request.scopes) }

    /// Maximum time that a request with a stored response waits for the upstream, in milliseconds; 0 for no limit.
    func patience(for request: DecidedRequest) -> Int64 {
        health.patience(request.scopes, limit: routes.all[request.route].rescueAfter, atMost: firstByteTimeout)
    }

    func noteSuccess(of request: DecidedRequest, began: Int64) {
        let now = loop.batchMilliseconds
        health.succeed(request.scopes, took: now - began, limit: routes.all[request.route].rescueAfter, now: now)
    }

    func noteFailure(of request: DecidedRequest, _ cause: FailureCause, began: Int64) {
        let now = loop.batchMilliseconds
        guard request.isReading else { return health.failWriting(request.scopes, cause, began: began, now: now) }
        health.fail(request.scopes, cause, began: began, now: now)
    }

    /// Records that the upstream demands a pause by Retry-After, in milliseconds.
    func notePause(of request: DecidedRequest, _ status: Status, retryAfter: Int64) {
        health.pause(request.scopes, status, retryAfter: retryAfter, now: loop.batchMilliseconds)
    }

    // MARK: Collapsed requests

    /// - Parameter mayWait: false if the exchange has waited for its maximum time.
    func join(_ fetchTarget: FetchTarget, as exchange: Exchange, mayWait: Bool) -> (role: FlightRole, flight: Flight?) {
        if level.isForEachRequest(fetchTarget.keys.own) { return (.alone, nil) }
        return collapsed.join(
            fetchTarget.target.flight, now: loop.batchMilliseconds, by: user(of: exchange.request), as: exchange, mayWait: mayWait)
    }

    /// Records a successful write.
    func noteWrite(_ request: DecidedRequest) {
        collapsed.noteWrite(by: user(of: request))
        surprises?.noteWrite(writer(of: request), now: loop.batchMilliseconds)
    }

    /// Whether the client of this request wrote to its target recently.
    func hasJustWritten(_ request: DecidedRequest) -> Bool {
        surprises?.hasWritten(writer(of: request), now: loop.batchMilliseconds) ?? false
    }

    /// Returns a number for the client and the path of its request. Without credentials, the client's address identifies the client.
    private func writer(of request: DecidedRequest) -> UInt64 {
        var hasher = Hasher()
        let user = user(of: request)
        hasher.combine(user == 0 ? request.scopes.client : user)
        hasher.combine(request.head.pathAndQuery.prefix { $0 != UInt8(ascii: "?") })
        return max(1, UInt64(truncatingIfNeeded: hasher.finalize()))
    }

    /// Returns a number for the user. A user's reads and writes have an equal number.
    private func user(of request: DecidedRequest) -> UInt64 {
        keys.maker.userWithoutForgeryTokens(of: request.head) ?? request.scopes.user
    }

    /// Ends the lease of a target after a request that does not ask the upstream, so that another node may take the lease. Keeps it while
    /// other requests of this node may ask.
    func endLease(of fetchTarget: FetchTarget?) {
        guard let fetchTarget, fetchTarget.takesLease, !collapsed.isUnderWay(fetchTarget.flight) else { return }
        level.ended(fetchTarget.keys.own, .free, by: 0)
    }

    /// Counts a request of the client's address. Returns nil if it does not count.
    func takeSlot(of client: ClientAddress) -> AddressBudget.Slot? { requestsPerAddress?.take(client) }

    // MARK: Scopes

    /// Returns the scopes of the failure memory to which a request belongs.
    /// - Parameters:
    ///   - target: keys of the request. If they have a partition, it identifies the user.
    ///   - content: identity of the request content; nil if the response does not depend on it.
    func scopes(
        of head: RequestHead, route: Int, _ target: KeyedTarget?, content: [UInt8]? = nil, client: ClientAddress
    ) -> RequestScopes {
        let own = route == routes.all.count - 1 ? nil : route
        // A response that is stored for all users may still fail for one of them.
        let user =
            if let target {
                keys.maker.user(of: head, at: target.keys.own, isPartitioned: target.isPartitioned)
            } else {
                keys.maker.user(of: head)
            }
        let host = isKeyedByHost ? head.host.map(\.asciiLowercased) : []
        let client = client.address.map(\.clientNumber) ?? 0
        return RequestScopes(
            pathAndQuery: head.pathAndQuery, host: host, variant: Self.variant(head, target, content), route: own, user: user,
            client: client)
    }

    /// Returns a number for all parts of a request that may change the response, except its target and user.
    private static func variant(_ head: RequestHead, _ target: KeyedTarget?, _ content: [UInt8]?) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(target?.keys.unknownFieldsHash ?? 0)
        if let content { hasher.combine(content) }
        // A failure for one media type does not apply to clients that accept another type.
        if let accept = head.fields.first(.accept) { hasher.combine(bytes: accept.span) }
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// Returns the limits on connections that apply to the request, so that slow or blocked paths do not occupy all connections.
    func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(scopes.family), .free))
        if health.isFailing(scopes) { shares.append(ConnectionShare(.failing, .connections(maximumConnections / 4))) }
        return shares
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
