// One request to the upstream. Events of the transfer and of the client enter at `handle`: `FetchMachine` decides the next action, and
// `perform` performs it. A response that may be stored, or that a stored response could replace, is collected, examined and passed to the
// cache. A fetch does not depend on its client: one that fills the store continues without it.

import CachePolicy
import Decisions
import Explanation
import Figures
import Forwarding
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Tracing
import Upstream

/// `@unchecked Sendable` because it is used on its shard's loop only; the worker and the store's readers only pass it and their results to
/// that loop.
final class Fetch: @unchecked Sendable {
    /// Reports made to the failure memory.
    struct Report {
        /// The response's status shows that the upstream is in trouble.
        var isTrouble = false
        /// A failure has been reported. It is reported once.
        var hasFailed = false
        /// The response is a stream. Its head counts as success.
        var isStream = false
    }

    /// Keeps the API open while the fetch is active.
    let context: FetchContext
    let subject: DecidedRequest
    /// Key under which the response to a POST may be stored for later GETs; nil if it may not.
    var keysOfGet: TargetKeys?
    /// Created on first use of `storableExchange`.
    var placed: StorableExchange?
    /// Content of the request. Released when the response is streamed, because the request is not sent again then.
    private var body: RequestBody
    /// The flight that this fetch leads. Its followers are notified once.
    var flight: Flight?
    /// Released when the fetch has reported its end, or when the client has disconnected.
    var receiver: (any FetchReceiver)?
    /// Becomes the receiver if the fetch continues after its client has disconnected.
    var successor: BackgroundRecord?
    /// nil once it has been stopped.
    var transfer: Transfer?
    /// Slot in the request budget of the client's address. Kept after the client has disconnected, because the upstream is still busy.
    var slot: AddressBudget.Slot?
    var machine = FetchMachine()
    /// The response without hop-by-hop fields; nil before its head has arrived, and once it is streamed.
    var response: ResponseHead?
    /// Status of the response; nil until its head has arrived.
    var status: Status?
    /// Caching directives of the response; nil until they are first used.
    var control: ResponseCacheControl?
    /// True if the upstream authenticates the connection, or requests that; the response is then for this client only.
    var isOfConnectionUser: Bool
    private(set) var collected = CollectedContent()
    /// With content that was examined before and had the data of the stored response; nil if the response cannot repeat it.
    private var comparison: ContentComparison?
    /// Number of the response head for comparison with later ones; nil if it is processed in full.
    var headNumber: UInt64?
    var repetition = Repetition.nothing
    /// Number of collected bytes that the client has received; nil if the response is held until it is complete.
    var forwarded: Int?
    /// Index of the upstream address that responded.
    var address = 0
    /// Exists until the response to an unsafe request has arrived.
    var identityWrite: IdentityWrite?
    /// Milliseconds of the loop's clock.
    private(set) var began: Int64 = 0
    /// Whether the fetch only checks for the upstream's recovery.
    private(set) var isRecheck = false
    var report = Report()
    /// Part of the response that has arrived and that waits for the propagation of marks.
    var held: HeldResponse?
    /// Propagation for which the response to a write did not wait, as text for Cache-Status; nil if it waited for all.
    var goesBefore: String?
    /// `MarkPropagation.lastAnnounced` before the change.
    var lastAnnouncedBefore: UInt64 = 0
    /// Times of the request and its response, and the request's sequence number.
    var recency = Recency(
        order: .unknown, isImported: false, requestTime: Timestamp(milliseconds: 0), responseTime: Timestamp(milliseconds: 0))
    /// nil if tracing does not record the fetch, or once it has ended.
    private var span: FetchSpan?

    init(
        _ context: FetchContext, subject: borrowing DecidedRequest, body: RequestBody, receiver: borrowing any FetchReceiver
    ) {
        self.context = context
        self.subject = copy subject
        self.body = body
        self.receiver = copy receiver
        isOfConnectionUser = subject.owned != nil
    }

    /// Sends the request. The receiver is notified at once if the request cannot be sent.
    /// - Parameters:
    ///   - flight: the flight that this fetch leads; nil if there is none.
    ///   - cause: cause of a background fetch; nil if a client waits.
    func start(_ request: consuming UpstreamRequest, leads flight: Flight?, because cause: BackgroundCause? = nil) {
        context.loop.assertOnLoop()
        span = context.reporting.beginSpan(&request, for: subject, cause)
        self.flight = flight
        context.cache?.noteCookies(sentWith: subject.head, isReading: subject.isReading)
        (began, isRecheck) = (clock, cause == .recheck)
        if !subject.isSafe { context.cache?.readAhead(forWrite: subject.head) }
        if !subject.isReading { identityWrite = context.beginIdentityWrite(subject.head) }
        if let failure = send(request) { handle(failure) }
    }

