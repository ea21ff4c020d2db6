// The loop of a fetch, which performs the actions that `FetchMachine` decides, and the handling of content and of the end. The fetch
// reports its outcome to the failure memory, to its client, and to the requests that wait for it on this node and others.

import CachePolicy
import Decisions
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Tracing
import Upstream

extension Fetch {
    // MARK: The loop

    /// Performs the action that follows an event. An action may cause another event, until none follows.
    /// - Parameter content: response content that arrived with the event.
    func handle(_ first: FetchMachine.Event, content: Span<UInt8> = Span()) {
        context.loop.assertOnLoop()
        var next: FetchMachine.Event? = first
        while let event = next {
            next = nil
            switch machine.handle(event) {
            case .nothing: break
            case .collect(let purpose): collect(for: purpose)
            case .buffer: buffer(content)
            case .stream(let reason): next = stream(length: response?.contentLength, reason)
            case .forward: receiver?.streamBrought(content)
            case .forwardBuffered(let isStream):
                next = streamBuffered(followedBy: content, isStream ? .stream : fits(content.count) ? .memoryLimit : .tooLarge)
            case .endStream: endStream()
            case .breakStream(let error): breakStream(error)
            case .examine(let purpose, let isDelimited): next = examine(purpose, isDelimited: isDelimited)
            case .load(let step): next = load(for: step)
            case .updateCache(.store): storeAndDeliver()
            case .updateCache(.confirm): confirm()
            case .updateCache(.rememberGone(let reason)): rememberGoneAndDeliver(reason)
            case .deliver(let reason, let fault): deliverUnstored(reason, fault)
            case .retryWithoutConditions: next = retryWithoutConditions()
            case .fail(let fault):
                reportFault(fault)
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
        }
    }

    // MARK: The content

    private func collect(for purpose: CollectedFor) {
        guard let response else { return }
        let length = response.contentLength
        // Followers learn from the head that the response will not be stored.
        if purpose != .store {
            endFlight(.unshareable)
        } else if isTooLongForNodes(length ?? 0) {
            endLease(.eachNode)
        }
        comparison = purpose == .store ? comparison(with: response) : nil
        let isExpected = comparison?.isExpected ?? false
        let isChecked = !isExpected && isJSON(response) && ContentCoding(response.fields) == .identity
        collected = CollectedContent(length: length, isChecked: isChecked, context.rules.reading)
        if let length, length > context.rules.holdLimitBytes { startForwarding() }
    }

    /// Whether content of this length exceeds the limit for sharing between nodes.
    func isTooLongForNodes(_ bytes: Int) -> Bool { bytes > context.coordination.level.contentLimitBytes }

    /// Whether the content is checked as JSON. If Content-Type is missing, the stored response determines that.
    func isJSON(_ head: ResponseHead) -> Bool {
        // Only the fields of a preflight's response matter, not its content type.
        subject.head.method != .options && !head.hasNothing
            && MediaType.isJSON(head.fields, orElse: subject.found?.metadata.flags.contains(.isJSON) ?? false)
    }

    private func buffer(_ content: Span<UInt8>) {
        let (before, hadSecondValue) = (collected.bytes.count, collected.hasSecondValue)
        collected.append(content, limit: context.rules.bufferLimitBytes)
        // Content that ends in this batch is no stream.
        if collected.hasSecondValue, !hadSecondValue { context.loop.atEndOfBatch { self.forwardStream() } }
        if !isTooLongForNodes(before), isTooLongForNodes(collected.bytes.count) { endLease(.eachNode) }
        forwardCollected(since: before)
    }

    // MARK: Complete responses

    /// - Parameter loads: number of loads so far. Beyond a limit, the cache waits for the disk.
    /// - Returns: nil while data is loaded from disk. Nearly always it is in memory.
    private func load(for step: FetchMachine.CacheStep, loads: Int = 0) -> FetchMachine.Event? {
        if loads == 0 {
            switch step {
            case .store: noteWhole()
            case .rememberGone: noteSuccess()
            // Only the cache determines whether a 304 confirms a stored response.
            case .confirm: break
            }
            if recordRepetition(step) { return .loaded }
        }
        guard let response, let storableExchange, let cache = context.cache, loads < ResponseCache.readLimit,
            let missing = cache.firstNotInMemory(
                storing: response.fields, for: storableExchange, isUpdate: step == .confirm, now: context.loop.now)
        else { return .loaded }
        cache.load(missing, on: context.loop) { self.load(for: step, loads: loads + 1).map { self.handle($0) } }
        return nil
    }

    func noteWhole() {
        noteSuccess()
        if let response, isPresent(response) { notePresent(response) }
    }

    func noteSuccess() {
        guard !report.isTrouble else { return }
        let now = clock
        context.coordination.health.succeed(
            subject.scopes, took: now - began, limit: context.rules.routes.all[subject.route].rescueAfter,
            provesUser: status.map { $0.isSuccessful || $0 == 304 } ?? false, now: now)
        context.healthChecks?.note(subject, fails: false)
    }

    /// Whether the response shows that the resource of the stored response exists. A response without content shows it only if the stored
    /// response is also without content.
    func isPresent(_ response: ResponseHead) -> Bool {
        guard response.hasNothing, subject.head.method != .head else { return response.status.isSuccessful }
        return subject.found?.metadata.status == response.status && (response.status != 200 || subject.found?.contentBytes == 0)
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

    /// Stores the response. Returns the result and the stored form; nil if the response has no cache key.
    private func store(_ head: ResponseHead) -> (result: StoringResult, head: [UInt8], metadata: StoredMetadata)? {
        guard let cache = context.cache else { return nil }
        if repetition == .recorded, var metadata = repeatedMetadata, let fetchTarget = subject.fetchTarget {
            let isOpen = cache.isOpen(head.fields, to: subject.head, isPartitioned: fetchTarget.isPartitioned)
            if !isOpen { metadata.flags.remove(.isOpen) }
            // The stored head is needed only for the client's conditions.
            return (.stored, subject.head.asksForChange ? repeatedHead(metadata) : [], metadata)
        }
        guard let storableExchange else { return nil }
        let findings = collected.findings
        let control = control(head, for: cache)
        // If the content must keep its coding, as with no-transform, it was decoded for the checks only.
        let decoded = findings.decoded.flatMap { Storing.staysCoded(head, control) ? nil : $0 }
        var whole = WholeResponse(
            head, control, decoded ?? collected.bytes, isDecoded: decoded != nil, ownTag: findings.ownTag, recency,
            isOfPOST: subject.fetchTarget == nil)
        whole.isLenient = findings.isLenient
        if decoded != nil { whole.coded = ContentCoding(head.fields).map { (collected.bytes, $0) } }
        let stored = cache.store(whole, for: storableExchange, at: context.loop.cacheTime)
        rememberHead(asRepetition: stored.changedNothing && findings.decoded == nil)
        return (stored.result, stored.head, stored.metadata)
    }

    private func deliverUnstored(_ reason: NotStoredReason, _ fault: UpstreamFault?) {
        guard let response else { return }
        if fault == nil { noteWhole() }
        observeUnstored(response, reason)
        deliver(response, .forbidden(reason)) { $0.fault = fault }
    }

    /// Passes the response to the client, after the requests that wait have been notified.
    /// - Parameter isOvertaken: whether the response is not stored because a write or a purge followed its request.
    func deliver(
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

    // MARK: The end

    /// Reports the outcome to the followers and to the lease, once.
    func endFlight(_ outcome: FlightOutcome) {
        let (collapsed, client) = (context.coordination.collapsed, subject.scopes.client)
        // A follower takes over an abandoned fetch together with the lease.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(leaseEnd(after: outcome)) }
        let outcome = outcome == .stored && givesCredential ? .unshareable : outcome
        // If there is a stored response, the failure memory applies, and no wait exceeds the soft deadline.
        let isRemembered = outcome == .unshareable || subject.found == nil
        guard let fetchTarget = subject.fetchTarget, flight != nil || fetchTarget.sharing != .none else { return }
        collapsed.end(
            flight.take(), of: fetchTarget.flight, outcome, by: client, began: began, order: recency.order, now: clock,
            isRemembered: isRemembered)
    }

    /// Whether the response gives a cookie or another credential, and permits no reuse by other clients (`public`, or a positive lifetime).
    /// Followers then send their own requests.
    private var givesCredential: Bool {
        guard let response, ResponseCredentials.arePresent(in: response.fields) else { return false }
        let control = ResponseCacheControl(response.fields)
        return !control.isPublic && control.sharedMaxAge ?? control.maxAge ?? 0 <= 0
    }

    /// How the wait of other nodes ends. A response for all users is stored under another key than that of the request.
    private func leaseEnd(after outcome: FlightOutcome) -> LeaseEnd {
        switch outcome {
        case .stored: subject.fetchTarget?.keys.common == nil ? .stored : .free
        case .unshareable: .eachRequest
        case .failed(let failure) where failure.isOfUpstream: subject.found == nil ? .eachRequest : .eachNode
        case .failed, .outdated, .overtaken, .abandoned: .free
        }
    }

    func endLease(_ end: LeaseEnd) {
        guard holdsLease, let fetchTarget = subject.fetchTarget else { return }
        context.coordination.level.ended(fetchTarget.keys.own, end, by: subject.scopes.client)
    }

    /// Reports the end to the receiver and releases it.
    func finish(_ notify: (any FetchReceiver) -> Void) {
        (slot, continuation) = (nil, nil)
        if span != nil { endSpan() }
        if let receiver = receiver.take() { notify(receiver) }
    }

    func endSpan(isAbandoned: Bool = false) {
        guard let span = span.take() else { return }
        span.work.isAbandoned = isAbandoned
        span.work.upstream.note(self)
        context.reporting.endSpan(span)
    }

    func fail(_ fault: UpstreamFault) { fail(.fault(fault, status ?? 502)) }

    /// Ends the fetch without a usable response.
    func fail(_ failure: FetchFailure) {
        span?.work.upstream.failure = failure
        observeFailure(failure)
        if isOutage(failure), let found = subject.found {
            context.cache?.state.surprises.failed(found.key, now: context.loop.cacheTime.monotonic)
        }
        endFlight(.failed(failure))
        finish { $0.fetchFailed(failure) }
    }

    /// Whether the failure shows an outage of the upstream, or that its responses are unreliable. A redirect, an unexpected response or
    /// other content may be intended, and errors of Cistern show nothing.
    func isOutage(_ failure: FetchFailure) -> Bool {
        switch failure {
        case .fault(let fault, _): fault != .redirected && fault != .crowd && !fault.isOfContent
        case .transfer(let error): !error.isOwn
        case .stopped, .slow, .tooManyStreams: false
        }
    }

    private func stop() {
        if held?.isUnjudged == true, let response { _ = invalidate(after: response) }
        (slot, continuation) = (nil, nil)
        receiver = nil
        endSpan(isAbandoned: true)
        endFlight(.abandoned)
        endCredentialChangeWithoutResponse()
        if let transfer, transfer.isSent { _ = invalidateAfterLoss(transfer) }
        transfer?.cancel()
        transfer = nil
    }

    // MARK: Failures

    /// Reports a failure that the status shows. A success is reported only once the response is complete.
    func noteTrouble(_ head: ResponseHead) {
        report.isTrouble = true
        context.coordination.health.reach(now: clock)
        if head.status == 429 || head.status == 503, let retryAfter = RetryAfter.milliseconds(head.fields, now: context.loop.now) {
            context.coordination.health.pause(subject.scopes, head.status, retryAfter: retryAfter, now: clock)
        }
        // 429 concerns one client's rate limit, so it is no failure of the upstream.
        if head.status != 429 { noteFailure(.status(head.status)) }
    }

    private func noteFailure(_ cause: FailureCause) {
        guard !report.hasFailed else { return }
        report.hasFailed = true
        let (health, now) = (context.coordination.health, clock)
        guard subject.isReading else { return health.failWriting(subject.scopes, cause, began: began, now: now) }
        health.fail(subject.scopes, cause, began: began, now: now)
        context.healthChecks?.note(subject, fails: true)
    }

    func reportFault(_ fault: UpstreamFault) {
        if fault == .redirected { noteFailure(.status(status ?? 302)) } else if fault.isFailure { noteFailure(.junk) }
    }

    /// Reports a failed transfer, except for errors of Cistern and failures to connect, which the connection attempt reports. An injected
    /// failure to connect counts for the request, and not for the upstream's address.
    func reportError(_ error: UpstreamError) {
        if !error.isOwn, isFaulted || !error.isFailureToReach { noteFailure(.transfer(error)) }
    }
}

extension FlightOutcome {
    init(_ storage: StorageDecision) {
        self =
            switch storage {
            case .allowed: .stored
            case .forbidden(.outdated): .outdated
            case .forbidden: .unshareable
            }
    }

    init(_ result: ConfirmationResult) {
        self =
            switch result {
            case .stored: .stored
            case .outdated: .outdated
            case .unshareable: .unshareable
            }
    }
}
