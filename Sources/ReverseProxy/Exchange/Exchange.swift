// A client's exchange that is not a fresh hit: fetches the response, or serves the stored one if the fetch fails. `ExchangeMachine` decides
// the next step; `RequestDecision` and `OutcomeDecision` decide what is sent. This class carries out their decisions.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Upstream

/// `@unchecked Sendable` because it is used on its shard's loop only; other threads only pass its reference to that loop.
final class Exchange: ClientExchange, FetchReceiver, FlightFollower, @unchecked Sendable {
    let context: ExchangeContext
    /// The connection releases its exchange when the response is sent or the connection closes, so no reference cycle remains.
    let stream: any ClientStream
    let request: DecidedRequest
    /// Content of the request. Released when no further attempt needs it.
    var body: RequestBody
    /// Time from the request head until the content was complete, in microseconds.
    let waited: Int64
    /// Time at which the request head was complete, in microseconds.
    let began: Int64
    var machine: ExchangeMachine
    private(set) var fetch: Fetch?
    /// The flight that this exchange leads or follows, or did last.
    private var flight: Flight?
    var upload: Upload
    /// A stored response that is sent once its content is in memory.
    var prepared: PreparedResponse?
    /// The soft deadline, or the end of the wait for another request.
    private var timer: LoopTimer?
    /// Soft deadline in milliseconds of the loop's clock. It covers all fetches and waits of the exchange.
    private var deadline: Int64?
    /// End of all waits for fetches of other requests, on this node and others, in milliseconds of the loop's clock.
    private var waitEnd: Int64?
    /// Whether the last awaited fetch belonged to another client.
    private var hasWaitedForAnother = false
    /// Order of the fetch that was awaited last.
    private var flightOrder = SentOrder.unknown
    var record: ExchangeRecord
    /// Compression of a streamed response; nil if it is forwarded unchanged.
    var coding: PassedCoding?
    /// The client of the request, and what is forwarded to the upstream about it.
    let owner: RequestClient
    let client: UpstreamRequestFields.Client
    /// Slot in the request budget of the client's address. nil if the address does not count, or once the fetch holds the slot.
    private var slot: AddressBudget.Slot?
    /// nil if no recording is active.
    let recording: ExchangeRecording?

    init(
        _ context: borrowing ExchangeContext, stream: borrowing any ClientStream, request: borrowing DecidedRequest, body: RequestBody,
        client: UpstreamRequestFields.Client, began: Int64
    ) {
        self.context = copy context
        self.stream = copy stream
        self.request = copy request
        self.body = body
        waited = body.waitedMicroseconds
        self.began = began
        machine = ExchangeMachine(mayJoin: context.rules.collapses && request.fetchTarget.map { $0.sharing != .none } ?? false)
        upload = Upload(body)
        owner = stream.client
        self.client = client
        slot = request.refusal == nil ? context.coordination.requestsPerAddress?.take(owner.clientAddress) : nil
        record = request.record
        record.number = context.reporting.records.why.nextNumber()
        record.content.outcome = body.outcome
        if body.outcome == .whole { record.content.microseconds = waited }
        // The data of a tunnel is not the content of a response.
        let recorder = body.framing == .tunnel ? nil : context.reporting.api.process.recorder
        recording = recorder.flatMap {
            ExchangeRecording(
                $0, request.head, content: body.bytes, started: context.loop.batchWallMilliseconds,
                began: context.loop.time.monotonicMilliseconds)
        }
    }

    var isFinished: Bool { machine.isFinished }
    var head: RequestHead { request.head }

    func refuse(_ refusal: Refusal) {
        context.coordination.endLease(of: request.fetchTarget)
        if case .request(.access(let refusal)) = refusal { context.reporting.countRefused(refusal) }
        sendOwn(refusal.response(accept: head.fields.combined(.accept), name: context.rules.name))
    }

    // MARK: The machine

