// The machine of one client's exchange that is not a fresh hit: asks through a `Fetch` and answers with what it brings, or with the stored
// copy where that fails. Its states are in `ExchangeState`; each event is one function.

import CachePolicy
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Telemetry
import Upstream

enum ExchangeState {
    /// Another's fetch for the same key is under way.
    case waiting
    /// The upstream has been asked; nothing of the answer has gone out.
    case asking
    /// The answer is passed on as it comes.
    case streaming
    /// The stored copy that goes out is being brought into memory.
    case readingIn
    /// Answered, or the client is gone.
    case finished
}

/// `@unchecked Sendable` because it is touched on its shard's loop only; others carry it there to wake it.
final class Exchange: ClientExchange, FetchReceiver, @unchecked Sendable {
    let shard: ProxyShard
    /// The connection lets go of its exchange when it is answered or closed; so this is no cycle that lasts.
    let connection: ClientConnection
    let head: RequestHead
    /// Let go of when nothing can need it again.
    private var body: RequestBody
    /// Microseconds from its head until its content was whole.
    let waited: Int64
    let plan: ExchangePlan
    private let scopes: RequestScopes
    /// When its head was there.
    let began: Int64
    var state = ExchangeState.asking
    private(set) var fetch: Fetch?
    var upload: Upload
    /// Whether this has waited for another's fetch that failed: not twice.
    private var hasWaited = false
    /// What goes out once it is in memory.
    var prepared: PreparedResponse?
    /// The soft deadline, or the end of waiting for another.
    private var timer: LoopTimer?
    var record: ExchangeRecord
    var trace: ExchangeTrace

    init(shard: ProxyShard, connection: ClientConnection, head: RequestHead, body: RequestBody, plan: ExchangePlan, began: Int64) {
        self.shard = shard
        self.connection = connection
        self.head = head
        self.body = body
        waited = body.waitedMicroseconds
        self.plan = plan
        scopes = shard.scopes(of: head, route: plan.route)
        self.began = began
        upload = Upload(body)
        record = ExchangeRecord(result: plan.key == nil ? .bypass : .miss, method: MethodLabel(head.method), status: 0)
        record.contentMicroseconds = body.outcome == .whole ? waited : nil
        trace = ExchangeTrace(number: shard.why.nextNumber(), plan, partitionAt: shard.partitionOffset, now: shard.now)
        trace.content = body.outcome
    }

    var isFinished: Bool { if case .finished = state { true } else { false } }

    // MARK: Asking

    func start() {
        if let refusal = RequestRefusals.refusal(of: head, fields: shard.requestFields, upstream: shard.settings.forwarding.name) {
            return answerOwn(refusal, result: .error)
        }
        if plan.mode == .offline {
            return answerError(
                504, "Nothing that may be served is stored for this request, and the upstream is not asked now.", proxyError: nil)
        }
        if isForStoredOnly {
            return answerError(504, "Nothing fresh is stored for this request, and it asked for nothing else.", proxyError: nil)
        }
        proceed()
    }

    /// RFC 9111 §5.2.1.7. A request that may change something is never kept from the upstream (§4).
    private var isForStoredOnly: Bool {
        if plan.key != nil || head.method.isRead { return plan.directives.onlyIfCached }
        return head.method == .query && RequestCacheControl(head.fields).onlyIfCached
    }

    /// The upstream is asked, unless it is known to fail, or another asks for the same already.
    private func proceed() {
        let now = shard.loop.time.monotonicMilliseconds
        switch shard.server.health.admit(scopes, asking, now: now) {
        case .go: break
        case .refuse(let stop):
            shard.rechecks.watchAddress()
            return fetchFailed(.stopped(stop))
        case .serveCopy(let stop, let looksBehind):
            if plan.mayShare { shard.rechecks.keep(stop, scopes, head, plan, client: client, behind: trace.number) }
            if looksBehind { shard.backgroundFetches.look(head, plan, client: client, behind: trace.number) }
            return fetchFailed(.stopped(stop))
        }
        guard shard.settings.collapses, plan.mayCollapse, let flight = plan.flightKey else { return ask(leads: nil) }
        let place = shard.server.collapsed.join(flight, now: now, as: ObjectIdentifier(self)) { [loop = shard.loop] outcome in
            loop.execute { self.landed(outcome) }
        }
        switch place {
        case .leader: ask(leads: flight)
        case .alone: ask(leads: nil)
        case .follower:
            state = .waiting
            startTimer()
        }
    }

