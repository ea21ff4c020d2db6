// The machine of one fetch: asks the upstream, takes the answer whole where it may be kept or a stored copy could replace it, checks it,
// stores it. It does not know whether a client still waits: a fetch that fills the store goes on without one.

import CachePolicy
import Decisions
import Downstream
import Explanation
import HTTPCore
import JSON
import Reactor
import ResponseCache
import Upstream

/// `@unchecked Sendable` because it is touched on its shard's loop only; the worker's results are brought there, and the store's readers do no
/// more than carry it back.
final class Fetch: TransferReceiver, @unchecked Sendable {
    /// What is done with the answer. Decided once, when its head is there.
    enum Mode {
        case awaitingHead
        /// Taken whole; `decision` is the head's share of whether it is stored.
        case collecting(ResponseHead, StorageDecision)
        /// It is whole and long, and is looked at beside the loop.
        case examining
        /// A 304 to our own conditions.
        case confirming(ResponseHead)
        /// An answer to our own conditions that is none to the client's request: that goes out again, without conditions, once it has ended.
        case misled
        case streaming
        /// It has come whole; what storing it looks at is being brought into memory.
        case readingIn
        /// Nobody wants it any more; the rest is read so that the connection can be used again.
        case discarding
        case ended
    }

    let shard: ProxyShard
    let subject: DecidedRequest
    /// Where the answer is stored; nil where the store has nothing to do with it.
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
    var content: [UInt8] = []
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that a large answer holds nobody up at its end.
    private var checksAsItComes = false
    private var discarded = 0
    /// A 404 or 410 that is remembered as such if it proves to be whole.
    private var mayBeGone = false
    private var lastTimes = TransferTimes()
    /// What the upstream answered with, as soon as that is known.
    private(set) var status: Status?
    /// Milliseconds of the loop's clock.
    var began: Int64 = 0
    /// Whether the answer's status told that the upstream is in trouble.
    var isTrouble = false
    /// Whether the failure memory knows that this has failed: it is told once.
    var hasFailed = false
    /// When the request was sent, and its place among all that were.
    private(set) var requestTime = Timestamp(milliseconds: 0)
    private(set) var order = SentOrder.unknown
    var responseTime = Timestamp(milliseconds: 0)