    /// Performs the action that follows an event. An action may cause another event, until none follows.
    /// - Parameter accept: handles the data of the event.
    func handle(_ first: ExchangeMachine.Event, accept: () -> Void = {}) {
        context.loop.assertOnLoop()
        var next: ExchangeMachine.Event? = first
        while let event = next {
            next = nil
            switch machine.handle(event) {
            case .nothing: break
            case .consultFailureMemory: next = .admitted(consultFailureMemory())
            case .join: next = .joined(join())
            case .wait: startTimer()
            case .fetch(let leads): startFetch(leads: leads)
            case .fetchInstead:
                leaveFlight(isSlow: true)
                startFetch(leads: false)
            case .decide(let ending): decide(ending)
            case .leaveAndDecide(let ending):
                leave(isSlow: false)
                decide(ending)
            case .leaveAndAccept:
                leave(isSlow: true)
                accept()
            case .accept: accept()
            }
        }
    }

    // MARK: Asking

    private func consultFailureMemory() -> FailureAdmission {
        let kind = request.requestKind(mayCheck: context.background.fetches.mayCheck)
        let admission = context.coordination.health.admit(request.scopes, kind, now: context.loop.batchMilliseconds)
        switch admission {
        case .go: break
        case .refuse: context.background.rechecks.watchAddress()
        case .serveCopy(let stop, let checksInBackground):
            if stop.scope == .address { context.background.rechecks.watchAddress() }
            if checksInBackground { context.background.fetches.sendCheck(request, client: client, behind: record.number) }
        }
        return admission
    }

    private func join() -> FlightRole {
        guard let fetchTarget = request.fetchTarget else { return .alone }
        let now = context.loop.time.monotonicMilliseconds
        let waitEnd = waitEnd ?? (request.waitedSince ?? now) + context.rules.collapseWait
        self.waitEnd = waitEnd
        let coordination = context.coordination
        if coordination.level.isForEachRequest(fetchTarget.keys.own) {
            flight = nil
            return .alone
        }
        let user = request.scopes.user
        let joined = coordination.collapsed.join(
            fetchTarget.target.flight, now: context.loop.batchMilliseconds, by: user, as: self, mayWait: now < waitEnd)
        flight = joined.flight
        return joined.role
    }

    var span: SpanContext { head.span }

    func noteLeader(span leader: SpanContext) { context.reporting.records.tracer?.noteLeader(leader, of: span) }

    var clientNumber: UInt64 { request.scopes.client }

    func flightEnded(_ outcome: FlightOutcome, isOwn: Bool, order: SentOrder) {
        context.loop.execute {
            (self.hasWaitedForAnother, self.flightOrder) = (!isOwn, order)
            // The flight may belong to another target, which has a separate lease.
            if outcome != .abandoned { self.context.coordination.endLease(of: self.request.fetchTarget) }
            self.handle(.flightEnded(outcome))
        }
    }

    private func startFetch(leads: Bool) {
        let fetch = context.requests.makeFetch(request, body, self)
        fetch.slot = slot
        slot = nil
        self.fetch = fetch
        startTimer()
        awaitContinue()
        context.reporting.count(.requestBytes, by: body.bytes.count)
        record.reasons.isMethodOverrideRemoved = !request.keepsMethodOverride && context.requests.fields.removesMethodOverride(from: head)
        let sent = context.requests.make(for: request, body, client: client)
        fetch.start(consume sent, leads: leads ? flight : nil)
        if stream.hasPeerEnded { clientEnded() }
    }

    // MARK: Time

    /// Starts a timer. If a stored response may be served, the soft deadline limits the wait for the upstream's complete response.
    /// Otherwise the timer only limits the wait for other requests.
    private func startTimer() {
        timer?.cancel()
        timer = nil
        let rescueAfter = context.rules.routes.all[request.route].rescueAfter
        let softDeadline =
            request.mayRescue
            ? context.coordination.health.patience(request.scopes, limit: rescueAfter, atMost: context.rules.firstByteTimeout) : 0
        if softDeadline > 0 {
            record.upstream.patience = softDeadline == rescueAfter ? 0 : UInt32(clamping: softDeadline)
            let now = context.loop.time.monotonicMilliseconds
            // The request may already have waited for another node.
            let deadline = self.deadline ?? (request.waitedSince ?? now) + softDeadline
            self.deadline = deadline
            startTimer(until: deadline, sendingAt: deadline - softDeadline / 2, now)
        } else if case .waiting = machine.state, let waitEnd {
            let now = context.loop.time.monotonicMilliseconds
            startTimer(until: waitEnd, sendingAt: min(waitEnd, now + Self.otherFetchMilliseconds), now, then: .waitedTooLong)
        }
    }

