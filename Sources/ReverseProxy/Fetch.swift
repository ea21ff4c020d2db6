// One fetch: asks the upstream, takes the response whole where it may be kept or a stored copy could replace it, has it looked at, and hands it to
// the cache. What is done with a response is decided by `ResponseDecision`; here it is done. A fetch does not know whether a client still waits: one
// that fills the store goes on without one.

import CachePolicy
import Coordination
import Decisions
import Downstream
import Examination
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// `@unchecked Sendable` because it is touched on its shard's loop only; the worker's results are brought there, and the store's readers do no
/// more than carry it back.
final class Fetch: TransferReceiver, @unchecked Sendable {
    /// What is done with the response.
    enum Mode {
        case awaitingHead
        case collecting(ResponseHead, CollectedFor)
        /// It is whole and long, and is looked at beside the loop.
        case examining
        /// A 304 to our own conditions.
        case confirming(ResponseHead)
        /// A response to our own conditions that is none to the client's request: that goes out again, without conditions, once it has ended.
        case misled(discardedBytes: Int)
        case streaming
        /// It has come whole; what storing it looks at is being brought into memory.
        case readingIn
        /// Nobody wants it any more; the rest is read so that the connection can be used again.
        case discarding(bytes: Int)
        case ended
    }

    /// What the failure memory has heard of it.
    struct Report {
        /// The response's status says that the upstream is in trouble.
        var isTrouble = false
        /// It has failed: that is reported once.
        var hasFailed = false
    }

    let shard: ProxyShard
    let subject: DecidedRequest
    /// Where the response is stored; nil where the store has nothing to do with it.
    var keys: TargetKeys?
    private var request: UpstreamRequest
    /// Let go of when the response begins: it is not sent again then.
    private var body: RequestBody
    /// Where others wait for what this fetch brings: the key under which they do. They are told once.
    private var flight: [UInt8]?
    /// Let go of when the fetch has told its end, or when the client left.
    var receiver: (any FetchReceiver)?
    private var transfer: Transfer?
    private var mode = Mode.awaitingHead
    private(set) var collected = CollectedContent()
    private var lastTimes = TransferTimes()
    /// What the upstream responded with, as soon as that is known.
    private(set) var status: Status?
    /// Milliseconds of the loop's clock.
    private(set) var began: Int64 = 0
    var report = Report()
    /// Of what comes of it: when the request was sent and its response came, and its place among all that were sent.
    private(set) var recency = Recency(
        order: .unknown, isImported: false, requestTime: Timestamp(milliseconds: 0), responseTime: Timestamp(milliseconds: 0))

    /// Read and thrown away of a response that nobody wants; beyond it the connection is closed instead.
    private static let discardLimitBytes = 64 * 1024

    init(shard: ProxyShard, subject: DecidedRequest, request: UpstreamRequest, body: RequestBody, receiver: any FetchReceiver) {
        self.shard = shard
        keys = subject.place?.keys
        self.subject = subject
        self.request = request
        self.body = body
        self.receiver = receiver
    }

    /// Sends the request; the receiver is told at once where it cannot even be tried.
    /// - Parameter flight: the key under which others wait for this fetch.
    func start(leads flight: [UInt8]?) {
        self.flight = flight
        shard.cache?.noteCookies(sentWith: subject.head, isReading: subject.isReading)
        began = clock
        let shares = shard.shares(of: subject.scopes)
        request.shares = request.shares.isEmpty ? shares : request.shares + shares
        if !subject.head.method.isSafe { shard.cache?.readAhead(forWrite: subject.head) }
        ask()
    }

    private func ask() {
        noteSending()
        transfer = shard.upstream.start(request, receiver: self)
        guard let transfer else { return failed(.transfer(.connectionLimitReached)) }
        guard case .whole(let content) = body else { return }
        transfer.write(whole: content.bytes)
    }

    /// It may have waited for a connection, or be sent for the second time.
    func transferBegins(_ transfer: Transfer) { noteSending() }

    private func noteSending() {
        recency.requestTime = shard.now
        recency.order = shard.sentRequests.take()
    }

    /// When each phase of asking ended.
    var times: TransferTimes { transfer?.times ?? lastTimes }

    var clock: Int64 { shard.loop.time.monotonicMilliseconds }

