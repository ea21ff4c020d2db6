// One request to the upstream. `handle` (`Fetch+Content.swift`) passes events of the transfer and of the client to `FetchMachine`, and
// performs its actions. A response that may be stored, or that a stored response could replace, is collected, examined and passed to the
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
final class Fetch: TransferReceiver, @unchecked Sendable {
    /// Reports made to the failure memory.
    struct Report {
        /// The response's status shows that the upstream is in trouble.
        var isTrouble = false
        /// A failure has been reported. It is reported once.
        var hasFailed = false
        /// The response is a stream. Its failure is no evidence.
        var isStream = false
    }

    /// Keeps the API open while the fetch is active.
    let context: FetchContext
    let subject: DecidedRequest
    /// Key under which the response to a POST may be stored for later GETs; nil if it may not.
    var keysOfGet: TargetKeys?
    /// Created on first use of `storableExchange`.
    var madeStorable: StorableExchange?
    /// Content of the request. Released when the response is streamed, because the request is not sent again then.
    var body: RequestBody
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
    /// Slot of an abandoned fetch (`APIState.abandoned`); nil while the client is connected.
    var continuation: AddressBudget.Slot?
    var machine = FetchMachine()
    /// The response without hop-by-hop fields; nil before its head has arrived, and once it is streamed.
    var response: ResponseHead?
    /// Status of the response; nil until its head has arrived.
    var status: Status?
    /// Caching directives of the response; nil until they are first used.
    var control: ResponseCacheControl?
    /// True if the upstream authenticates the connection, or requests that; the response is then for this client only.
    var isOfConnectionUser: Bool
    var collected = CollectedContent()
    /// With content that was examined before and had the data of the stored response; nil if the response cannot repeat it.
    var comparison: ContentComparison?
    /// Whether the response refuses the credentials to which the stored response belongs.
    private var isRefusal = false
    /// Number of the response head for comparison with later ones; nil if it is processed in full.
    var headNumber: UInt64?
    var repetition = Repetition.nothing
    /// Number of collected bytes that the client has received; nil if the response is held until it is complete.
    var forwarded: Int?
    /// Index of the upstream address that responded.
    var address = 0
    /// Exist until the response to a request has arrived that may change the user of its credentials.
    private var identityWrite: IdentityWrite?
    private var cookieLogin: CookieLogin?
    /// Milliseconds of the loop's clock.
    private(set) var began: Int64 = 0
    /// Whether the fetch only checks for the upstream's recovery.
    private(set) var isRecheck = false
    var report = Report()
    /// Part of the response that has arrived and that waits for the propagation of marks.
    var held: HeldResponse?
    /// Propagation for which the response to a write did not wait, as text for Cache-Status; nil if it waited for all.
    var unawaitedPropagation: String?
    /// `FleetStorage.lastAnnounced` before the change.
    var lastAnnouncedBefore: UInt64 = 0
    /// Times of the request and its response, and the request's sequence number.
    var recency = Recency(
        order: .unknown, isImported: false, requestTime: Timestamp(milliseconds: 0), responseTime: Timestamp(milliseconds: 0))
    /// nil if tracing does not record the fetch, or once it has ended.
    var span: FetchSpan?

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
        cookieLogin = context.cache?.beginLogin(with: subject.head, isReading: subject.isReading)
        (began, isRecheck) = (clock, cause == .recheck)
        if !subject.isSafe { context.cache?.readAhead(forWrite: subject.head) }
        if !subject.isReading { identityWrite = context.beginIdentityWrite(subject.head) }
        if let failure = send(request) { handle(failure) }
        if let flight, transfer?.waitsForOwnClient == true { context.coordination.collapsed.noteClientLimited(flight) }
    }

    /// - Returns: nil unless the request cannot be sent.
    private func send(_ request: consuming UpstreamRequest) -> FetchMachine.Event? {
        transferBegins()
        span?.asked = SystemTime.monotonicMicroseconds
        transfer = context.upstream.start(request, receiver: self)
        guard transfer != nil else {
            endCredentialChangeWithoutResponse()
            return .transferFailed(.connectionLimitReached)
        }
        if case .whole(let content) = body { transfer?.write(whole: content.bytes) }
        return nil
    }

    /// Records the time when the request is sent. It may have waited for a connection, or be a retry.
    func transferBegins() {
        guard let store = context.cache?.state else { return }
        (recency.requestTime, recency.order) = (store.times.ofRequest(context.loop.now), store.sent.next())
    }

    var clock: Int64 { context.loop.batchMilliseconds }
    /// The operator's requirements on good responses, and for storing responses.
    var good: GoodResponse { subject.head.method == .options ? GoodResponse() : context.rules.routes.good(on: subject.route) }
    var kept: GoodResponse { subject.head.method == .options ? GoodResponse() : context.rules.routes.kept(on: subject.route) }

    // MARK: Events of the transfer

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        receiver?.fetchInformed(head.removingHopByHop())
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        context.loop.assertOnLoop()
        recency.responseTime = context.loop.now
        context.reporting.countResponse(head, transfer.times)
        address = transfer.address
        if address > 0 { head = context.rules.withReferencesToFirstAddress(head, from: address) }
        var upgrade: [UInt8]?
        if head.status == 101 {
            guard Upgrade.isAccepted(by: head, offered: transfer.request.fields) else {
                return handle(.decided(.fail(.unexpectedStatus)))
            }
            upgrade = Array(head.fields.first(.upgrade) ?? [])
        }
        if ConnectionAuthentication.challenge(in: head.fields) != nil {
            isOfConnectionUser = true
            receiver?.fetchChallenged(transfer)
        }
        if LastGood.isTrouble(head.status) { noteTrouble(head) }
        let isUnjudged = isJudgedByContent(head)
        let hasUnwrittenMarks = !isUnjudged && invalidate(after: head)
        endCredentialChange(isWithoutEffect: head.status.rawValue / 100 == 4 && !context.changesCredentials(head))
        context.forgetIdentities(of: subject.head, after: head)
        isRefusal = noteRefusal(head)
        head.fields.removeHopByHop()
        if let upgrade { head.fields.append(.upgrade, upgrade) }
        status = head.status
        guard isUnjudged || mustHold(hasUnwrittenMarks: hasUnwrittenMarks) else { return use(head, of: transfer) }
        response = head
        held = HeldResponse(isUnjudged: isUnjudged)
        if !isUnjudged { waitForMarks(transfer) }
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        if let held { take(bytes, into: held) } else { take(bytes) }
        context.reporting.countResponseBytes(bytes.count)
    }

    func take(_ bytes: Span<UInt8>) {
        let fits =
            !machine.isCollecting
            || fits(bytes.count) && collected.reserve(bytes.count, in: context.rules.memory, for: subject.scopes.client)
        handle(.contentArrived(bytes: bytes.count, fits: fits), content: bytes)
    }

    /// Whether another piece of content is within the limit for one response.
    func fits(_ count: Int) -> Bool { collected.bytes.count + count <= context.rules.bufferLimitBytes }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        if let held { return end(held, .ended(isDelimited: isDelimited)) }
        handle(.transferEnded(isDelimited: isDelimited))
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        endCredentialChangeWithoutResponse()
        if let held { return end(held, .failed(error)) }
        guard !invalidateAfterLoss(transfer) else {
            return context.coordination.marks.wait(since: lastAnnouncedBefore) { _, _ in self.failed(error) }
        }
        failed(error)
    }

    private func failed(_ error: UpstreamError) {
        context.reporting.countUpstreamError(error)
        // The end of a stream is no evidence about other requests.
        if !report.isStream { reportError(error) }
        handle(.transferFailed(error))
    }

    func transferDrained(_ transfer: Transfer) { receiver?.fetchDrained() }

    /// Ends the suspension of the identities and cookie records of the request's credentials.
    /// - Parameters:
    ///   - isWithoutEffect: whether the upstream has rejected the request, or never received it. The credentials have their former user
    ///     then, and otherwise may have another.
    ///   - isLost: whether no response arrived.
    private func endCredentialChange(isWithoutEffect: Bool, isLost: Bool = false) {
        if let identityWrite, !isWithoutEffect {
            context.cache?.announceWrite(of: subject.head, tokens: identityWrite.tokens, isLost: isLost)
        }
        identityWrite?.isWithoutEffect = isWithoutEffect
        cookieLogin?.isWithoutEffect = isWithoutEffect
        (identityWrite, cookieLogin) = (nil, nil)
    }

    /// Called when the request ends without a response. If the upstream may still process it, the user may change later: the identities are
    /// not used for a while.
    func endCredentialChangeWithoutResponse() {
        let isWithoutEffect = transfer?.mayHaveArrived != true
        if !isWithoutEffect, let write = identityWrite {
            for table in write.noteLoss(now: context.loop.time.monotonicMilliseconds) {
                Self.endLosses(in: table, after: IdentityWrite.lossMilliseconds, on: context.loop)
            }
        }
        endCredentialChange(isWithoutEffect: isWithoutEffect, isLost: true)
    }

    private static func endLosses(in table: LookedUpIdentities, after milliseconds: Int64, on loop: EventLoop) {
        loop.schedule(after: .milliseconds(milliseconds)) { [unowned loop] in
            if let next = table.endLosses(now: loop.time.monotonicMilliseconds) { endLosses(in: table, after: next, on: loop) }
        }
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
            mayRescue: subject.mayRescue, isLookedUp: hasCacheKey, good: subject.found == nil ? nil : good,
            strictness: context.rules.strictness)
        let isStreamRoute = context.rules.routes.stream(subject.head.pathAndQuery)
        facts.isStream =
            response.status == 101 || StreamedResponse.isStream(response, to: subject.head.method, onStreamRoute: isStreamRoute)
        (facts.upstream, facts.isRefusal) = (context.rules.origin, isRefusal)
        func judge(_ head: Span<UInt8>) -> ResponseDecision? {
            facts.judge(response, beside: head, hasOtherRescue: hasOtherRescue, hasSeen)
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

    private func storageDecision(_ response: ResponseHead) -> StorageDecision {
        guard !isOfConnectionUser else { return .forbidden(.connectionUser) }
        if subject.head.method == .post, !hasCacheKey { takeKeyOfGet(response) }
        guard let isPartitioned = subject.fetchTarget?.isPartitioned ?? keysOfGet?.isPartitioned, let cache = context.cache else {
            return .forbidden(subject.notStored)
        }
        let control = keysOfGet == nil ? cache.control(response) : control(response, for: cache)
        let decision = cache.decideStoring(
            response, control, to: subject.head, subject.directives, isPartitioned: isPartitioned, beside: subject.found,
            good: good, kept: kept)
        if decision == .allowed { self.control = control }
        return decision
    }

    /// RFC 9111 §4.3.4: a 304 that matches no stored response cannot be used, so the request is repeated without conditions.
    func retryWithoutConditions() -> FetchMachine.Event? {
        guard var request = transfer?.request else { return nil }
        Validation.removeConditions(from: &request.fields)
        control = nil
        return send(request)
    }
}
