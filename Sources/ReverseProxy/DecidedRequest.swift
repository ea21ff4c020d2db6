// A request as the flow hands it on once it is decided what is done with it. It does not change, so all that ask for it share one.

import Addresses
import CachePolicy
import Decisions
import Explanation
import HTTPCore
import ResponseCache
import Sending
import Upstream

/// `@unchecked Sendable` because nothing of it changes; what is stored is reached from its shard's loop only.
final class DecidedRequest: @unchecked Sendable {
    let head: RequestHead
    let directives: RequestCacheControl
    let mode: ServingMode
    /// Why Cistern responds itself; nil where the upstream is asked.
    let refusal: Refusal?
    /// Why the upstream is asked, in the registered words (RFC 9211 §2.2).
    let forwardToken: StaticString
    /// Why what comes is not stored, where that is known without it.
    let notStored: NotStoredReason
    /// What is held against the upstream's response, and what a validation confirms.
    let found: FoundResponse?
    let mayRescue: Bool
    /// Where it was looked up; nil where nothing of what comes is stored.
    let place: RequestPlace?
    /// The place of its route.
    let route: Int
    /// Whom its end tells of.
    let scopes: RequestScopes
    /// A number for its client; 0 for nobody's.
    let client: UInt64
    /// When it was looked up.
    let lookedUpAt: Timestamp
    /// What its look-up went by; nil where it was not looked up.
    let basis: FindingBasis?
    /// When it began to wait for what other nodes have, milliseconds of the loop's clock; nil where it did not.
    let waitedSince: Int64?
    /// The upstream connection that it has to go over. nil: any of the pool.
    let owned: OwnedConnection?
    /// What is known for explanations by now.
    let trace: ExchangeTrace

    init(
        _ head: borrowing RequestHead, _ facts: borrowing RequestFacts<FoundResponse>,
        _ decision: borrowing RequestDecision<FoundResponse>, _ arrival: borrowing Arrival, client: ClientAddress,
        shard: borrowing ProxyShard
    ) {
        var trace = ExchangeTrace(facts, decision)
        self.head = copy head
        directives = facts.directives
        mode = facts.mode
        let (copy, mayRescue, place) = decision.copyAndPlace
        // The upstream may take its time, and the memory be another's by then.
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
        trace.identity = arrival.identityOutcome
        trace.found.unknownField = arrival.unknownField
        trace.found.diskReads = UInt8(clamping: arrival.reads)
        trace.found.shared = arrival.shared
        trace.found.obstacle = decision.looksAtOthers ? arrival.obstacle : nil
        if trace.reasons.validation == .markedStale, let copy { trace.reasons.doubt = shard.cache?.doubt(of: copy.metadata) }
        trace.reasons.isClientIgnored = arrival.isClientIgnored
        if arrival.isForNobody { trace.api = ExchangeTrace.noAPI } else { trace.route = UInt16(clamping: route) }
        if let target { trace.partition = ExchangeTrace.partition(in: target.keys.own, at: shard.keys.partitionOffset) }
        self.trace = trace
    }

    /// A request without its client, to be repeated later.
    /// - Parameter keepsCopy: false if it may be repeated at any later time. A stored copy keeps its segment's file, and may be purged by then.
    init(unnamed other: DecidedRequest, keepsCopy: Bool = true) {
        head = other.head.unnamed
        (directives, mode, refusal) = (other.directives, other.mode, other.refusal)
        found = keepsCopy ? other.found : nil
        (forwardToken, notStored) = (other.forwardToken, other.notStored)
        (mayRescue, place, route) = (other.mayRescue, other.place, other.route)
        scopes = RequestScopes(other.scopes)
        client = 0
        (basis, trace, waitedSince, lookedUpAt) = (other.basis, other.trace, nil, other.lookedUpAt)
        owned = nil
    }

    var isRefused: Bool { refusal != nil }

    /// Whether it changes nothing: only of such requests a failure tells of the copies that others could have.
    var isReading: Bool { isSafe || place != nil }
    var isSafe: Bool { head.method.isSafe }

    /// Whether it may be one of GraphQL: by its arguments, or since its response is kept by its content.
    var isGraphQL: Bool { !head.method.isRead || GraphQLResponse.isAsked(for: head.pathAndQuery) }

    /// Whether it may be asked without its client.
    var isRepeatable: Bool { place?.sharing == .repeated }

    /// - Parameter mayLook: whether the background has room to look whether what fails is well again.
    func asking(mayLook: @autoclosure () -> Bool) -> FailureMemory.Asking {
        .init(mayRescue: mayRescue, isReading: isReading, mayLookBehind: isRepeatable && mayLook())
    }
}

extension FailureMemory.Asking {
    /// - Parameter mayLookBehind: it may be repeated without its client, and the background has room for that.
    init(mayRescue: Bool, isReading: Bool, mayLookBehind: @autoclosure () -> Bool) {
        self = mayRescue ? .withCopy(mayLookBehind: mayLookBehind()) : isReading ? .reading : .writing
    }
}

/// When a request came, and what looking into the store took.
struct Arrival {
    /// When its head was there, in microseconds.
    let began: Int64
    /// What its content says, where the response depends on it; of a preflight, what it asks for.
    var identity: [UInt8]?
    /// How the memo of hits knows it, where it may. Only while it is being received.
    var request: HitMemo.Request?
    /// What its look-up went by.
    var basis: FindingBasis?
    /// It has been looked up, or was to be before something was read from the disk.
    var isSeen = false
    /// What its look-up came to has been noted, which is done once.
    var hasNotedMiss = false
    /// The number of a field that kept a copy from being used; 0 if none did.
    var unknownField: UInt8 = 0
    /// What its token came to; nil where none was looked at.
    var identityOutcome: IdentityOutcome?
    /// The place of its route, where that has been looked for already.
    var route: Int?
    /// How often something was read from the disk for it.
    var reads = 0
    /// What was found, while the shared level is looked into.
    var lookedUp: DoneLookUp?
    /// What other nodes had; nil where that was not looked for.
    var shared: SharedReply?
    /// Since when that is looked for, and how long another node may be waited for at most: milliseconds of the loop's clock. nil: none is, and none is to
    /// wait for this request.
    var sharedSince: Int64?
    var sharedWait: Int64?
    /// Why that is not looked for, should it come to that.
    var obstacle: SharedObstacle?
    /// The upstream connection that it has to go over.
    var owned: OwnedConnection?
    /// No API is for it.
    var isForNobody = false
    /// The client wanted the upstream to be asked, and the operator has that ignored.
    var isClientIgnored = false

    /// What was found before the shared level was looked into, where nothing has been taken from there and all still is as it was.
    mutating func stillLookedUp(in cache: ResponseCache) -> DoneLookUp? {
        guard let done = lookedUp.take(), shared?.outcome != .found, let basis, cache.holds(basis) else { return nil }
        return done
    }
}

/// What looking into the store has brought. A class, since it is large and rarely kept.
final class DoneLookUp {
    let facts: LookUpFacts<FoundResponse>
    let directives: RequestCacheControl
    let route: Int

    init(_ facts: LookUpFacts<FoundResponse>, _ directives: RequestCacheControl, _ route: Int) {
        (self.facts, self.directives, self.route) = (facts, directives, route)
    }
}

extension ExchangeTrace {
    fileprivate init(_ facts: borrowing RequestFacts<FoundResponse>, _ decision: borrowing RequestDecision<FoundResponse>) {
        self.init()
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
