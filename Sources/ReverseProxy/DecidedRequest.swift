// A request for which a decision has been made. It is immutable, so all parts of the flow share one instance.

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
    let place: RequestPlace?
    /// Index of the route.
    let route: Int
    /// Scopes of the failure memory that the outcome concerns.
    let scopes: RequestScopes
    /// Number that represents the client; 0 for none.
    let client: UInt64
    /// Time of the lookup.
    let lookedUpAt: Timestamp
    /// State of the cache on which the lookup was based; nil if there was no lookup.
    let basis: FindingBasis?
    /// Time at which the request began to wait for another node, in milliseconds of the loop's clock; nil if it did not wait.
    let waitedSince: Int64?
    /// The upstream connection that the request must use; nil: any connection of the pool.
    let owned: OwnedConnection?
    /// The exchange's record so far.
    let record: ExchangeRecord

    init(
        _ head: borrowing RequestHead, _ facts: borrowing RequestFacts<FoundResponse>,
        _ decision: borrowing RequestDecision<FoundResponse>, _ arrival: borrowing Arrival, client: ClientAddress,
        shard: borrowing ProxyShard
    ) {
        self.head = copy head
        directives = facts.directives
        mode = facts.mode
        let (copy, mayRescue, place) = decision.copyAndPlace
        var record = ExchangeRecord(place == nil ? .bypass : .miss, MethodLabel(head.method))
        record.note(facts, decision)
        // Keeps the head in memory, because its memory may otherwise be reused before the upstream responds.
        found = copy?.holdingHead
        (self.mayRescue, self.place) = (mayRescue, place)
        (refusal, forwardToken, notStored) = (decision.refusal, decision.forwardToken, decision.notStored)
        route = arrival.route ?? shard.routes.place(of: head.pathAndQuery)
        lookedUpAt = facts.now
        self.client = client.address.map(\.clientNumber) ?? 0
        basis = arrival.basis
        waitedSince = arrival.sharedSince
        owned = arrival.owned
        let target: KeyedTarget? = if case .lookedUp(let lookedUp) = facts.storeUse { lookedUp.target } else { nil }
        scopes = shard.scopes(of: head, route: route, target, content: arrival.identity, client: client)
        record.identity = arrival.identityOutcome
        record.found.unknownField = arrival.unknownField
        record.found.diskReads = UInt8(clamping: arrival.reads)
        record.found.shared = arrival.shared
        record.found.obstacle = decision.looksAtOthers ? arrival.obstacle : nil
        if record.reasons.validation == .markedStale, let copy { record.reasons.doubt = shard.cache?.doubt(of: copy.metadata) }
        record.reasons.isClientIgnored = arrival.isClientIgnored
        if arrival.isForNobody { record.api = ExchangeRecord.noAPI } else { record.route = UInt16(clamping: route) }
        if let target { record.partition = ExchangeRecord.partition(in: target.keys.own, at: shard.keys.partitionOffset) }
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
        (mayRescue, place, route) = (other.mayRescue, other.place, other.route)
        scopes = RequestScopes(other.scopes)
        client = 0
        (basis, record, waitedSince, lookedUpAt) = (other.basis, other.record, nil, other.lookedUpAt)
        owned = nil
    }

    var isRefused: Bool { refusal != nil }

    /// Whether the request changes nothing. Only failures of such requests are evidence about stored responses for other clients.
    var isReading: Bool { isSafe || place != nil }
    var isSafe: Bool { head.method.isSafe }

    /// Whether the request may be a GraphQL request: its method is not GET or HEAD, or its query indicates one.
    var isGraphQL: Bool { !head.method.isRead || GraphQLResponse.isAsked(for: head.pathAndQuery) }

    /// Whether the request may be repeated without its client.
    var isRepeatable: Bool { place?.sharing == .repeated }

    /// - Parameter mayLook: whether the background has a free slot for a health check.
    func asking(mayLook: @autoclosure () -> Bool) -> FailureMemory.Asking {
        .init(mayRescue: mayRescue, isReading: isReading, mayLookBehind: isRepeatable && mayLook())
    }
}