    /// Read and thrown away of an answer that nobody wants; beyond it the connection is closed instead.
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
        shard.lookUp?.noteCookies(sentWith: subject.head, isReading: subject.isReading)
        began = clock
        let shares = shard.shares(of: subject.scopes)
        request.shares = request.shares.isEmpty ? shares : request.shares + shares
        if !subject.head.method.isSafe { shard.lookUp?.readAhead(forWrite: subject.head) }
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
        requestTime = shard.now
        order = shard.server.sentRequests.take()
    }

    /// When each phase of asking ended.
    var times: TransferTimes { transfer?.times ?? lastTimes }

    var clock: Int64 { shard.loop.time.monotonicMilliseconds }

    /// Tells those who wait for this fetch, once.
    func land(_ outcome: FlightOutcome) {
        guard let flight else { return }
        self.flight = nil
        shard.server.collapsed.end(flight, outcome, now: clock)
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
        return flight.map { !shard.server.collapsed.hasFollowers($0) } ?? true
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
        responseTime = shard.now
        status = head.status
        judge(head)
        invalidate(after: head)
        let length = head.fields.first(.contentLength).flatMap(DeltaSeconds.length)
        let answer = ResponseHead(status: head.status, reason: head.reason, fields: head.fields.removingHopByHop())
        if Validation.isUnasked(head.status, request: request.fields) { return fail(.fault(.unexpectedStatus, head.status)) }
        if let confirms = confirms(answer) {
            mode = confirms ? .confirming(answer) : .misled
            return
        }
        if subject.head.method == .head { whenAtHand(storing: answer, isUpdate: true) { self.updateStored(by: answer) } }
        if subject.decision.mayRescue, let fault = headFault(answer) {
            note(fault)
            return fail(.fault(fault, head.status))
        }
        if hasStandIn(insteadOf: head.status) { return fail(.fault(.serverError, head.status)) }
        let decision = storageDecision(answer)
        let judgement = judgeGone(answer, decision)
        if case .routesLost = judgement { return fail(.fault(.routesLost, head.status)) }
        if case .candidate = judgement { mayBeGone = true }
        let isTooLarge = length.map { $0 > shard.settings.bufferLimitBytes } ?? false
        let isWanted = decision == .allowed || (subject.decision.mayRescue && answer.status.isSuccessful) || mayBeGone
        // What waits for the worker is held in memory: where that is too much already, this is passed on as it comes.
        let isLong = length.map { $0 > shard.settings.examinedAtOnceBytes } ?? true
        if keys != nil, subject.head.method != .head, isWanted, isLong, shard.worker.isFull {
            stream(answer, length: length, .storeRefused)
        } else if keys != nil, subject.head.method != .head, isWanted, !isTooLarge {
            if let length { content.reserveCapacity(length) }
            checksAsItComes = isJSON(answer) && ContentCoding(answer.fields) == .identity
            mode = .collecting(answer, decision)
        } else if case .forbidden(let reason) = decision {
            stream(answer, length: length, reason)
        } else {
            stream(answer, length: length, .tooLarge)
        }
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        switch mode {
        case .collecting(let head, _):
            guard content.count + bytes.count <= shard.settings.bufferLimitBytes else {
                return overflow(head, bytes)
            }
            content.append(copying: bytes, growingTo: shard.settings.bufferLimitBytes)
            if checksAsItComes { _ = checker.consume(bytes) }
        case .streaming:
            receiver?.streamBrought(bytes)
        case .discarding:
            discarded += bytes.count
            if discarded > Self.discardLimitBytes { end() }
        case .misled:
            discarded += bytes.count
            guard discarded > Self.discardLimitBytes else { return }
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
        case .collecting(let head, let decision): examine(head, decision, isDelimited: isDelimited)
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

    /// Whether an answer to our own conditions confirms what is stored; nil where it is an answer of another kind.
    private func confirms(_ answer: ResponseHead) -> Bool? {
        guard keys != nil, let found = subject.found else { return nil }
        switch answer.status {
        case 304:
            let strictness = shard.settings.policy.strictness
            return Validation.applies(answer, to: found.metadata, head: found.head, strictness: strictness)
        // What RFC 9110 §13.1.2 has for methods other than GET and HEAD, and so perhaps for QUERY.
        case 412 where request.fields.contains(.ifNoneMatch) || request.fields.contains(.ifModifiedSince): return false
        default: return nil
        }
    }

    /// RFC 9111 §4.3.4: a 304 for what is not stored is no answer to anybody, so the upstream is asked for the whole.
    private func askWithoutConditions() {
        Validation.removeConditions(from: &request.fields)
        mode = .awaitingHead
        ask()
    }

    // MARK: Judging

    private func headFault(_ answer: ResponseHead) -> UpstreamFault? {
        guard let found = subject.found else { return nil }
        // A part was asked for: only an upstream in trouble is a reason to cut it from the copy.
        if subject.head.fields.contains(.range) { return LastGood.isTrouble(answer.status) ? .serverError : nil }
        let fault = LastGood.faultOfHead(
            answer, storedIsJSON: found.metadata.flags.contains(.isJSON),
            storedIsCoded: found.metadata.flags.contains(.coded), path: subject.head.pathAndQuery,
            strictness: shard.settings.policy.strictness)
        return fault ?? good.faultOfHead(answer)
    }

    /// What the operator demands of this route's answers.
    private var good: GoodAnswer { shard.routes.all[subject.route].good }

    private func storageDecision(_ answer: ResponseHead) -> StorageDecision {
        if subject.head.method == .post, keys == nil { takeKeyOfGet(answer) }
        guard let keys, let cache = shard.lookUp else { return .forbidden(.bypassed(subject.head)) }
        return cache.decideStoring(answer, to: subject.head, subject.directives, isPartitioned: keys.isPartitioned, good: good)
    }

    func control(_ answer: ResponseHead) -> ResponseCacheControl {
        ResponseCacheControl(answer.fields, targeted: shard.settings.policy.targetedFields)
    }

    /// RFC 9110 §9.3.3: an answer to POST that says how long it is fresh, and that it is what GET would bring, may answer later GETs.
    private func takeKeyOfGet(_ answer: ResponseHead) {
        let control = control(answer)
        let hasLifetime = control.maxAge != nil || control.sharedMaxAge != nil || (!control.isTargeted && answer.fields.contains(.expires))
        guard answer.status == 200, hasLifetime, let location = answer.fields.first(.contentLocation),
            Invalidation.isSame(location, as: subject.head.pathAndQuery, origin: shard.upstreamOrigin)
        else { return }
        keys = shard.lookUp?.keysOfGet(for: subject.head)
    }

    /// A copy goes out instead of this answer; what still comes of it is thrown away.
    private func fail(_ failure: FetchFailure) {
        failed(failure)
        mode = .discarding
        content = []
    }

    private func stream(_ head: ResponseHead, length: Int?, _ reason: NotStoredReason) {
        mode = .streaming
        // One who waits for the same would get the same trouble: one of them may look, the others hear of it.
        land(isTrouble ? .failed(.fault(.serverError, head.status)) : .unshareable)
        // Whether it is good is known at its end, which may be far away.
        shard.server.health.reach(now: clock)
        if head.status.isSuccessful { notePresent() }
        body = .none
        guard let receiver, receiver.streamBegan(head, length: length, notStored: reason) else { return end() }
    }

    /// Larger than what is held: passed on from here, what was held first.
    private func overflow(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        let held = content
        content = []
        stream(head, length: nil, .tooLarge)
        receiver?.streamBrought(held.span)
        receiver?.streamBrought(bytes)
    }

    /// Looks at what was taken whole; where that takes long, beside the loop.
    private func examine(_ head: ResponseHead, _ decision: StorageDecision, isDelimited: Bool) {
        let examination = ContentExamination(
            content: content, coding: head.status.forbidsContent ? nil : ContentCoding(head.fields), isJSON: isJSON(head),
            verdict: checker.finish(), isDelimited: isDelimited || head.status.forbidsContent, good: good,
            storedBytes: subject.found?.content.count,
            makesTag: decision == .allowed && shard.settings.policy.wantsOwnTag(head), limitBytes: shard.settings.bufferLimitBytes)
        if let findings = examination.findings(within: shard.settings.examinedAtOnceBytes) { return examined(head, decision, findings) }
        mode = .examining
        shard.countExaminedBeside()
        shard.worker.perform(content.count) {
            examination.findings()
        } then: { findings in
            guard case .examining = self.mode, let findings else { return }
            self.mode = .ended
            self.examined(head, decision, findings)
        }
    }

    private func examined(_ head: ResponseHead, _ decision: StorageDecision, _ findings: ContentExamination.Findings) {
        let shown = AcceptedCoding.shown(head, content, decoded: findings.decoded, to: subject.head)
        if mayBeGone {
            noteSuccess()
            return readIn(storing: head) {
                var answer = WholeAnswer(head: shown.head, content: shown.content, storage: decision)
                answer.isRememberedAsGone = self.rememberGone(head, findings)
                self.answered(answer)
            }
        }
        if let fault = findings.fault {
            if subject.decision.mayRescue, shard.settings.policy.strictness == .rescue {
                note(fault)
                return failed(.fault(fault, head.status))
            }
            return answered(WholeAnswer(head: shown.head, content: shown.content, storage: .forbidden(fault.notStored), fault: fault))
        }
        noteSuccess()
        if head.status.isSuccessful { notePresent() }
        guard decision == .allowed else { return answered(WholeAnswer(head: shown.head, content: shown.content, storage: decision)) }
        readIn(storing: head) {
            guard let stored = self.store(head, findings.decoded, findings.ownTag) else {
                return self.answered(WholeAnswer(head: shown.head, content: shown.content, storage: .forbidden(.storeRefused)))
            }
            self.answered(
                WholeAnswer(
                    head: shown.head, content: shown.content, storage: stored.result.decision, storedHead: stored.head,
                    ownTag: findings.ownTag, metadata: stored.metadata))
        }
    }

    private func answered(_ answer: WholeAnswer) {
        if answer.storage == .allowed { shard.countStored() }
        let outcome: FlightOutcome =
            switch answer.storage {
            case .allowed: .stored
            case .forbidden(.outdated): .outdated
            case .forbidden: .unshareable
            }
        land(outcome)
        let receiver = self.receiver
        self.receiver = nil
        receiver?.fetchAnswered(answer)
    }

    /// Without a type it must still be JSON where the copy is.
    func isJSON(_ head: ResponseHead) -> Bool {
        guard let type = head.fields.first(.contentType) else { return subject.found?.metadata.flags.contains(.isJSON) ?? false }
        return MediaType(type)?.isJSON ?? false
    }
}