    private var asking: FailureMemory.Asking {
        if rescue != nil { return .withCopy(mayLookBehind: plan.mayShare && shard.backgroundFetches.hasRoomToLook) }
        return head.method.isSafe || plan.key != nil ? .reading : .writing
    }

    private func ask(leads flight: [UInt8]?) {
        state = .asking
        let request = shard.upstreamRequest(for: head, body, plan, client: client)
        let subject = Fetch.Subject(head: head, plan, mayRescue: rescue != nil, scopes: scopes)
        let fetch = Fetch(shard: shard, subject: subject, request: request, body: body, leads: flight, receiver: self)
        self.fetch = fetch
        startTimer()
        awaitContinue()
        shard.countRequestBytes(body.bytes.count)
        fetch.start()
        if connection.hasPeerEnded { clientEnded() }
    }

    private var client: UpstreamRequestFields.Client { UpstreamRequestFields.Client(connection, head) }

    /// Age and freshness left of the stored copy, where it may go out while the upstream fails.
    private var rescue: (age: Int64, ttl: Int64?)? {
        guard let found = plan.found, plan.mode != .record else { return nil }
        let strictness = shard.settings.policy.strictness
        guard case .allowed(let age, let ttl) = Reuse.rescue(found.metadata, plan.directives, strictness: strictness, now: shard.now) else {
            return nil
        }
        return (age, ttl)
    }

    // MARK: Time

    /// Where a copy may go out, the upstream has so long for a whole good answer; else only waiting for another is bounded.
    private func startTimer() {
        timer?.cancel()
        timer = nil
        let softDeadline = shard.routes.all[plan.route].rescueAfter
        if softDeadline > 0, rescue != nil {
            timer = shard.loop.schedule(after: .milliseconds(softDeadline)) { self.softDeadlinePassed() }
        } else if case .waiting = state {
            timer = shard.loop.schedule(after: .milliseconds(shard.settings.collapseWait)) { self.waitedTooLong() }
        }
    }

    /// The copy goes out; the fetch goes on and fills the store.
    private func softDeadlinePassed() {
        switch state {
        case .asking: fetch?.noteSlowness()
        case .waiting: break
        case .streaming, .readingIn, .finished: return
        }
        guard plan.found != nil, rescue != nil else { return }
        stopWaiting()
        if let flight = plan.flightKey { shard.server.collapsed.noteSlow(flight) }
        noteUpstream()
        leaveFetch(.slow)
        answer(.slow)
    }

    /// It goes on without us where it may fill the store, or change something.
    private func leaveFetch(_ cause: BackgroundCause) {
        guard let fetch else { return }
        let record = BackgroundRecord(shard: shard, head: head, trace, cause, began: began + waited)
        fetch.abandon(isRequestWhole: upload.isWhole, to: record)
        self.fetch = nil
    }

    private func waitedTooLong() {
        guard case .waiting = state else { return }
        stopWaiting()
        if let flight = plan.flightKey { shard.server.collapsed.noteSlow(flight) }
        ask(leads: nil)
    }

    /// Nobody need wake this any more.
    private func stopWaiting() {
        if case .waiting = state, let flight = plan.flightKey { shard.server.collapsed.leave(flight, ObjectIdentifier(self)) }
    }

    // MARK: Another's fetch

    private func landed(_ outcome: CollapsedRequests.Outcome) {
        guard case .waiting = state else { return }
        timer?.cancel()
        switch outcome {
        case .stored: takeOver()
        case .outdated: takeOverLater()
        case .unshareable: ask(leads: nil)
        case .abandoned: proceed()
        case .failed(let failure) where rescue != nil: fetchFailed(failure)
        // The leader got what the upstream said. So does each of the others: they ask themselves.
        case .failed(.fault) where hasWaited: ask(leads: nil)
        case .failed(let failure) where hasWaited: fetchFailed(failure)
        case .failed:
            hasWaited = true
            proceed()
        }
    }