    /// Maximum wait for another request's fetch alone, if there is no stored response.
    private static let otherFetchMilliseconds: Int64 = 1_000

    /// The fetch of another request may get no response. At `sendTime`, this request is sent as well. If the last fetch of the flight began
    /// shortly before, this request waits once more.
    private func startTimer(
        until deadline: Int64, sendingAt sendTime: Int64, _ now: Int64, then event: ExchangeMachine.Event = .softDeadlinePassed
    ) {
        guard case .waiting = machine.state, let flight, now < sendTime else {
            timer = context.loop.schedule(after: .milliseconds(max(0, deadline - now))) { self.handle(event) }
            return
        }
        timer = context.loop.schedule(after: .milliseconds(sendTime - now)) { [self] in
            let waited = sendTime - now
            let now = context.loop.time.monotonicMilliseconds
            if context.coordination.collapsed.leadToo(flight, self, after: waited, now: now) { return handle(.leadsToo) }
            let next = now + max(waited, Self.otherFetchMilliseconds / 2)
            startTimer(until: deadline, sendingAt: next < deadline ? next : .min, now, then: event)
        }
    }

    /// Cancels the timers, which retain the exchange.
    func stopTimers() {
        timer?.cancel()
        timer = nil
        if case .awaitingContinue = upload { stopAwaitingContinue() }
    }

    // MARK: Ending a wait or a fetch

    /// Ends the wait and the fetch, because another source provides the response.
    private func leave(isSlow: Bool) {
        if isSlow || fetch != nil { noteUpstream() }
        leaveFlight(isSlow: isSlow)
        leaveFetch(.slow)
    }

    /// - Parameter isSlow: if true, no further request waits for the flight.
    private func leaveFlight(isSlow: Bool) {
        guard request.fetchTarget != nil else { return }
        if let flight {
            context.coordination.collapsed.leave(flight, ObjectIdentifier(self))
            if isSlow { context.coordination.collapsed.noteSlow(flight) }
        }
        flight = nil
        if fetch == nil { context.coordination.endLease(of: request.fetchTarget) }
    }

    /// Transfers the fetch to a background record, and the fetch continues. If the client has disconnected, or later requests cannot wait
    /// for the fetch, it may end instead (`Fetch.abandon`).
    private func leaveFetch(_ cause: BackgroundCause) {
        guard let fetch else { return }
        let mayContinue = cause != .clientLeft && (fetch.isInFlight || !request.isReading) || mayContinue(fetch)
        let successor = BackgroundRecord(context.reporting, head: head, record, cause, began: began + waited)
        fetch.abandon(isRequestWhole: upload.isWhole, mayContinue: mayContinue, to: successor)
        self.fetch = nil
    }

    // MARK: Outcomes

    /// Decides what follows an ending. If the decision needs stored data that is not in memory, the data is loaded first.
    /// - Parameter reads: number of disk reads so far.
    private func decide(_ ending: Ending, reads: Int = 0) {
        guard machine.expects(ending) else { return }
        switch ending {
        case .failed(let failure):
            stopTimers()
            if case .stopped = failure { context.coordination.endLease(of: request.fetchTarget) }
        case .flight:
            timer?.cancel()
            timer = nil
        case .softDeadline, .waitLimit, .copyTaken: break
        }
        var facts = OutcomeFacts<FoundResponse>(
            request.directives, request.mode, strictness: context.rules.strictness, now: context.loop.now)
        (facts.hasWaited, facts.isOfAnotherClient, facts.flightOrder) = (machine.hasWaited, hasWaitedForAnother, flightOrder)
        facts.staleFor = context.rules.routes.all[request.route].freshness.staleFor
        facts.bypass = request.record.reasons.bypass
        if ending.dependsOnStore, let cache = context.cache {
            do throws(NotInMemory) {
                facts.stored = try cache.waiting(reads >= ResponseCache.readLimit) { () throws(NotInMemory) in
                    try storedNow(for: ending, cache)
                }
            } catch {
                record.noteDiskRead()
                return cache.load(error, on: context.loop) { self.decide(ending, reads: reads + 1) }
            }
        }
        let outcome = facts.decide(ending)
        handle(.decided(outcome.next, of: ending)) { self.respond(outcome) }
    }

