// A request with its decision. Immutable, so that all parts of the flow share one instance.

import Addresses
import CachePolicy
import Decisions
import Explanation
import Figures
import HTTPCore
import ResponseCache
import Sending
import Upstream

/// `@unchecked Sendable` because it is immutable; its stored response is used on its shard's loop only.
final class DecidedRequest: @unchecked Sendable {
    let head: RequestHead
    let directives: RequestCacheControl
    let mode: ServingMode
    /// Why Cistern responds with an error; nil if Cistern does not refuse the request.
    let refusal: Refusal?
    /// Why the request is forwarded, as a registered token (RFC 9211 §2.2).
    let forwardToken: StaticString
    /// Why the response is not stored, if the request alone determines that.
    let notStored: NotStoredReason
    /// The stored response for comparison, for validation, or for a rescue.
    let found: FoundResponse?
    let mayRescue: Bool
    /// Key under which the response was looked up; nil if the response is not stored.
    let fetchTarget: FetchTarget?
    /// Keys of the lookup, also if the response is not stored; nil if there was no lookup.
    let lookedUp: KeyedTarget?
    let route: Int
    /// Scopes of the failure memory that the outcome concerns.
    let scopes: RequestScopes
    /// Number that represents the client; 0 for none.
    let client: UInt64
    let lookedUpAt: Timestamp
    /// State of the cache on which the lookup was based; nil if there was no lookup.
    let basis: FindingBasis?
    /// Time at which the request began to wait for another node, in milliseconds of the loop's clock; nil if it did not wait.
    let waitedSince: Int64?
    /// The upstream connection that the request must use; nil: any connection of the pool.
    let owned: OwnedConnection?
    /// Whether the operator excluded the path from the cache.
    let isOff: Bool
    /// The exchange's record so far.
    let record: ExchangeRecord

    init(
        _ head: borrowing RequestHead, _ facts: borrowing RequestFacts<FoundResponse>,
        _ decision: borrowing RequestDecision<FoundResponse>, _ stage: borrowing DecidedStage, client: ClientAddress,
        entry: borrowing RequestEntry
    ) {
        self.head = copy head
        directives = facts.directives
        mode = facts.mode
        let (copy, mayRescue, fetchTarget) = decision.copyAndTarget
        var record = ExchangeRecord(fetchTarget == nil ? .bypass : .miss, MethodLabel(head.method))
        record.note(facts, decision)
        // Copies the head, because its memory may be reused before the upstream responds.
        found = copy?.holdingHead
        (self.mayRescue, self.fetchTarget) = (mayRescue, fetchTarget)
        (refusal, forwardToken, notStored) = (decision.refusal, decision.forwardToken, decision.notStored)
        lookedUpAt = facts.now
        self.client = client.number
        isOff = entry.routes.isOff(head.pathAndQuery)
        let target: KeyedTarget? = if case .lookedUp(let lookedUp) = facts.storeUse { lookedUp.target } else { nil }
        var identity: [UInt8]?
        switch stage {
        case .refused(let isOfNoAPI):
            (route, basis, waitedSince, owned) = (entry.routes.index(of: head.pathAndQuery), nil, nil, nil)
            if isOfNoAPI { record.api = ExchangeRecord.noAPI }
        case .passed(let owned):
            (route, basis, waitedSince, self.owned) = (entry.routes.index(of: head.pathAndQuery), nil, nil, owned)
        case .lookedUp(let lookedUp):
            let attempt = lookedUp.attempt
            (route, basis, waitedSince, owned) = (lookedUp.route, attempt.basis, attempt.answer?.since, nil)
            identity = lookedUp.identity
            record.note(lookedUp, mayShare: decision.searchesFleet)
        }
        scopes = entry.context.coordination.scopes(of: head, route: route, target, content: identity, client: client)
        if record.reasons.validation == .markedStale, let copy { record.reasons.doubt = entry.context.cache?.doubt(of: copy.metadata) }
        if record.hasAPI { record.route = UInt16(clamping: route) }
        lookedUp = target
        if let target {
            record.partition = ExchangeRecord.partition(in: target.keys.own, at: entry.context.coordination.keys.partitionOffset)
        }
        self.record = record
    }

