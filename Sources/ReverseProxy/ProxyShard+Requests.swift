// Processes a request: looks it up, decides by `RequestFacts.decide`, and carries out the decision. For a plain fresh hit the decision is
// known earlier, by an equivalent rule.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Upstream

extension ProxyShard {
    /// Processes a complete request.
    func consider(
        _ head: RequestHead, _ body: RequestBody, _ arrival: inout Arrival, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        guard cache != nil, !connections.isOfConnectionUser(head, on: stream) else { return pass(head, body, on: stream) }
        if head.method == .options, let preflight = preflight(head, body) {
            arrival.identity = preflight.identity
        } else if bypass(head, body) != nil {
            return pass(head, body, on: stream)
        }
        return look(head, body, &arrival, on: stream)
    }

    /// Returns nil if the request is no preflight request that can be stored.
    private func preflight(_ head: RequestHead, _ body: RequestBody) -> Preflight? {
        guard settings.policy.strictness == .rescue else { return nil }
        return Preflight(head, content: body.framing, credentials: settings.policy.credentials.names)
    }

    /// Why the request bypasses the store; nil if it may be looked up.
    private func bypass(_ head: RequestHead, _ body: RequestBody) -> BypassReason? {
        if case .tunnel = body.framing { return .upgrade }
        if case .bypass(let reason) = RequestUse(head, content: body.framing) { return reason }
        return routes.stream(head.pathAndQuery) ? .stream : nil
    }

    func arrival(_ body: RequestBody, identity: [UInt8]? = nil) -> Arrival {
        Arrival(began: loop.batchMicroseconds - body.waitedMicroseconds, identity: identity)
    }

    /// Forwards a request that bypasses the store.
    /// - Parameter reason: why; nil if the request head shows it.
    func pass(
        _ head: RequestHead, _ body: RequestBody, _ reason: BypassReason? = nil, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(head, on: stream)
        var arrival = arrival(body)
        let isOfConnectionUser = connections.isOfConnectionUser(head, on: stream)
        if isOfConnectionUser, facts.refusal == nil, facts.mode != .offline {
            do throws(AccessRefusal) { arrival.owned = try connections.claimConnection(on: stream) } catch {
                facts.refusal = .access(error)
            }
        }
        if cache != nil, let reason = isOfConnectionUser ? .connectionUser : reason ?? bypass(head, body) {
            facts.storeUse = .bypassed(reason)
            facts.directives = directives(of: head)
        }
        return perform(facts, head, body, arrival, stream)
    }

    func facts(_ head: RequestHead, on stream: any ClientStream) -> RequestFacts<FoundResponse> {
        var facts = RequestFacts<FoundResponse>(head.method, strictness: settings.policy.strictness, now: now)
        facts.mode = mode(of: head)
        facts.refusal = RequestRefusal(head, messages.requestFields)
        if let budget = process.requestsPerAddress, facts.refusal == nil, budget.isFull(for: stream.client.place) {
            facts.refusal = .access(.requestsPerAddress)
        }
        return facts
    }

    private func upstreamClient(of stream: any ClientStream, _ head: RequestHead) -> UpstreamRequestFields.Client {
        UpstreamRequestFields.Client(stream.client, head, isBelieved: admission.isBelieved(stream))
    }

    private static let directiveFields: KnownFieldSet = [.cacheControl, .pragma]

    private func directives(of head: RequestHead) -> RequestCacheControl {
        head.fields.containsAny(of: Self.directiveFields) ? RequestCacheControl(head.fields) : RequestCacheControl()
    }

    /// The client's caching directives, as far as the operator permits them.
    /// - Parameter isIgnored: set to whether some directives are ignored.
    private func directives(of head: RequestHead, isIgnored: inout Bool) -> RequestCacheControl {
        let said = directives(of: head)
        guard head.fields.containsAny(of: Self.directiveFields), !obeysClient(of: head) else { return said }
        let directives = said.withoutForcing
        isIgnored = directives != said
        return directives
    }

    // MARK: Lookup

    func look(
        _ head: RequestHead, _ body: RequestBody, _ arrival: inout Arrival, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        do throws(NotAtHand) {
            return try lookInMemory(head, body, &arrival, stream)
        } catch {
            arrival.request = nil
            return LookUpWait(self, head, body, arrival, on: stream, error)
        }
    }