    /// - Returns: nil unless the request cannot be sent.
    private func send(_ request: consuming UpstreamRequest) -> FetchMachine.Event? {
        noteSending()
        span?.asked = SystemTime.monotonicMicroseconds
        transfer = context.upstream.start(request, receiver: self)
        guard transfer != nil else { return .transferFailed(.connectionLimitReached) }
        if case .whole(let content) = body { transfer?.write(whole: content.bytes) }
        return nil
    }

    func noteSending() {
        guard let store = context.cache?.state else { return }
        (recency.requestTime, recency.order) = (store.timeOfRequest(at: context.loop.now), store.sent.take())
    }

    var clock: Int64 { context.loop.batchMilliseconds }

    // MARK: The loop

    /// Performs the action that follows an event. An action may cause another event, until none follows.
    /// - Parameter content: response content that arrived with the event.
    func handle(_ first: FetchMachine.Event, content: Span<UInt8> = Span()) {
        context.loop.assertOnLoop()
        var next: FetchMachine.Event? = first
        while let event = next { next = perform(machine.handle(event), content) }
    }

    /// - Returns: the event that the action causes at once; nil if there is none.
    private func perform(_ action: FetchMachine.Action, _ content: Span<UInt8>) -> FetchMachine.Event? {
        switch action {
        case .nothing: break
        case .collect(let purpose): collect(for: purpose)
        case .buffer: buffer(content)
        case .stream(let reason): return stream(length: response?.contentLength, reason)
        case .forward: receiver?.streamBrought(content)
        case .forwardBuffered: return streamBuffered(followedBy: content)
        case .endStream: endStream()
        case .breakStream(let error): breakStream(error)
        case .examine(let purpose, let isDelimited): return examine(purpose, isDelimited: isDelimited)
        case .load(let step):
            noteComplete(step)
            return load(for: step)
        case .updateCache(.store): storeAndDeliver()
        case .updateCache(.confirm): confirm()
        case .updateCache(.rememberGone(let reason)): rememberGoneAndDeliver(reason)
        case .deliver(let reason, let fault): deliverUnstored(reason, fault)
        case .retryWithoutConditions: return retryWithoutConditions()
        case .fail(let fault):
            note(fault)
            collected.removeAll()
            fail(fault)
        case .failTransfer(let error): fail(.transfer(error))
        case .failAndStop(let fault):
            fail(fault)
            stop()
        case .rejectStream:
            fail(.tooManyStreams)
            stop()
        case .stop: stop()
        case .handOver:
            successor?.fetch = self
            receiver = successor
            forwarded = nil
        }
        return nil
    }

    // MARK: The head

    /// Processes the response head, at once or when a held response is released.
    func use(_ response: consuming ResponseHead, of transfer: Transfer) {
        compareHead(response, sent: transfer.request.fields.known)
        var decision = repetition == .head ? repeatedDecision(response) : decide(response, to: transfer.request)
        // A 304 for one user's connection must not update a response stored for other users.
        if isOfConnectionUser, decision == .confirm { decision = .fail(.unexpectedStatus) }
        if decision.isUse, !isOfConnectionUser { context.rules.noteGrant(response, to: subject.head) }
        decision = admit(decision)
        updateStored(by: response)
        self.response = response
        handle(.decided(decision))
    }

    private func decide(_ response: ResponseHead, to request: UpstreamRequest) -> ResponseDecision {
        // The operator's requirements on good responses matter only if there is a stored response.
        var facts = ResponseFacts(
            subject.head, sent: request.fields.known, response.status,
            copy: subject.found?.metadata,
            mayRescue: subject.mayRescue, isLookedUp: hasCacheKey, good: subject.found == nil ? nil : context.rules.good(for: subject),
            strictness: context.rules.strictness)
        facts.isStream =
            response.status == 101
            || StreamedResponse.isStream(response, to: subject.head.method, onStreamRoute: context.rules.streams(subject.head))
        facts.upstream = context.rules.origin
        func judge(_ head: Span<UInt8>) -> ResponseDecision? {
            facts.judge(response, beside: head, hasSharedRescue: hasSharedRescue, hasSeen)
        }
        let decision = if let found = subject.found { found.withHead(judge) } else { judge(Span()) }
        if let decision { return decision }
        // The response to a POST may have a cache key now: that of a GET.
        let storage = storageDecision(response)
        facts.isLookedUp = hasCacheKey
        return facts.use(
            storage, saysGone: saysGone(response, storage),
            ResponseFacts.Capacity(
                length: response.contentLength, limitBytes: context.rules.bufferLimitBytes,
                examinedAtOnceBytes: context.rules.examinedAtOnceBytes, isExaminerFull: context.examiner.worker.isFull))
    }