    /// Creates a copy without the client's data, for repeating the request later.
    /// - Parameter keepsCopy: whether to keep the stored response. Pass false if there is no time limit: the response keeps the file of its
    ///   segment, and may be purged.
    init(unnamed other: DecidedRequest, keepsCopy: Bool = true) {
        head = other.head.unnamed
        (directives, mode, refusal) = (other.directives, other.mode, other.refusal)
        found = keepsCopy ? other.found : nil
        (forwardToken, notStored) = (other.forwardToken, other.notStored)
        (mayRescue, fetchTarget, lookedUp, route) = (other.mayRescue, other.fetchTarget, other.lookedUp, other.route)
        scopes = RequestScopes(other.scopes)
        client = 0
        (basis, record, waitedSince, lookedUpAt) = (other.basis, other.record, nil, other.lookedUpAt)
        (owned, isOff) = (nil, other.isOff)
    }

    /// Whether the request changes nothing. Only failures of such requests are evidence about stored responses for other clients.
    var isReading: Bool { isSafe || fetchTarget != nil }
    var isSafe: Bool { head.method.isSafe }
    /// Whether the upstream receives fields in which the client names another method.
    var keepsMethodOverride: Bool { !isReading && Invalidation.isWrite(head.method) }

    /// Whether the request may be a GraphQL request: its method is not GET or HEAD, or its query indicates one.
    var isGraphQL: Bool { !head.method.isRead || GraphQLResponse.isAsked(for: head.pathAndQuery) }

    /// Whether the request may be repeated without its client.
    var isRepeatable: Bool { fetchTarget?.sharing == .repeated }

    /// - Parameter mayCheck: whether the background has a free slot for a health check.
    func requestKind(mayCheck: @autoclosure () -> Bool) -> FailureMemory.RequestKind {
        if isOff { return .excluded }
        return .init(mayRescue: mayRescue, isReading: isReading, mayCheckInBackground: isRepeatable && mayCheck())
    }
}

extension FailureMemory.RequestKind {
    /// - Parameter mayCheckInBackground: whether the request may be repeated without its client and the background has a free slot.
    init(mayRescue: Bool, isReading: Bool, mayCheckInBackground: @autoclosure () -> Bool) {
        self = mayRescue ? .withCopy(mayCheckInBackground: mayCheckInBackground()) : isReading ? .reading : .writing
    }
}

extension ExchangeRecord {
    fileprivate mutating func note(
        _ facts: borrowing RequestFacts<FoundResponse>, _ decision: borrowing RequestDecision<FoundResponse>
    ) {
        mode = facts.mode
        if case .lookedUp(let lookedUp) = facts.storeUse {
            switch lookedUp.result {
            case .nothing: found.kind = .nothing
            case .otherVariant: found.kind = .otherVariant
            case .found(_, let stored):
                found.kind = .stored
                found.lifetime = stored.freshnessLifetime ?? -1
                found.age = Freshness.currentAge(of: stored, now: facts.now)
                found.staleness = Freshness.localStaleness(of: stored, now: facts.now)
                found.lifetimeSource = stored.lifetimeSource
                found.isDisregarded = stored.flags.contains(.disregarded)
            }
        }
        switch decision {
        case .validate(_, .stale(let reason), _), .validate(_, .request(let reason), _): reasons.validation = reason
        case .part: reasons.bypass = .range
        case .pass(let reason): reasons.bypass = reason
        case .refuse(let reason): reasons.refusal = reason
        case .validate(_, .record, _), .serve, .serveAndRefresh, .forward: break
        }
    }

    fileprivate mutating func note(_ lookedUp: LookedUp, mayShare: Bool) {
        let attempt = lookedUp.attempt
        identity = attempt.basis.identityOutcome
        reasons.isClientIgnored = attempt.isClientIgnored
        found.unknownField = lookedUp.unknownField
        found.diskReads = UInt8(clamping: attempt.reads)
        found.fleetReply = attempt.answer?.reply
        found.obstacle = mayShare ? lookedUp.obstacle : nil
    }
}

extension Coordination {
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
        return RequestScopes(
            pathAndQuery: head.pathAndQuery, host: host, variant: Self.variant(head, target, content), route: own, user: user,
            client: client.number)
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
}