    /// Responds at once and returns nil, or returns the exchange that responds later.
    func lookInMemory(
        _ head: RequestHead, _ body: RequestBody, _ arrival: inout Arrival, _ stream: any ClientStream
    ) throws(NotAtHand) -> (any ClientExchange)? {
        guard let cache else { return pass(head, body, on: stream) }
        if let lookedUp = arrival.stillLookedUp(in: cache) {
            let facts = facts(lookedUp.facts, lookedUp.directives, head, route: lookedUp.route, on: stream)
            return perform(facts, head, body, arrival, stream)
        }
        let isFirst = !arrival.isSeen
        arrival.isSeen = true
        var finding = try cache.find(
            head, content: arrival.identity, by: stream.client.place.address.map(\.clientNumber) ?? 0, isFirst: isFirst)
        if case .found(let found) = finding.result, isOfOtherOrigin(found, head) { finding.result = .found(found.ofOtherOrigin) }
        if !arrival.hasNotedMiss, finding.keys.unknownFields != nil || finding.result.found == nil {
            noteUnknownFields(of: finding, &arrival, stream, cache)
        }
        arrival.basis = finding.basis
        arrival.identityOutcome = finding.basis.identityOutcome
        if let told = finding.basis.toldDue { askWhose(head, told, client: upstreamClient(of: stream, head), at: stream.client.place) }
        let directives = directives(of: head, isIgnored: &arrival.isClientIgnored)
        let isCounted = refreshAhead?.counts(head.pathAndQuery) ?? false
        // A repeated hit would not be counted.
        if isCounted { arrival.request = nil }
        var reuse: ReuseDecision?
        if case .found(let found) = finding.result {
            let decided = Reuse.decide(found.metadata, directives, now: now)
            // Most hits end here. `RequestFacts.decide` would make the same decision.
            if case .serve(let ttl, let age) = decided, !isCounted, !isModal(head) {
                serveHit(found, Serving(age: age, ttl: ttl, .fresh), to: head, arrival, stream)
                return nil
            }
            reuse = decided
        }
        let route = routes.place(of: head.pathAndQuery)
        arrival.route = route
        let lookedUp = try lookFurther(finding.result, finding.keys, head, directives, route: route, reuse)
        var facts = facts(lookedUp, directives, head, route: route, on: stream)
        facts.reuse = reuse
        if level.isShared, arrival.shared == nil, let lookUp = sharedLookUp(facts, finding.keys, &arrival, head, of: stream.client) {
            arrival.lookedUp = DoneLookUp(lookedUp, directives, route)
            throw .shared(lookUp)
        }
        return perform(facts, head, body, arrival, stream)
    }

    private func facts(
        _ lookedUp: LookUpFacts<FoundResponse>, _ directives: RequestCacheControl, _ head: RequestHead, route: Int,
        on stream: any ClientStream
    ) -> RequestFacts<FoundResponse> {
        var facts = facts(head, on: stream)
        facts.storeUse = .lookedUp(lookedUp)
        facts.directives = directives
        facts.wantsStream = StreamedResponse.isWanted(by: head.fields)
        facts.staleFor = routes.all[route].freshness.staleFor
        return facts
    }

    /// Returns the query to the shared level that precedes a request to the upstream. nil if the query is not permitted or useful.
    @inline(never)
    private func sharedLookUp(
        _ facts: borrowing RequestFacts<FoundResponse>, _ keys: TargetKeys, _ arrival: inout Arrival, _ head: RequestHead,
        of client: RequestClient
    ) -> SharedLookUp? {
        guard arrival.identity == nil, facts.mode == .live, !facts.directives.noCache else { return nil }
        arrival.obstacle = arrival.identityOutcome == .told ? .told : level.obstacle(for: keys)
        guard arrival.obstacle == nil else { return nil }
        let decision = facts.decide()
        guard decision.looksAtOthers else { return nil }
        if let place = decision.copyAndPlace.place, shared.collapsed.isUnshareable(place.flight, now: loop.batchMilliseconds) {
            arrival.obstacle = .unshareable
            return nil
        }
        arrival.sharedWait = sharedWait(decision, head, route: arrival.route ?? 0, of: client)
        let route = arrival.route ?? 0
        return cache?.sharedLookUp(for: head, at: keys, good: routes.good(on: route), kept: routes.kept(on: route))
    }

    /// Maximum wait for another node that asks the upstream, in milliseconds. nil if no other node would wait for this request: its
    /// response is not shared, or no fetch will follow.
    private func sharedWait(
        _ decision: RequestDecision<FoundResponse>, _ head: RequestHead, route: Int, of client: RequestClient
    ) -> Int64? {
        let (_, mayRescue, place) = decision.copyAndPlace
        guard let place, place.takesLease else { return nil }
        if shared.health.mayStop {
            let asking = FailureMemory.Asking(mayRescue: mayRescue, isReading: true, mayLookBehind: background.fetches.hasRoomToLook)
            let scopes = coordination.scopes(of: head, route: route, place.target, client: client.place)
            if shared.health.stops(scopes, asking, now: loop.time.monotonicMilliseconds) { return nil }
        }
        let wait = Int64(settings.collapsing.wait)
        // A request with a stored response waits for another node no longer than for the upstream.
        let softDeadline = routes.all[route].rescueAfter
        return softDeadline > 0 && mayRescue ? min(wait, softDeadline) : wait
    }