    /// Admits a stream if the limit on connections that streams occupy permits it.
    private func admit(_ decision: ResponseDecision) -> ResponseDecision {
        guard decision == .stream(.stream) else { return decision }
        guard transfer?.becomeStream() ?? false else { return .refuseStream }
        report.isStream = true
        noteSuccess()
        return decision
    }

    /// RFC 9111 §4.3.4: a 304 that matches no stored response cannot be used, so the request is repeated without conditions.
    private func retryWithoutConditions() -> FetchMachine.Event? {
        guard var request = transfer?.request else { return nil }
        Validation.removeConditions(from: &request.fields)
        control = nil
        return send(request)
    }

    // MARK: The content

    private func collect(for purpose: CollectedFor) {
        guard let response else { return }
        let length = response.contentLength
        // Followers learn from the head that the response will not be stored.
        if purpose != .store {
            endFlight(.unshareable)
        } else if isTooLongForNodes(length ?? 0) {
            endLeaseOfTooLong()
        }
        collected = CollectedContent(context.rules.reading)
        comparison = purpose == .store ? comparison(with: response) : nil
        let isExpected = comparison?.isExpected ?? false
        collected.begin(length: length, isChecked: !isExpected && isJSON(response) && ContentCoding(response.fields) == .identity)
        if let length, length > context.rules.holdLimitBytes { startForwarding() }
    }

    private func buffer(_ content: Span<UInt8>) {
        let before = collected.bytes.count
        collected.append(content, limit: context.rules.bufferLimitBytes)
        if !isTooLongForNodes(before), isTooLongForNodes(collected.bytes.count) { endLeaseOfTooLong() }
        forwardCollected(since: before)
    }

    private func stream(length: Int?, _ reason: NotStoredReason) -> FetchMachine.Event? {
        guard let response = response.take() else { return nil }
        // A follower may meet this failure too. With this outcome it serves a stored response or sends its own request.
        endFlight(report.isTrouble ? .failed(.fault(.serverError, response.status)) : .unshareable)
        // Whether the response is good is known only at its end, which may be much later.
        context.coordination.health.reach(now: clock)
        if isPresent(response.status) { notePresent(response) }
        body = .none
        observeUnstored(response, reason)
        let isWanted = receiver?.streamBegan(response, length: length, notStored: reason) ?? false
        return isWanted ? nil : .unwanted
    }

    private func streamBuffered(followedBy content: Span<UInt8>) -> FetchMachine.Event? {
        let buffered = collected.bytes
        collected.removeAll()
        if let unwanted = stream(length: nil, .tooLarge) { return unwanted }
        receiver?.streamBrought(buffered.span.extracting((forwarded.take() ?? 0)...))
        receiver?.streamBrought(content)
        return nil
    }

    private func endStream() {
        if !report.isStream { noteSuccess() }
        finish { $0.streamEnded() }
    }

    private func breakStream(_ error: UpstreamError) {
        span?.work.upstream.failure = .transfer(error)
        finish { $0.streamBroke(error) }
    }

    // MARK: Complete responses

