// The stages `lookUp` and `decide`. The first finds the stored response for a request, and serves a plain fresh hit. For such a hit the
// decision is known there, by a rule that is equivalent to `RequestFacts.decide`. The second decides by `RequestFacts.decide`, and carries
// out the decision. Stages that refuse or forward a request without a lookup decide here too.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Logging
import Reactor
import ResponseCache
import Upstream

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
    mutating func stillLookedUp(in cache: APICacheState, now: Timestamp) -> LookedUp? {
        guard let query, let answer, answer.reply.outcome != .found else { return nil }
        self.query = nil
        guard cache.holds(query.lookedUp.attempt.basis, now: now) else { return nil }
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
    let route: Int
    let identity: [UInt8]?
    let unknownField: UInt8
    /// Result of `Reuse.decide` for the stored response. nil if there is none, and after a wait, which may have made it stale.
    var reuse: ReuseDecision?
    /// Why the shared level is not queried, if the request would need it.
    var obstacle: FleetObstacle?
}

/// The stage that preceded the decision, with its results.
enum DecidedStage {
    /// - Parameter isOfNoAPI: whether no API serves the request.
    case refused(isOfNoAPI: Bool)
    /// The request bypasses the store. The parameter is the upstream connection that it must use; nil: any connection of the pool.
    case passed(OwnedConnection?)
    case lookedUp(LookedUp)
}

