// The stage `lookUp`: finds the stored response for a request, and serves a plain fresh hit. For such a hit the decision is known here, by
// a rule that is equivalent to `RequestFacts.decide`.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore
import Reactor
import ResponseCache

/// Attempts so far to look up a request. A suspended request keeps them.
struct LookUpProgress {
    /// Number of reads from disk.
    var reads = 0
    /// Whether this is the first lookup of the request, apart from repetitions after reads from disk.
    var isFirst = true
    /// Number of the request field that prevented the use of a stored response; 0 if none did. nil until a lookup without a stored response
    /// has been recorded, which happens once.
    var unknownField: UInt8?
    /// The query to the shared level; nil if there was none, or if its lookup must be repeated.
    var query: FleetQuery?
    /// Result from the shared level; nil if it was not queried.
    var answer: FleetAnswer?

    /// Returns the lookup before the query to the shared level, if the query found nothing and the cache has not changed since.
    mutating func stillLookedUp(in cache: ResponseCache) -> LookedUp? {
        guard let query, let answer, answer.reply.outcome != .found else { return nil }
        self.query = nil
        guard cache.holds(query.lookedUp.attempt.basis) else { return nil }
        var lookedUp = query.lookedUp
        (lookedUp.attempt.answer, lookedUp.reuse) = (answer, nil)
        return lookedUp
    }
}

/// A lookup that found all records in memory.
struct LookUpAttempt {
    /// State of the cache on which the lookup was based.
    let basis: FindingBasis
    /// The client requested a response from the upstream, and the operator ignores such directives.
    let isClientIgnored: Bool
    /// Whether the memo of hits may be used. If not, each hit must be counted.
    var mayRemember: Bool
    let reads: Int
    var answer: FleetAnswer?
}

/// A request that was looked up, and is no plain fresh hit.
struct LookedUp {
    var attempt: LookUpAttempt
    let facts: LookUpFacts<FoundResponse>
    let directives: RequestCacheControl
    /// Index of the route.
    let route: Int
    let identity: [UInt8]?
    let unknownField: UInt8
    /// Result of `Reuse.decide` for the stored response. nil if there is none, and after a wait, which may have made it stale.
    var reuse: ReuseDecision?
    /// Why the shared level is not queried, if the request would need it.
    var obstacle: FleetObstacle?
}

extension RequestEntry {
    /// Returns nil if a fresh hit was served.
    func lookUp(
        _ head: RequestHead, _ keyed: Keyed, _ progress: inout LookUpProgress, in cache: ResponseCache, on stream: any ClientStream
    ) throws(NotInMemory) -> LookedUp? {
        let isFirst = progress.isFirst
        progress.isFirst = false
        var finding = try cache.find(
            head, content: keyed.identity, by: stream.client.clientAddress.address.map(\.clientNumber) ?? 0, isFirst: isFirst)
        if case .found(let found) = finding.result, isOfOtherOrigin(found, head) { finding.result = .found(found.ofOtherOrigin) }
        if progress.unknownField == nil, finding.keys.unknownFields != nil || finding.result.found == nil {
            progress.unknownField = noteUnknownFields(of: finding, stream, cache)
        }
        if let identity = finding.basis.lookUpDue {
            startIdentityLookUp(head, identity, client: upstreamClient(of: stream, head), at: stream.client.clientAddress)
        }
        var isClientIgnored = false
        let directives = directives(of: head, isIgnored: &isClientIgnored)
        // Refresh-ahead counts hits, and a hit from the memo would not be counted.
        let isCounted = context.background.refreshAhead?.counts(head.pathAndQuery) ?? false
        var attempt = LookUpAttempt(
            basis: finding.basis, isClientIgnored: isClientIgnored, mayRemember: !isCounted, reads: progress.reads, answer: progress.answer)
        var reuse: ReuseDecision?
        if case .found(let found) = finding.result {
            let decided = Reuse.decide(found.metadata, directives, now: now)
            // Most hits end here. `RequestFacts.decide` would make the same decision.
            if case .serve(let ttl, let age) = decided, ttl > 0, !isCounted, !isModal(head) {
                serveHit(found, ServingBasis(age: age, ttl: ttl, .fresh), to: head, keyed, attempt, stream)
                return nil
            }
            reuse = decided
        }
        let route = routes.index(of: head.pathAndQuery)
        // The memo holds plain hits only.
        attempt.mayRemember = false
        let facts = try completeLookUp(finding.result, finding.keys, head, directives, route: route, reuse)
        return LookedUp(
            attempt: attempt, facts: facts, directives: directives, route: route, identity: keyed.identity,
            unknownField: progress.unknownField ?? 0, reuse: reuse)
    }