    /// Whether the operator permits the client's freshness directives.
    private func obeysClient(of head: RequestHead) -> Bool {
        routes.obeysClient(head.pathAndQuery)
    }

    /// Completes the lookup of a request that is not a plain fresh hit. A separate function, so that the code of a hit stays small.
    @inline(never)
    private func lookFurther(
        _ result: LookUpResult, _ keys: TargetKeys, _ head: RequestHead, _ directives: RequestCacheControl, route: Int,
        _ reuse: ReuseDecision?
    ) throws(NotAtHand) -> LookUpFacts<FoundResponse> {
        var lookedUp = LookUpFacts(result.fact, KeyedTarget(keys: keys, flight: flightKey(result, keys, head)))
        lookedUp.isForPart = RequestUse(head, content: .none) == .lookUpPart
        // Preflight requests are the only OPTIONS requests that are looked up.
        lookedUp.isKeptByContent = isKeptByContent(head) || head.method == .options
        guard let found = result.found else {
            // Loads the stored response without credentials that may be served if the upstream fails, so that the failure can be handled at
            // once.
            if keys.isPartitioned, routes.rescueWithShared(head.pathAndQuery) != .never || keys.former != nil {
                _ = try standIn(for: head, at: keys, directives)
            }
            return lookedUp
        }
        if case .serve(let ttl, _)? = reuse {
            let lifetime = found.metadata.freshnessLifetime ?? 0
            let flight = lookedUp.target.flight.bytes
            lookedUp.isRefreshDue = refreshAhead?.isDue(flight, route: route, ttl: ttl, lifetime: lifetime, now: now) ?? false
        } else if mode(of: head).servesWhatIsStored || routes.all[route].freshness.negative > 0 {
            if let gone = try cache?.gone(beside: found) { lookedUp.gone = .found(gone, gone.metadata) }
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

    // MARK: Carrying out decisions

    func perform(
        _ facts: borrowing RequestFacts<FoundResponse>, _ head: RequestHead, _ body: RequestBody, _ arrival: borrowing Arrival,
        _ stream: any ClientStream
    ) -> (any ClientExchange)? {
        var decision = facts.decide()
        switch decision {
        case .serve(let found, let serving):
            serveHit(found, serving, to: head, arrival, stream)
            return nil
        case .serveAndRefresh(let found, let serving, let cause, _):
            let request = DecidedRequest(head, facts, decision, arrival, client: stream.client.place, shard: self)
            guard isValidatedNow(request, facts, cause) else {
                // When the response is sent, the connection's next request may begin, so the client is determined before.
                let client = upstreamClient(of: stream, head)
                serveHit(found, serving, to: head, arrival, stream)
                refresh(request, cause, client)
                return nil
            }
            background.fetches.noteSkipped()
            decision = facts.decide(mayRefresh: false)
        case .validate, .forward, .part, .pass, .refuse: break
        }
        let request = DecidedRequest(head, facts, decision, arrival, client: stream.client.place, shard: self)
        let exchange = Exchange(
            exchanges, stream: stream, request: request, body: body, client: upstreamClient(of: stream, head), began: arrival.began)
        exchange.start()
        return exchange.isFinished ? nil : exchange
    }

    /// Whether a stale response that may be served at once is validated first, because no background fetch can be started. The client waits
    /// for at most `rescue_after`.
    private func isValidatedNow(
        _ request: DecidedRequest, _ facts: borrowing RequestFacts<FoundResponse>, _ cause: BackgroundCause
    ) -> Bool {
        guard cause == .staleWhileRevalidate, routes.all[request.route].rescueAfter > 0, !background.fetches.mayStart(request)
        else { return false }
        return facts.decide(mayRefresh: false).copyAndPlace.mayRescue
    }

    /// Starts a background fetch or a health check, unless the failure memory forbids it.
    private func refresh(_ request: DecidedRequest, _ cause: BackgroundCause, _ client: UpstreamRequestFields.Client) {
        let asking = request.asking(mayLook: background.fetches.hasRoomToLook)
        switch shared.health.admit(request.scopes, asking, now: loop.time.monotonicMilliseconds) {
        case .go: background.fetches.start(request, client: client, cause, behind: reporting.records.why.lastNumber)
        case .serveCopy(_, looksBehind: true): background.fetches.look(request, client: client, behind: reporting.records.why.lastNumber)
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