extension FailureMemory.Asking {
    /// - Parameter mayLookBehind: whether the request may be repeated without its client and the background has a free slot.
    init(mayRescue: Bool, isReading: Bool, mayLookBehind: @autoclosure () -> Bool) {
        self = mayRescue ? .withCopy(mayLookBehind: mayLookBehind()) : isReading ? .reading : .writing
    }
}

/// Arrival of a request, and the state of its lookup.
struct Arrival {
    /// Time at which the request head was complete, in microseconds.
    let began: Int64
    /// Identity of the content, if the response depends on it; for a preflight request, what it asks for.
    var identity: [UInt8]?
    /// Key in the memo of hits, if the memo may be used. Valid only while the request is being received.
    var request: HitMemo.Request?
    /// State of the cache on which the lookup was based.
    var basis: FindingBasis?
    /// A lookup was made, or was to be made before a read from disk.
    var isSeen = false
    /// The lookup's result has been recorded. It is recorded once.
    var hasNotedMiss = false
    /// Number of the request field that prevented the use of a stored response; 0 if none did.
    var unknownField: UInt8 = 0
    /// Result of the identity lookup for the token; nil if there was none.
    var identityOutcome: IdentityOutcome?
    /// Index of the route; nil if not determined yet.
    var route: Int?
    /// Number of disk reads for this request.
    var reads = 0
    /// Result of the local lookup, while the shared level is queried.
    var lookedUp: DoneLookUp?
    /// Result from the shared level; nil if it was not queried.
    var shared: SharedReply?
    /// Start of the query at the shared level, and the maximum wait for another node's fetch, in milliseconds. nil: there is no query, or
    /// no other node may wait for this request.
    var sharedSince: Int64?
    var sharedWait: Int64?
    /// Why the shared level is not queried, if the request would need it.
    var obstacle: SharedObstacle?
    /// The upstream connection that the request must use; nil: any connection of the pool.
    var owned: OwnedConnection?
    /// No API serves the request.
    var isForNobody = false
    /// The client requested a response from the upstream, and the operator ignores such directives.
    var isClientIgnored = false

    /// The result of the local lookup, if the shared level brought nothing and the cache has not changed since.
    mutating func stillLookedUp(in cache: ResponseCache) -> DoneLookUp? {
        guard let done = lookedUp.take(), shared?.outcome != .found, let basis, cache.holds(basis) else { return nil }
        return done
    }
}

/// Result of a lookup. A class, because it is large and rarely kept.
final class DoneLookUp {
    let facts: LookUpFacts<FoundResponse>
    let directives: RequestCacheControl
    let route: Int

    init(_ facts: LookUpFacts<FoundResponse>, _ directives: RequestCacheControl, _ route: Int) {
        (self.facts, self.directives, self.route) = (facts, directives, route)
    }
}

extension ExchangeRecord {
    fileprivate mutating func note(
        _ facts: borrowing RequestFacts<FoundResponse>, _ decision: borrowing RequestDecision<FoundResponse>
    ) {
        mode = facts.mode
        if case .lookedUp(let lookedUp) = facts.storeUse { note(lookedUp.result, now: facts.now) }
        switch decision {
        case .validate(_, .stale(let reason), _), .validate(_, .request(let reason), _): reasons.validation = reason
        case .part: reasons.bypass = .range
        case .pass(let reason): reasons.bypass = reason
        case .refuse(let reason): reasons.refusal = reason
        case .validate(_, .record, _), .serve, .serveAndRefresh, .forward: break
        }
    }

    private mutating func note(_ result: LookUpFacts<FoundResponse>.Result, now: Timestamp) {
        switch result {
        case .nothing: found.kind = .nothing
        case .otherVariant: found.kind = .otherVariant
        case .found(_, let stored):
            found.kind = .stored
            found.lifetime = stored.freshnessLifetime ?? -1
            found.age = Freshness.currentAge(of: stored, now: now)
            found.lifetimeSource = stored.lifetimeSource
            found.isDisregarded = stored.flags.contains(.disregarded)
        }
    }
}