    /// Examines collected content; long content is examined off the event loop.
    private func examine(_ purpose: CollectedFor, isDelimited: Bool) -> FetchMachine.Event? {
        guard let response else { return nil }
        let (bytes, atOnceBytes) = (collected.bytes, context.rules.examinedAtOnceBytes)
        let comparison = isDelimited ? comparison : nil
        if bytes.count <= atOnceBytes, let comparison, comparison.isExpected, let tag = comparison.tag(for: comparison.hash(of: bytes)) {
            if repetition == .head { repetition = .content }
            return .examined(decide(purpose, by: ContentExamination.Findings(ownTag: tag)))
        }
        let hasContent = !response.status.forbidsContent
        let examination = ContentExamination(
            ContentExamination.Arrived(
                bytes, hasContent ? ContentCoding(response.fields) : nil, isJSON: isJSON(response), collected.verdict(),
                isDelimited: isDelimited || !hasContent, reading: context.rules.reading),
            ContentExamination.Demands(
                context.rules.good(for: subject), kept: context.rules.kept(for: subject), isGraphQL: subject.isGraphQL,
                storedBytes: subject.found?.contentBytes,
                makesTag: purpose == .store && makesTag(response),
                limitBytes: context.rules.bufferLimitBytes))
        if let findings = examination.findings(within: atOnceBytes) {
            noteExamined(findings, comparison?.hash(of: bytes))
            return .examined(decide(purpose, by: findings))
        }
        context.examineOffLoop(bytes.count) {
            let hash = comparison?.hash(of: bytes)
            if let hash, let tag = comparison?.tag(for: hash) { return (ContentExamination.Findings(ownTag: tag), nil) }
            return (examination.findings(), hash)
        } then: { (findings: ContentExamination.Findings?, hash: (UInt64, UInt64)?) in
            guard let findings else { return }
            self.noteExamined(findings, hash)
            self.handle(.examined(self.decide(purpose, by: findings)))
        }
        return nil
    }

    private func makesTag(_ response: ResponseHead) -> Bool {
        context.rules.makesEntityTags && CachePolicySettings.wantsOwnTag(response)
    }

    /// The entity tag computed for the stored response; nil if its tag comes from the upstream.
    private var ownTagOfFound: [UInt8]? {
        guard let found = subject.found, found.metadata.flags.contains(.ownTag) else { return nil }
        return found.withHead { Array(copying: $0.extracting(found.metadata.etag)) }
    }

    private func comparison(with response: ResponseHead) -> ContentComparison? {
        guard let found = subject.found,
            repetition == .head || isJSON(response) && ContentCoding(response.fields) == .identity && makesTag(response)
        else { return nil }
        return context.examiner.comparison(with: found.contentNumber, tag: ownTagOfFound)
    }

    /// Remembers content that has the data of the stored response.
    /// - Parameter hash: evaluated only for such content; nil if the content is not remembered.
    private func noteExamined(_ findings: ContentExamination.Findings, _ hash: @autoclosure () -> (UInt64, UInt64)?) {
        guard let found = subject.found, findings.flaw == nil, !findings.isLenient, findings.decoded == nil, let tag = findings.ownTag,
            tag == ownTagOfFound, let hash = hash()
        else { return }
        context.examiner.note(hash, as: found.contentNumber)
    }

    private func decide(_ purpose: CollectedFor, by findings: ContentExamination.Findings) -> WholeDecision {
        collected.findings = findings
        // After a client's own write, an empty response is intended.
        let isWanted = findings.fault == .emptyContent && subject.mayRescue && hasSeen(.afterOwnWrite)
        return purpose.decide(
            findings.fault, obstacle: findings.obstacle ?? obstacle(of: findings),
            mayFail: forwarded == nil ? subject.mayRescue && !isWanted : findings.isCut, context.rules.strictness)
    }

    /// JSON that RFC 8259 rejects never replaces a stored response with valid JSON.
    private func obstacle(of findings: ContentExamination.Findings) -> NotStoredReason? {
        guard findings.isLenient, let response, let found = subject.found else { return nil }
        let copy = found.withHead { LastGood.Copy(found.metadata, head: $0, beside: response) }
        return LastGood.obstacle(response, isLenient: true, replacing: copy, strictness: context.rules.strictness)
    }

    /// Reports the success of a complete response, except for a 304: only the cache determines whether it confirms a stored response.
    private func noteComplete(_ step: FetchMachine.CacheStep) {
        switch step {
        case .store: noteWhole()
        case .rememberGone: noteSuccess()
        case .confirm: break
        }
    }

    /// - Parameter loads: number of loads so far.
    /// - Returns: nil while data is loaded from disk. Nearly always it is in memory.
    private func load(for step: FetchMachine.CacheStep, loads: Int = 0) -> FetchMachine.Event? {
        if loads == 0, recordRepetition(step) { return .loaded }
        guard let response, let missing = missing(toStore: response, isUpdate: step == .confirm, loads: loads) else { return .loaded }
        context.cache?.load(missing, on: context.loop) { self.load(for: step, loads: loads + 1).map { self.handle($0) } }
        return nil
    }