    /// What was stored while this waited. What was stored before it came is not what it waited for.
    private func takeOverLater() {
        guard case .waiting = state else { return }
        guard let found = plan.found, let cache = shard.lookUp else { return takeOver() }
        do throws(NotAtHand) {
            guard try cache.isStill(found) else { return takeOver() }
        } catch {
            trace.noteDiskRead()
            return cache.bringIn(error) { [self] in shard.loop.execute { self.takeOverLater() } }
        }
        guard !hasWaited else { return ask(leads: nil) }
        hasWaited = true
        proceed()
    }

    /// The answer that another request brought, where it is one for this request too.
    /// - Parameter reads: how often something was brought into memory for it.
    private func takeOver(reads: Int = 0) {
        guard case .waiting = state else { return }
        guard let keys = plan.keys, let lookUp = shard.lookUp else { return ask(leads: nil) }
        do throws(NotAtHand) {
            let found = try lookUp.waiting(reads >= ResponseCache.readLimit) { () throws(NotAtHand) in try lookUp.find(head, from: keys) }
            guard let found = found.result.found else { return ask(leads: nil) }
            takeOver(found)
        } catch {
            trace.noteDiskRead()
            lookUp.bringIn(error) { [self] in
                shard.loop.execute { self.takeOver(reads: reads + 1) }
            }
        }
    }

    private func takeOver(_ found: FoundResponse) {
        // To the letter, one answer is for several requests only where each of them may have it unasked (RFC 9111 §4).
        if shard.settings.policy.strictness == .strict, case .validate = Reuse.decide(found.metadata, plan.directives, now: shard.now) {
            return ask(leads: nil)
        }
        let age = Freshness.currentAge(of: found.metadata, now: shard.now)
        record.result = .collapsed
        var lines: [UInt8] = []
        lines.append(age: age)
        shard.cacheStatus.forwarded(forwardToken, collapsed: true, key: shownKey, to: &lines)
        sendStored(found, age: age, lines)
    }

    // MARK: The client's events

    func responseDrained() { fetch?.resume() }

    func clientLeft() {
        guard !isFinished else { return }
        stopWaiting()
        state = .finished
        stopTimer()
        leaveFetch(.clientLeft)
        record.status = 499
        record.result = .error
        shard.finish(&record, trace, head, connection, began)
    }

    /// A client that is gone must not wait for a connection before those who are there. One that still reads has what can be had without one.
    func clientEnded() {
        guard case .asking = state, let fetch, fetch.mayLeaveQueue else { return }
        leaveFetch(.clientLeft)
        fetchFailed(.transfer(.connectionLimitReached))
    }

    func mustAnswer() {
        switch state {
        case .waiting, .asking:
            if fetch != nil { noteUpstream() }
            leaveFetch(.slow)
            fetchFailed(.slow)
        case .streaming: streamBroke(.connectionTerminated)
        case .readingIn, .finished: break
        }
    }

    // MARK: The fetch's events

    func fetchAnswered(_ answer: WholeAnswer) {
        noteUpstream()
        var lines: [UInt8] = []
        var detail: String?
        trace.isStored = answer.storage == .allowed
        trace.isGone = answer.isRememberedAsGone
        if case .forbidden(let reason) = answer.storage {
            trace.notStored = reason
            trace.fault = answer.fault
            record.notStored = MetricNames.place(of: reason)
            detail = reason.rawValue
        }
        shard.cacheStatus.forwarded(forwardToken, stored: answer.storage == .allowed, key: shownKey, detail: detail, to: &lines)
        if let fault = answer.fault { appendProxyStatus(details: fault, to: &lines) }
        record.bodyBytes = answer.content.count
        // The client's own conditions were not sent on, so they are answered here.
        if plan.found != nil || answer.ownTag != nil, head.method.isSafe, let metadata = answer.metadata {
            let isNotModified = answer.storedHead.withUnsafeBytes { Preconditions.isNotModified(head.fields, stored: metadata, head: $0) }
            if isNotModified {
                record.bodyBytes = 0
                appendCookies(answer.head.fields.all(.setCookie), to: &lines)
                let notModified = answer.storedHead.withUnsafeBytes { Preconditions.notModifiedHead($0) }
                return sendWhole(notModified, lines, .none, status: 304)
            }
        }
        var bytes: [UInt8] = []
        var passed = passedOn(answer.head)
        if let tag = answer.ownTag { passed.fields.append(.etag, tag) }
        ResponseSerializer.append(passed, to: &bytes)
        if !answer.head.status.forbidsContent {
            bytes.append("Content-Length: ")
            bytes.append(decimal: answer.content.count)
            bytes.append("\r\n")
        }
        sendWhole(bytes, lines, .bytes(answer.content), status: answer.head.status)
    }