    /// Completes the lookup of a request that is not a plain fresh hit. A separate function, so that the code of a hit stays small.
    @inline(never)
    private func completeLookUp(
        _ result: LookUpResult, _ keys: TargetKeys, _ head: RequestHead, _ directives: RequestCacheControl, route: Int,
        _ reuse: ReuseDecision?
    ) throws(NotInMemory) -> LookUpFacts<FoundResponse> {
        var lookedUp = LookUpFacts(result.fact, KeyedTarget(keys: keys, flight: flightKey(result, keys, head)))
        lookedUp.isForPart = RequestUse(head, content: .none) == .lookUpPart
        // Preflight requests are the only OPTIONS requests that are looked up.
        lookedUp.isKeptByContent = isKeptByContent(head) || head.method == .options
        guard let found = result.found else {
            // Loads the stored response without credentials that may be served if the upstream fails, so that the failure can be handled at
            // once.
            let rescue = routes.sharedRescueMode(head.pathAndQuery)
            if keys.isPartitioned, rescue != .never || keys.former != nil {
                _ = try context.cache?.sharedRescue(for: head, at: keys, directives, rescue, now: now)
            }
            return lookedUp
        }
        switch reuse {
        case .serve(let ttl, _)? where ttl > 0:
            let lifetime = found.metadata.freshnessLifetime ?? 0
            let flight = lookedUp.target.flight.bytes
            lookedUp.isRefreshDue =
                context.background.refreshAhead?.isDue(flight, route: route, ttl: ttl, lifetime: lifetime, now: now) ?? false
        case .validate where !mode(of: head).servesAnyAge && routes.all[route].freshness.negative == 0: break
        default:
            if let gone = try context.cache?.gone(beside: found) { lookedUp.gone = .found(gone, gone.metadata) }
        }
        return lookedUp
    }

    /// Key of the flight. It contains the origin, because a response for one origin may not be usable for scripts of another.
    private func flightKey(_ result: LookUpResult, _ keys: TargetKeys, _ head: RequestHead) -> [UInt8] {
        let key = result.flightKey(keys)
        guard let origin = head.fields.first(.origin), head.method != .options, routes.crossOrigin(head.pathAndQuery) == nil else {
            return key
        }
        return key + [0] + origin
    }

    // MARK: Directives

    private static let directiveFields: KnownFieldSet = [.cacheControl, .pragma]

    func directives(of head: RequestHead) -> RequestCacheControl {
        head.fields.containsAny(of: Self.directiveFields) ? RequestCacheControl(head.fields) : RequestCacheControl()
    }

    /// The client's caching directives, as far as the operator permits them.
    /// - Parameter isIgnored: set to whether some directives are ignored.
    private func directives(of head: RequestHead, isIgnored: inout Bool) -> RequestCacheControl {
        guard head.fields.containsAny(of: Self.directiveFields) else { return RequestCacheControl() }
        let sent = directives(of: head).limited(to: routes.all[routes.index(of: head.pathAndQuery)].freshness.staleFor)
        guard !usesClientDirectives(of: head) else { return sent }
        let directives = sent.withoutForcing
        isIgnored = directives != sent
        return directives
    }

    /// Whether the operator permits the client's freshness directives.
    private func usesClientDirectives(of head: RequestHead) -> Bool {
        routes.usesClientDirectives(head.pathAndQuery)
    }
}

extension LookUpResult {
    /// The result in the form that the decision uses.
    fileprivate var fact: LookUpFacts<FoundResponse>.Result {
        switch self {
        case .found(let found): .found(found, found.metadata)
        case .nothing: .nothing
        case .otherVariant: .otherVariant
        }
    }
}