    /// Tells those who wait for this fetch, once.
    func land(_ outcome: FlightOutcome) {
        guard let flight else { return }
        self.flight = nil
        shard.collapsed.end(flight, outcome, now: clock)
    }

    /// Nothing good comes.
    func failed(_ failure: FetchFailure) {
        mode = .ended
        land(.failed(failure))
        let receiver = self.receiver
        self.receiver = nil
        receiver?.fetchFailed(failure)
    }

    // MARK: The client's side

    /// Returns false where the exchange should wait for `fetchDrained`.
    func write(_ bytes: Span<UInt8>) -> Bool {
        transfer?.write(bytes) ?? true
    }

    func endContent() { transfer?.endContent() }
    func pause() { transfer?.pause() }
    func resume() { transfer?.resume() }

    /// Whether nothing has been sent, nothing will change anything, and nobody else waits for it: so nobody misses it if it is never sent. A write
    /// whose content is whole is not among them: its client may have left in the belief that it is done.
    var mayLeaveQueue: Bool {
        guard case .awaitingHead = mode, transfer?.isQueued == true, subject.isReading else { return false }
        return flight.map { !shard.collapsed.hasFollowers($0) } ?? true
    }

    /// The client is gone. What fills the store goes on, unless it still waits for a connection: then others have that sooner. So does a request
    /// that has been sent whole, since it may change something.
    /// - Parameter successor: takes the client's place.
    func abandon(isRequestWhole: Bool, to successor: BackgroundRecord) {
        receiver = nil
        switch mode {
        case .awaitingHead where !isRequestWhole || mayLeaveQueue, .streaming: end()
        case .awaitingHead, .collecting, .examining, .confirming, .misled, .readingIn:
            successor.fetch = self
            receiver = successor
        case .discarding, .ended: break
        }
    }

    private func end() {
        mode = .ended
        receiver = nil
        land(.abandoned)
        transfer?.cancel()
        transfer = nil
    }