    private func storedNow(for ending: Ending, _ cache: ResponseCache) throws(NotInMemory) -> StoredNow<FoundResponse> {
        var stored = StoredNow<FoundResponse>()
        if ending.mayBeProvoked, cache.hasRefused(head, at: request.lookedUp?.keys) { return stored }
        stored.found = request.found.map { ($0, $0.metadata) }
        guard request.mode != .record else { return stored }
        if ending.isFailure, let basis = request.basis, cache.state.holds(basis, now: context.loop.now) {
            stored.current = stored.found
        } else if let keys = request.lookedUp?.keys {
            stored.current = try cache.find(head, from: keys).result.found.map { ($0, $0.metadata) }
        }
        // After a failure, any stored response is served.
        if !ending.isFailure || ending == .softDeadline, let latest = stored.latest {
            stored.isSelected =
                RequestLikeness.isSelected(latest.metadata, by: head.fields) && !latest.metadata.flags.contains(.startsSession)
        }
        guard ending.isFailure else { return stored }
        // A response that was removed by a write or a purge must not be served, even if it is still in memory. An evicted one may be.
        if stored.current == nil, let found = request.found, let keys = request.lookedUp?.keys,
            cache.mayBeInvalidated(found, of: head, at: keys, since: request.lookedUpAt)
        {
            stored.found = nil
        }
        if stored.latest == nil, let keys = request.lookedUp?.keys {
            stored.current = try cache.findSuperseded(head, at: keys).map { ($0, $0.metadata) }
        }
        if let latest = stored.latest {
            stored.gone = try cache.gone(beside: latest.response).map { ($0, $0.metadata) }
        } else if let keys = request.lookedUp?.keys, keys.isPartitioned {
            stored.sharedRescue = try findSharedRescue(keys, cache)
        }
        return stored
    }

    private func findSharedRescue(_ keys: TargetKeys, _ cache: ResponseCache) throws(NotInMemory)
        -> StoredNow<FoundResponse>.SharedRescueCandidate
    {
        let mode = context.rules.routes.sharedRescueMode(head.pathAndQuery)
        return switch try cache.sharedRescue(for: head, at: keys, request.directives, mode, now: context.loop.now) {
        case .nothing: .nothing
        case .forbidden(let reason): .forbidden(reason)
        case .found(let copy): .allowed(Rescue(copy.found, age: copy.age, ttl: copy.ttl, .sharedRescue(copy.permission)))
        }
    }

    // MARK: The client's events

    func responseDrained() { fetch?.resume() }

    func clientLeft() {
        handle(.clientLeft) {
            leaveFlight(isSlow: false)
            stopTimers()
            leaveFetch(.clientLeft)
            record.status = 499
            record.result = .error
            recording?.finish()
            context.reporting.finish(&record, head, owner, began)
        }
    }

    /// Returns whether a fetch continues that its client no longer needs. A write that was not sent completely, and a fetch that another
    /// request or node needs, does. Any other fetch takes a slot of the client's address; false at the limit. A second call keeps the slot.
    private func mayContinue(_ fetch: Fetch) -> Bool {
        guard request.isReading || fetch.isSent, fetch.isForOwnClient, !fetch.holdsLease else { return true }
        fetch.continuation = fetch.continuation ?? context.coordination.abandoned.takeWithinLimit(owner.clientAddress)
        return fetch.continuation != nil
    }

    /// A disconnected client must not get a connection before other clients. If it still reads, it gets responses that need no connection,
    /// such as a stored one. It must not occupy the upstream with many requests either: its connection ends then.
    func clientEnded() {
        guard case .fetching = machine.state, let fetch else { return }
        if fetch.mayLeaveQueue {
            leaveFetch(.clientLeft)
            fetchFailed(.transfer(.connectionLimitReached))
        } else if !mayContinue(fetch) {
            clientLeft()
            stream.abortResponse()
        }
    }

    func respondNow() {
        if machine.state == .streaming { streamBroke(.connectionTerminated) } else { handle(.mustRespond) }
    }
}