    func fetchConfirmed(_ confirmation: Confirmation) {
        noteUpstream()
        record.result = .revalidated
        let age = Freshness.currentAge(of: confirmation.metadata, now: shard.now)
        var lines: [UInt8] = []
        lines.append(age: age)
        shard.cacheStatus.forwarded(forwardToken, status: 304, key: shownKey, to: &lines)
        if shard.settings.policy.setCookie != .keep { appendCookies(confirmation.cookies, to: &lines) }
        confirmation.head.withUnsafeBytes { sendStored(confirmation.found, head: $0, confirmation.metadata, age: age, lines) }
    }

    func fetchFailed(_ failure: FetchFailure) {
        if fetch != nil { noteUpstream() }
        answer(failure)
    }

    /// With a copy where one may go out. What tells of that is brought into memory first.
    /// - Parameter reads: how often something was.
    private func answer(_ failure: FetchFailure, reads: Int = 0) {
        guard let lookUp = shard.lookUp else { return answerFailure(failure) }
        do throws(NotAtHand) {
            try lookUp.waiting(reads >= ResponseCache.readLimit) { () throws(NotAtHand) in try answerInMemory(failure) }
        } catch {
            state = .readingIn
            stopTimer()
            trace.noteDiskRead()
            lookUp.bringIn(error) { [self] in
                shard.loop.execute {
                    guard case .readingIn = self.state else { return }
                    self.answer(failure, reads: reads + 1)
                }
            }
        }
    }

    private func answerInMemory(_ failure: FetchFailure) throws(NotAtHand) {
        if let found = plan.found, let rescue { return try serveOwnCopy(found, rescue, failure) }
        if plan.found == nil, let keys = plan.keys, keys.isPartitioned, plan.mode != .record {
            switch try shard.standIn(for: head, at: keys, plan.directives, route: plan.route) {
            case .found(let copy): return try serveStandIn(copy, failure)
            case .forbidden(let reason): trace.notStoodIn = reason
            case .nothing: break
            }
        }
        answerFailure(failure)
    }

    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason) -> Bool {
        noteUpstream()
        stopTimer()
        state = .streaming
        body = .none
        if plan.key != nil { record.notStored = MetricNames.place(of: notStored) }
        trace.notStored = notStored
        record.status = head.status.rawValue
        var lines: [UInt8] = []
        shard.cacheStatus.forwarded(forwardToken, key: shownKey, detail: plan.key == nil ? nil : notStored.rawValue, to: &lines)
        let framing: ResponseFraming =
            if head.status.forbidsContent {
                .none
            } else if let length {
                .length(length)
            } else {
                self.head.method == .head ? .none : .chunked
            }
        appendWhy(to: &lines)
        // What could have been taken whole is read at the upstream's pace, so its connection is free at the end.
        let limit = shard.settings.bufferLimitBytes
        connection.startResponse(passedOn(head), lines: lines, framing: framing, readAhead: (length ?? 0) > limit ? 0 : limit)
        return true
    }

    func streamBrought(_ bytes: Span<UInt8>) {
        guard case .streaming = state else { return }
        record.bodyBytes += bytes.count
        if !connection.write(bytes) { fetch?.pause() }
    }

    func streamEnded() {
        guard case .streaming = state else { return }
        state = .finished
        connection.endResponse()
        finish(Status(rawValue: record.status))
    }

    func streamBroke(_ error: UpstreamError) {
        guard case .streaming = state else { return }
        // A client whose connection ends without an answer may send its request again.
        if connection.takeBackResponse() {
            (record.notStored, trace.notStored, record.bodyBytes) = (nil, nil, 0)
            return fetchFailed(.transfer(error))
        }
        state = .finished
        record.result = .error
        finish(Status(rawValue: record.status))
        connection.abortResponse()
    }

    /// The timer holds the exchange: so it must end with it.
    func stopTimer() {
        timer?.cancel()
        timer = nil
        stopAwaitingContinue()
    }
}