    // MARK: The upstream's side

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        receiver?.fetchInformed(ResponseHead(status: head.status, reason: head.reason, fields: head.fields.removingHopByHop()))
    }

    func transfer(_ transfer: Transfer, received head: ResponseHead) {
        recency.responseTime = shard.now
        status = head.status
        judge(head)
        invalidate(after: head)
        let length = head.fields.first(.contentLength).flatMap(DeltaSeconds.length)
        let response = ResponseHead(status: head.status, reason: head.reason, fields: head.fields.removingHopByHop())
        perform(decide(response, length: length), response, length: length)
    }

    private func decide(_ response: ResponseHead, length: Int?) -> ResponseDecision {
        // The operator's demands matter where there is a copy.
        var facts = ResponseFacts(
            subject.head, sent: request.fields, response, copy: subject.found.map { ($0.metadata, $0.head) },
            mayRescue: subject.mayRescue, isLookedUp: keys != nil, good: subject.found == nil ? GoodResponse() : good,
            strictness: shard.settings.policy.strictness)
        if let decision = facts.judge() { return decision }
        if hasStandIn(insteadOf: response.status) { return .fail(.serverError) }
        // Now its place is known, where that is another than its request's.
        let storage = storageDecision(response)
        let gone = judgeGone(response, storage)
        if case .routesLost = gone { return .fail(.routesLost) }
        facts.isLookedUp = keys != nil
        let room = ResponseFacts.Room(
            length: length, limitBytes: shard.settings.bufferLimitBytes, examinedAtOnceBytes: shard.settings.examinedAtOnceBytes,
            isExaminerFull: shard.worker.isFull)
        return facts.use(storage, saysGone: gone.isCandidate, room)
    }

    private func perform(_ decision: ResponseDecision, _ response: ResponseHead, length: Int?) {
        // Whatever is done with it: a 200 to HEAD tells of what is stored for GET (RFC 9111 §4.3.5).
        if subject.head.method == .head, response.status == 200 {
            whenAtHand(storing: response, isUpdate: true) { self.updateStored(by: response) }
        }
        switch decision {
        case .fail(let fault):
            note(fault)
            failed(.fault(fault, response.status))
            mode = .discarding(bytes: 0)
            collected.removeAll()
        case .confirm: mode = .confirming(response)
        case .askWithoutConditions: mode = .misled(discardedBytes: 0)
        case .collect(let purpose):
            collected.begin(length: length, isJSON: isJSON(response) && ContentCoding(response.fields) == .identity)
            mode = .collecting(response, purpose)
        case .stream(let reason): stream(response, length: length, reason)
        }
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        switch mode {
        case .collecting(let head, _):
            let limit = shard.settings.bufferLimitBytes
            guard collected.bytes.count + bytes.count <= limit else { return overflow(head, bytes) }
            collected.append(bytes, limit: limit)
        case .streaming: receiver?.streamBrought(bytes)
        case .discarding(let count):
            mode = .discarding(bytes: count + bytes.count)
            if count + bytes.count > Self.discardLimitBytes { end() }
        case .misled(let count):
            mode = .misled(discardedBytes: count + bytes.count)
            guard count + bytes.count > Self.discardLimitBytes else { return }
            failed(.fault(.unexpectedStatus, status ?? 412))
            end()
        case .awaitingHead, .examining, .confirming, .readingIn, .ended: break
        }
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        if case .misled = mode { return askWithoutConditions() }
        let mode = self.mode
        self.mode = .ended
        self.transfer = nil
        lastTimes = transfer.times
        switch mode {
        case .collecting(let head, let purpose): examine(head, purpose, isDelimited: isDelimited)
        case .confirming(let head):
            readIn(storing: head, isUpdate: true) {
                self.confirmed(head)
                self.receiver = nil
            }
        case .streaming:
            noteSuccess()
            receiver?.streamEnded()
            receiver = nil
        case .awaitingHead: failed(.transfer(.connectionTerminated))
        case .examining, .misled, .discarding, .readingIn, .ended: receiver = nil
        }
    }

    /// Goes on once what storing the response looks at is in memory: nearly always at once.
    private func readIn(storing head: ResponseHead, isUpdate: Bool = false, then store: @escaping @Sendable () -> Void) {
        mode = .readingIn
        whenAtHand(storing: head, isUpdate: isUpdate) {
            self.mode = .ended
            store()
        }
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        let mode = self.mode
        self.mode = .ended
        self.transfer = nil
        lastTimes = transfer.times
        shard.countUpstreamError(error)
        note(error)
        switch mode {
        case .awaitingHead, .collecting, .confirming, .misled: failed(.transfer(error))
        case .streaming:
            receiver?.streamBroke(error)
            receiver = nil
        case .examining, .discarding, .readingIn, .ended: break
        }
    }

    func transferDrained(_ transfer: Transfer) { receiver?.fetchDrained() }

    /// RFC 9111 §4.3.4: a 304 for what is not stored is no response to anybody, so the upstream is asked for the whole.
    private func askWithoutConditions() {
        Validation.removeConditions(from: &request.fields)
        mode = .awaitingHead
        ask()
    }

    // MARK: Judging

    /// What the operator demands of this route's responses.
    private var good: GoodResponse { shard.routes.all[subject.route].good }

    private func storageDecision(_ response: ResponseHead) -> StorageDecision {
        if subject.head.method == .post, keys == nil { takeKeyOfGet(response) }
        guard let keys, let cache = shard.cache else { return .forbidden(.bypassed(subject.head)) }
        return cache.decideStoring(response, to: subject.head, subject.directives, isPartitioned: keys.isPartitioned, good: good)
    }

    func control(_ response: ResponseHead) -> ResponseCacheControl {
        ResponseCacheControl(response.fields, targeted: shard.settings.policy.targetedFields)
    }

    /// RFC 9110 §9.3.3: a response to POST that says how long it is fresh, and that it is what GET would bring, may answer later GETs.
    private func takeKeyOfGet(_ response: ResponseHead) {
        let control = control(response)
        let hasLifetime =
            control.maxAge != nil || control.sharedMaxAge != nil || (!control.isTargeted && response.fields.contains(.expires))
        guard response.status == 200, hasLifetime, let location = response.fields.first(.contentLocation),
            Invalidation.isSame(location, as: subject.head.pathAndQuery, origin: shard.upstreamOrigin)
        else { return }
        keys = shard.cache?.keysOfGet(for: subject.head)
    }

    private func stream(_ head: ResponseHead, length: Int?, _ reason: NotStoredReason) {
        mode = .streaming
        // One who waits for the same would get the same trouble: one of them may look, the others hear of it.
        land(report.isTrouble ? .failed(.fault(.serverError, head.status)) : .unshareable)
        // Whether it is good is known at its end, which may be far away.
        shard.health.reach(now: clock)
        if head.status.isSuccessful { notePresent() }
        body = .none
        guard let receiver, receiver.streamBegan(head, length: length, notStored: reason) else { return end() }
    }

    /// Larger than what is held: passed on from here, what was held first.
    private func overflow(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        let held = collected.bytes
        collected.removeAll()
        stream(head, length: nil, .tooLarge)
        receiver?.streamBrought(held.span)
        receiver?.streamBrought(bytes)
    }

    // MARK: The whole

    /// Looks at what was taken whole; where that takes long, beside the loop.
    private func examine(_ head: ResponseHead, _ purpose: CollectedFor, isDelimited: Bool) {
        let examination = ContentExamination(
            ContentExamination.Arrived(
                collected.bytes, head.status.forbidsContent ? nil : ContentCoding(head.fields), isJSON: isJSON(head), collected.verdict(),
                isDelimited: isDelimited || head.status.forbidsContent),
            ContentExamination.Demands(
                good, storedBytes: subject.found?.content.count,
                makesTag: purpose == .store && shard.settings.policy.wantsOwnTag(head), limitBytes: shard.settings.bufferLimitBytes))
        if let findings = examination.findings(within: shard.settings.examinedAtOnceBytes) { return examined(head, purpose, findings) }
        mode = .examining
        shard.countExaminedBeside()
        shard.worker.perform(collected.bytes.count) {
            examination.findings()
        } then: { findings in
            guard case .examining = self.mode, let findings else { return }
            self.mode = .ended
            self.examined(head, purpose, findings)
        }
    }

    private func examined(_ head: ResponseHead, _ purpose: CollectedFor, _ findings: ContentExamination.Findings) {
        let decision = purpose.decide(findings.fault, mayRescue: subject.mayRescue, shard.settings.policy.strictness)
        if case .fail(let fault) = decision {
            note(fault)
            return failed(.fault(fault, head.status))
        }
        let shown = AcceptedCoding.shown(head, collected.bytes, decoded: findings.decoded, to: subject.head)
        var fetched = FetchedResponse(head: shown.head, content: shown.content, storage: .forbidden(.storeRefused))
        switch decision {
        case .fail: break
        case .passOn(let reason, let fault):
            if fault == nil { noteWhole(head.status) }
            (fetched.storage, fetched.fault) = (.forbidden(reason), fault)
            deliver(fetched)
        case .rememberGone(let reason):
            noteSuccess()
            fetched.storage = .forbidden(reason)
            readIn(storing: head) { [fetched] in
                var fetched = fetched
                fetched.isRememberedAsGone = self.rememberGone(head, findings)
                self.deliver(fetched)
            }
        case .store:
            noteWhole(head.status)
            readIn(storing: head) { [fetched] in
                var fetched = fetched
                if let stored = self.store(head, findings.decoded, findings.ownTag) {
                    fetched.storage = stored.result.decision
                    (fetched.storedHead, fetched.metadata, fetched.ownTag) = (stored.head, stored.metadata, findings.ownTag)
                }
                self.deliver(fetched)
            }
        }
    }

    private func noteWhole(_ status: Status) {
        noteSuccess()
        if status.isSuccessful { notePresent() }
    }

    private func deliver(_ fetched: FetchedResponse) {
        if fetched.storage == .allowed { shard.countStored() }
        let outcome: FlightOutcome =
            switch fetched.storage {
            case .allowed: .stored
            case .forbidden(.outdated): .outdated
            case .forbidden: .unshareable
            }
        land(outcome)
        let receiver = self.receiver
        self.receiver = nil
        receiver?.fetchBrought(fetched)
    }

    /// Without a type it must still be JSON where the copy is.
    func isJSON(_ head: ResponseHead) -> Bool {
        MediaType.isJSON(head.fields, orElse: subject.found?.metadata.flags.contains(.isJSON) ?? false)
    }
}