extension RequestEntry {
    /// Returns nil if a fresh hit was served.
    func lookUp(
        _ head: RequestHead, _ keyed: Keyed, _ progress: inout LookUpProgress, in cache: ResponseCache, on stream: any ClientStream
    ) throws(NotInMemory) -> LookedUp? {
        let isFirst = progress.isFirst
        progress.isFirst = false
        var finding = try cache.find(
            head, content: keyed.identity, by: stream.client.clientAddress.number, isFirst: isFirst)
        if case .found(let found) = finding.result, isBound(found, head), isOfOtherOrigin(found, head) {
            finding.result = .found(found.ofOtherOrigin)
        }
        let hasUnknown = finding.keys.unknownFields != nil
        if progress.unknownField == nil, hasUnknown || finding.result.found == nil && cache.state.unknownFields.hasRecords {
            progress.unknownField = noteUnknownFields(of: finding, stream, cache)
        }
        if let identity = finding.basis.lookUpDue {
            startIdentityLookUp(head, identity, client: admission.upstreamClient(of: stream, head), at: stream.client.clientAddress)
        }
        var isClientIgnored = false
        var directives = directives(of: head, isIgnored: &isClientIgnored)
        if finding.keys.isPartitioned, RequestKeyMaker.asksForToken(head.fields) { directives.noCache = true }
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
        // The flight's key contains the fields of content negotiation, unless the stored response declares for which requests it may be
        // used: many upstreams negotiate without `Vary`.
        var flightKey = result.flightKey(keys)
        if !result.declaresUse { RequestLikeness.appendNegotiation(of: head.fields, to: &flightKey) }
        // A response for one origin may not be usable for scripts of another.
        if let origin = head.fields.first(.origin), head.method != .options, routes.crossOrigin(head.pathAndQuery) == nil {
            flightKey.append(0)
            flightKey += origin
        }
        var lookedUp = LookUpFacts(result.fact, KeyedTarget(keys: keys, flight: flightKey))
        lookedUp.isForPart = RequestUse(head, content: .none) == .lookUpPart
        // Preflight requests are the only OPTIONS requests that are looked up.
        lookedUp.isKeptByContent = isKeptByContent(head) || head.method == .options
        guard let found = result.found else {
            // Loads the stored response without credentials that may be served if the upstream fails, so that the failure can be handled at
            // once.
            guard keys.isPartitioned else { return lookedUp }
            let rescue = routes.sharedRescueMode(head.pathAndQuery)
            if rescue != .never || keys.former != nil {
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

    /// Returns the number of the request field that prevented the use of a stored response; 0 if none did.
    @inline(never)
    private func noteUnknownFields(of finding: Finding, _ stream: any ClientStream, _ cache: ResponseCache) -> UInt8 {
        guard settings.policy.strictness == .rescue else { return 0 }
        let client = stream.client.clientAddress.number
        let (findings, field) = cache.state.unknownFields.note(finding, by: client)
        for finding in findings { context.api.process.logger.notice("\(finding.sentence(ofAPI: context.api.name))") }
        return field
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
        let sent = RequestCacheControl(head.fields).limited(to: routes.all[routes.index(of: head.pathAndQuery)].freshness.staleFor)
        guard !routes.usesClientDirectives(head.pathAndQuery) else { return sent }
        let directives = sent.withoutForcing
        isIgnored = directives != sent
        return directives
    }

    // MARK: Facts

    func facts(_ head: RequestHead, on stream: any ClientStream) -> RequestFacts<FoundResponse> {
        var facts = RequestFacts<FoundResponse>(head.method, strictness: settings.policy.strictness, now: now)
        facts.mode = mode(of: head)
        facts.refusal = RequestRefusal(head, context.messages.requestFields)
        if let budget = context.api.process.requestsPerAddress, facts.refusal == nil, budget.isFull(for: stream.client.clientAddress) {
            facts.refusal = .access(.requestsPerAddress)
        }
        return facts
    }

    func facts(_ lookedUp: LookedUp, _ head: RequestHead, on stream: any ClientStream) -> RequestFacts<FoundResponse> {
        var facts = facts(head, on: stream)
        facts.storeUse = .lookedUp(lookedUp.facts)
        facts.directives = lookedUp.directives
        facts.reuse = lookedUp.reuse
        facts.wantsStream = StreamedResponse.isWanted(by: head.fields)
        facts.staleFor = routes.all[lookedUp.route].freshness.staleFor
        return facts
    }

    // MARK: The mode, and fields for the proxy itself

    /// Whether the response may need lines that other responses do not have.
    @inline(__always)
    func wantsOwnLines(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) || head.contains(.cisternKey) }

    /// Whether the mode may be other than `live`, so that it must be determined.
    @inline(__always)
    func isModal(_ head: RequestHead) -> Bool { !context.coordination.modes.isLive || head.contains(.cisternMode) }

    /// The mode that the request selects, if permitted; otherwise the mode of its path or route.
    func mode(of head: RequestHead) -> ServingMode {
        guard isModal(head) else { return .live }
        if settings.ownFields.allowsMode, let value = head.fields.first(.cisternMode),
            let mode = ServingMode(rawValue: String(decoding: value.trimmed, as: UTF8.self).lowercased())
        {
            return mode
        }
        return context.coordination.modes.table.mode(of: head.pathAndQuery, route: routes.index)
    }

    // MARK: The decision

    func decide(
        _ facts: borrowing RequestFacts<FoundResponse>, _ head: RequestHead, _ body: RequestBody, _ keyed: Keyed, _ lookedUp: LookedUp,
        on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var decision = facts.decide()
        switch decision {
        case .serve(let found, let serving):
            serveHit(found, serving, to: head, keyed, lookedUp.attempt, stream)
            return nil
        case .serveAndRefresh(let found, let serving, let cause, _):
            let request = DecidedRequest(
                head.asCompleteGet, facts, decision, .lookedUp(lookedUp), client: stream.client.clientAddress, entry: self)
            guard isValidatedNow(request, facts, cause) else {
                // The connection's next request may begin when the response is sent, so the client is determined before that.
                let client = admission.upstreamClient(of: stream, head)
                serveHit(found, serving, to: head, keyed, lookedUp.attempt, stream)
                refresh(request, cause, client)
                return nil
            }
            context.background.fetches.noteSkipped()
            decision = facts.decide(mayRefresh: false)
        case .validate, .forward, .part, .pass, .refuse: break
        }
        let request = DecidedRequest(head, facts, decision, .lookedUp(lookedUp), client: stream.client.clientAddress, entry: self)
        return start(request, body, began: keyed.began, on: stream)
    }

    /// Starts the exchange of a request that was not looked up.
    func start(
        _ facts: borrowing RequestFacts<FoundResponse>, _ head: RequestHead, _ body: RequestBody, _ stage: DecidedStage,
        on stream: any ClientStream
    ) -> (any ClientExchange)? {
        let request = DecidedRequest(head, facts, facts.decide(), stage, client: stream.client.clientAddress, entry: self)
        return start(request, body, began: began(body), on: stream)
    }

    private func start(
        _ request: DecidedRequest, _ body: RequestBody, began: Int64, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        let client = admission.upstreamClient(of: stream, request.head)
        let exchange = Exchange(exchanges, stream: stream, request: request, body: body, client: client, began: began)
        if let refusal = request.refusal { exchange.refuse(refusal) } else { exchange.handle(.begun) }
        return exchange.isFinished ? nil : exchange
    }

    /// Forwards a request that bypasses the store.
    /// - Parameter reason: why the request bypasses the store; nil if the request head shows it.
    func pass(
        _ head: RequestHead, _ body: RequestBody, _ reason: BypassReason? = nil, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(head, on: stream)
        var owned: OwnedConnection?
        let isOfConnectionUser = connections.isOfConnectionUser(head, on: stream)
        if isOfConnectionUser, facts.refusal == nil, facts.mode != .offline {
            do throws(AccessRefusal) { owned = try connections.claimConnection(on: stream) } catch { facts.refusal = .access(error) }
        }
        if context.cache != nil, let reason = isOfConnectionUser ? .connectionUser : reason ?? bypass(head, body) {
            facts.storeUse = .bypassed(reason)
            facts.directives = directives(of: head)
        }
        return start(facts, head, body, .passed(owned), on: stream)
    }

    // MARK: Background refreshes

    /// Whether a stale response that may be served at once is validated first, because no background fetch can be started. The client waits
    /// for at most `rescue_after`.
    private func isValidatedNow(
        _ request: DecidedRequest, _ facts: borrowing RequestFacts<FoundResponse>, _ cause: BackgroundCause
    ) -> Bool {
        guard cause == .staleWhileRevalidate, routes.all[request.route].rescueAfter > 0, !context.background.fetches.mayStart(request)
        else { return false }
        return facts.decide(mayRefresh: false).copyAndTarget.mayRescue
    }

    /// Starts a background fetch or a health check, unless the failure memory forbids it.
    private func refresh(_ request: DecidedRequest, _ cause: BackgroundCause, _ client: UpstreamRequestFields.Client) {
        let (fetches, number) = (context.background.fetches, context.reporting.records.why.lastNumber)
        let kind = request.requestKind(mayCheck: fetches.mayCheck)
        switch context.api.health.admit(request.scopes, kind, now: context.loop.time.monotonicMilliseconds) {
        case .go: fetches.start(request, client: client, cause, behind: number)
        case .serveCopy(_, checksInBackground: true): fetches.sendCheck(request, client: client, behind: number)
        case .serveCopy, .refuse: break
        }
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

extension FieldFinding {
    /// Log line about the finding, with the setting that helps.
    fileprivate func sentence(ofAPI api: String) -> String {
        let subject = api.isEmpty ? "" : "API \(api): "
        let change = "cache.harmless_fields: +\(name)"
        return switch kind {
        case .keptCopyBack:
            "\(subject)a stored response was not used, because the request differs in \(name); if responses do not depend on the field: "
                + "\(change)"
        case .changes:
            "\(subject)\(name) has a new value in each request, so it no longer separates stored responses; if responses do not depend "
                + "on it: \(change)"
        }
    }
}
