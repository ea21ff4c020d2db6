// The last stage, `decide`: decides by `RequestFacts.decide`, and carries out the decision. Stages that refuse or forward a request without
// a lookup decide here too.

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

/// The stage that preceded the decision, with its results.
enum DecidedStage {
    /// - Parameter isForNobody: whether no API serves the request.
    case refused(isForNobody: Bool)
    /// The request bypasses the store. The parameter is the upstream connection that it must use; nil: any connection of the pool.
    case passed(OwnedConnection?)
    case lookedUp(LookedUp)
}

extension RequestEntry {
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
                let client = upstreamClient(of: stream, head)
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
        let exchange = Exchange(
            exchanges, stream: stream, request: request, body: body, client: upstreamClient(of: stream, request.head), began: began)
        exchange.start()
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

    func upstreamClient(of stream: any ClientStream, _ head: RequestHead) -> UpstreamRequestFields.Client {
        UpstreamRequestFields.Client(stream.client, head, isTrusted: admission.isTrusted(stream))
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