    private func storeAndDeliver() {
        guard let response else { return }
        let stored = store(response)
        if case .forbidden(let reason)? = stored?.result.decision {
            observeUnstored(response, reason)
        } else if let stored {
            observeGood(stored.metadata, stored.head, nil)
        }
        deliver(response, stored?.result.decision ?? .forbidden(.storeRefused), isOvertaken: stored?.result == .invalidated) { fetched in
            guard let stored else { return }
            (fetched.storedHead, fetched.metadata, fetched.ownTag) = (stored.head, stored.metadata, collected.findings.ownTag)
        }
    }

    /// Sends the stored response that the 304 confirms.
    private func confirm() {
        guard let response else { return }
        guard let confirmed = confirmStored(by: response) else { return fail(.fault(.unexpectedStatus, 304)) }
        noteSuccess()
        notePresent(response)
        observeGood(confirmed.confirmation.metadata, confirmed.confirmation.head, confirmed.confirmation.found)
        endFlight(FlightOutcome(confirmed.result))
        finish { $0.fetchConfirmed(confirmed.confirmation) }
    }

    private func rememberGoneAndDeliver(_ reason: NotStoredReason) {
        guard let response else { return }
        let isRemembered = rememberGone(response)
        observeUnstored(response, .status)
        deliver(response, .forbidden(reason)) { $0.isRememberedAsGone = isRemembered }
    }

    private func deliverUnstored(_ reason: NotStoredReason, _ fault: UpstreamFault?) {
        guard let response else { return }
        if fault == nil { noteWhole() }
        observeUnstored(response, reason)
        deliver(response, .forbidden(reason)) { $0.fault = fault }
    }

    /// - Parameter isOvertaken: whether the response is not stored because a write or a purge followed its request.
    private func deliver(
        _ response: ResponseHead, _ storage: StorageDecision, isOvertaken: Bool = false, _ complete: (inout FetchedResponse) -> Void
    ) {
        let shown = AcceptedCoding.shown(response, collected.bytes, decoded: collected.findings.decoded, to: subject.head)
        var fetched = FetchedResponse(head: shown.head, content: shown.content, storage: storage)
        complete(&fetched)
        if storage == .allowed { context.reporting.count(.stored) }
        forwardAll()
        endFlight(isOvertaken ? .overtaken : FlightOutcome(storage))
        finish { $0.fetchBrought(fetched) }
    }

    private func noteWhole() {
        noteSuccess()
        if let response, isPresent(response.status) { notePresent(response) }
    }

    /// Whether the status shows that the resource of the stored response exists. A 204 or 205 shows it only if the stored response has that
    /// status.
    private func isPresent(_ status: Status) -> Bool {
        guard status == 204 || status == 205 else { return status.isSuccessful }
        return subject.found?.metadata.status == status
    }

    /// Whether the content is checked as JSON. If Content-Type is missing, the stored response determines that.
    private func isJSON(_ head: ResponseHead) -> Bool {
        // Only the fields of a preflight's response matter, not its content type. A 205 has no content (RFC 9110 §15.3.6).
        subject.head.method != .options && head.status != 205
            && MediaType.isJSON(head.fields, orElse: subject.found?.metadata.flags.contains(.isJSON) ?? false)
    }

    // MARK: The end

    private func fail(_ fault: UpstreamFault) { fail(.fault(fault, status ?? 502)) }

    /// Ends the fetch without a usable response.
    private func fail(_ failure: FetchFailure) {
        span?.work.upstream.failure = failure
        observeFailure(failure)
        if isOutage(failure), let found = subject.found { context.cache?.noteFailed(found, at: context.loop.cacheTime) }
        endFlight(.failed(failure))
        finish { $0.fetchFailed(failure) }
    }

    private func stop() {
        slot = nil
        receiver = nil
        endSpan(isAbandoned: true)
        endFlight(.abandoned)
        transfer?.cancel()
        transfer = nil
    }

    /// Reports the end to the receiver and releases it.
    private func finish(_ notify: (any FetchReceiver) -> Void) {
        slot = nil
        endSpan()
        if let receiver = receiver.take() { notify(receiver) }
    }

    private func endSpan(isAbandoned: Bool = false) {
        guard let span = span.take() else { return }
        span.work.isAbandoned = isAbandoned
        span.work.upstream.note(self)
        context.reporting.endSpan(span)
    }
}
