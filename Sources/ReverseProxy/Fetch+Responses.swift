// Handles the events of a transfer. The head decides how the response is used; its content is collected or forwarded. At the end, collected
// content is examined and passed to the cache.

import CachePolicy
import Decisions
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sharing
import Upstream

extension Fetch: TransferReceiver {
    /// Records the time of sending again: the request may have waited for a connection, or be a retry.
    func transferBegins(_ transfer: Transfer) { noteSending() }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        receiver?.fetchInformed(head.removingHopByHop())
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        shard.loop.assertOnLoop()
        recency.responseTime = shard.now
        shard.countResponse(head, transfer.times)
        address = transfer.address
        if address > 0 { head = shard.asOfFirstAddress(head, from: address) }
        var upgrade: [UInt8]?
        if head.status == 101 {
            guard Upgrade.isAccepted(by: head, offered: transfer.request.fields) else {
                return perform(machine.handle(.decided(.fail(.unexpectedStatus))))
            }
            upgrade = Array(head.fields.first(.upgrade) ?? [])
        }
        if ConnectionAuthentication.challenge(in: head.fields) != nil {
            isOfConnectionUser = true
            receiver?.fetchChallenged(transfer)
        }
        judge(head)
        let hasUnwrittenMarks = invalidate(after: head)
        noteIdentity(head)
        head.removeHopByHop()
        if let upgrade { head.fields.append(.upgrade, upgrade) }
        status = head.status
        guard hasUnwrittenMarks || mayBeAwaited && (shard.process.peer.isAwaited || shard.level?.isAwaited ?? false) else {
            return use(head, of: transfer)
        }
        response = head
        hold(transfer)
    }

    /// Processes the response head, at once or when a held response is released.
    func use(_ response: consuming ResponseHead, of transfer: Transfer) {
        let length = response.contentLength
        var decision = decide(response, to: transfer.request, length: length)
        // A 304 for one user's connection must not update a response that is stored for other users.
        if isOfConnectionUser, decision == .confirm { decision = .fail(.unexpectedStatus) }
        if decision.isUse, !isOfConnectionUser { shard.noteGrant(response, to: subject.head) }
        let action = machine.handle(.decided(admit(decision)))
        updateStored(by: response)
        if case .stream(let reason) = action { return stream(response, length: length, reason) }
        if case .collect = action, case .collect(let purpose) = decision {
            // Followers learn from the head that the response will not be stored.
            if purpose != .store {
                land(.unshareable)
            } else if isTooLongForNodes(length ?? 0) {
                noteTooLongForNodes()
            }
            collected = CollectedContent(shard.settings.policy.reading)
            collected.begin(length: length, isJSON: isJSON(response) && ContentCoding(response.fields) == .identity)
        }
        self.response = response
        perform(action)
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        shard.loop.assertOnLoop()
        shard.countResponseBytes(bytes.count)
        if let held { return held.content.append(copying: bytes) }
        let limit = shard.settings.content.bufferLimitBytes
        let action = machine.handle(.contentCame(bytes: bytes.count, fits: collected.bytes.count + bytes.count <= limit))
        switch action {
        case .hold:
            let wasTooLong = isTooLongForNodes(collected.bytes.count)
            collected.append(bytes, limit: limit)
            if !wasTooLong, isTooLongForNodes(collected.bytes.count) { noteTooLongForNodes() }
        case .passOn: receiver?.streamBrought(bytes)
        case .passOnHeld: passOnHeld(bytes)
        case let other: perform(other)
        }
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        shard.loop.assertOnLoop()
        if let held {
            held.end = .ended(isDelimited: isDelimited)
            return
        }
        perform(machine.handle(.transferEnded(isDelimited: isDelimited)))
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        shard.loop.assertOnLoop()
        if let held {
            held.end = .failed(error)
            return
        }
        shard.countUpstreamError(error)
        // The end of a stream is no evidence about other requests.
        if !report.isStream { note(error) }
        perform(machine.handle(.transferFailed(error)))
    }

    func transferDrained(_ transfer: Transfer) { receiver?.fetchDrained() }

    // MARK: The head

    private func decide(_ response: ResponseHead, to request: UpstreamRequest, length: Int?) -> ResponseDecision {
        // The operator's requirements on good responses matter only if there is a stored response.
        var facts = ResponseFacts(
            subject.head, sent: request.fields.known, response.status,
            copy: subject.found.map { ($0.metadata, $0.withHead { Array(copying: $0) }) },
            mayRescue: subject.mayRescue, isLookedUp: hasPlace, good: subject.found == nil ? nil : good,
            strictness: shard.settings.policy.strictness)
        facts.isStream =
            response.status == 101
            || StreamedResponse.isStream(response, to: subject.head.method, onStreamRoute: shard.routes.stream(subject.head.pathAndQuery))
        facts.upstream = shard.shared.cacheSettings.upstream
        if let decision = facts.judge(response, hasStandIn: hasStandIn, hasSeen) { return decision }
        // The response to a POST may have a cache key now: that of a GET.
        let storage = storageDecision(response)
        facts.isLookedUp = hasPlace
        return facts.use(
            storage, saysGone: saysGone(response, storage),
            ResponseFacts.Room(
                length: length, limitBytes: shard.settings.content.bufferLimitBytes,
                examinedAtOnceBytes: shard.settings.content.examinedAtOnceBytes, isExaminerFull: shard.workers.content.isFull))
    }

    /// Admits a stream if the limit on connections that streams occupy permits it.
    private func admit(_ decision: ResponseDecision) -> ResponseDecision {
        guard decision == .stream(.stream) else { return decision }
        guard becomeStream() else { return .turnAway }
        report.isStream = true
        noteSuccess()
        return decision
    }

    /// The operator's requirements on good responses of this route.
    private var good: GoodResponse {
        subject.head.method == .options ? GoodResponse() : shard.routes.good(on: subject.route)
    }

    /// The operator's requirements for storing responses of this route.
    private var kept: GoodResponse {
        subject.head.method == .options ? GoodResponse() : shard.routes.kept(on: subject.route)
    }

    private func storageDecision(_ response: ResponseHead) -> StorageDecision {
        guard !isOfConnectionUser else { return .forbidden(.connectionUser) }
        if subject.head.method == .post, !hasPlace { takeKeyOfGet(response) }
        guard let isPartitioned = subject.place?.isPartitioned ?? keysOfGet?.isPartitioned, let cache = shard.cache else {
            return .forbidden(subject.notStored)
        }
        let control = keysOfGet == nil ? cache.control(response) : control(response, for: cache)
        let decision = cache.decideStoring(
            response, control, to: subject.head, subject.directives, isPartitioned: isPartitioned, beside: subject.found, good: good,
            kept: kept)
        if decision == .allowed { self.control = control }
        return decision
    }

    /// RFC 9110 §9.3.3: the response to a POST may be stored for later GETs if it has an explicit lifetime and a Content-Location equal to
    /// the target.
    private func takeKeyOfGet(_ response: ResponseHead) {
        guard let cache = shard.cache else { return }
        let control = control(response, for: cache)
        let hasLifetime =
            control.maxAge != nil || control.sharedMaxAge != nil || (!control.hidesExpires && response.fields.contains(.expires))
        guard response.status == 200, hasLifetime, let location = response.fields.first(.contentLocation),
            Invalidation.isSame(location, as: subject.head.pathAndQuery, origin: shard.shared.cacheSettings.upstream)
        else { return }
        keysOfGet = cache.keysOfGet(for: subject.head, by: subject.client)
    }

    // MARK: The content

    private func stream(_ response: ResponseHead, length: Int?, _ reason: NotStoredReason) {
        // A follower may meet this failure too. With this outcome it serves a stored response or sends its own request.
        land(report.isTrouble ? .failed(.fault(.serverError, response.status)) : .unshareable)
        // Whether the response is good is known at its end, which may be far away.
        shard.noteReached()
        if isPresent(response.status) { notePresent(response) }
        body = .none
        let isWanted = receiver?.streamBegan(response, length: length, notStored: reason) ?? false
        if !isWanted { perform(machine.handle(.unwanted)) }
    }

    /// Forwards the collected content, and then streams.
    private func passOnHeld(_ bytes: Span<UInt8>) {
        guard let response else { return }
        let held = collected.bytes
        collected.removeAll()
        stream(response, length: nil, .tooLarge)
        receiver?.streamBrought(held.span)
        receiver?.streamBrought(bytes)
    }

    // MARK: Complete responses

    /// Examines collected content; long content is examined off the event loop.
    func examine(_ purpose: CollectedFor, isDelimited: Bool) {
        guard let response else { return }
        let hasContent = !response.status.forbidsContent
        let examination = ContentExamination(
            ContentExamination.Arrived(
                collected.bytes, hasContent ? ContentCoding(response.fields) : nil, isJSON: isJSON(response), collected.verdict(),
                isDelimited: isDelimited || !hasContent, reading: shard.settings.policy.reading),
            ContentExamination.Demands(
                good, kept: kept, isGraphQL: subject.isGraphQL, storedBytes: subject.found?.contentBytes,
                makesTag: purpose == .store && shard.settings.policy.makesEntityTags && CachePolicySettings.wantsOwnTag(response),
                limitBytes: shard.settings.content.bufferLimitBytes))
        if let findings = examination.findings(within: shard.settings.content.examinedAtOnceBytes) { return examined(purpose, findings) }
        shard.countExaminedBeside()
        shard.workers.content.perform(collected.bytes.count) {
            examination.findings()
        } then: { findings in
            if let findings { self.examined(purpose, findings) }
        }
    }

    private func examined(_ purpose: CollectedFor, _ findings: ContentExamination.Findings) {
        shard.loop.assertOnLoop()
        collected.findings = findings
        // After a client's own write, an empty response is what the upstream means.
        let isWanted = findings.fault == .emptyContent && subject.mayRescue && hasSeen(.afterOwnWrite)
        let decision = purpose.decide(
            findings.fault, obstacle: findings.obstacle ?? obstacle(of: findings), mayRescue: subject.mayRescue && !isWanted,
            shard.settings.policy.strictness)
        perform(machine.handle(.examined(decision)))
    }

    /// JSON that RFC 8259 rejects never replaces a stored response with valid JSON.
    private func obstacle(of findings: ContentExamination.Findings) -> NotStoredReason? {
        guard findings.isLenient, let response, let found = subject.found else { return nil }
        let copy = found.withHead { LastGood.Copy(found.metadata, head: $0, beside: response) }
        return LastGood.obstacle(response, isLenient: true, inPlaceOf: copy, strictness: shard.settings.policy.strictness)
    }

    /// Continues once the stored data that storing needs is in memory, which is nearly always at once.
    func readIn(_ step: FetchMachine.CacheStep) {
        guard let response else { return }
        switch step {
        case .store: noteWhole(response)
        case .rememberGone: noteSuccess()
        case .confirm: break
        }
        whenAtHand(storing: response, isUpdate: step == .confirm) { self.perform(self.machine.handle(.readIn)) }
    }

    func take(_ step: FetchMachine.CacheStep) {
        guard let response else { return }
        switch step {
        case .confirm: confirm(by: response)
        case .rememberGone(let reason):
            let isRemembered = rememberGone(response)
            bring(response, .forbidden(reason)) { $0.isRememberedAsGone = isRemembered }
        case .store:
            let stored = store(response)
            let decision = stored?.result.decision ?? .forbidden(.storeRefused)
            bring(response, decision, isOvertaken: stored?.result == .invalidated) { fetched in
                guard let stored else { return }
                (fetched.storedHead, fetched.metadata, fetched.ownTag) = (stored.head, stored.metadata, collected.findings.ownTag)
            }
        }
    }

    /// Forwards a complete response without storing it.
    func passOnWhole(_ reason: NotStoredReason, _ fault: UpstreamFault?) {
        guard let response else { return }
        if fault == nil { noteWhole(response) }
        bring(response, .forbidden(reason)) { $0.fault = fault }
    }

    /// - Parameter isOvertaken: whether the response is not stored because a write or a purge followed its request.
    private func bring(
        _ response: ResponseHead, _ storage: StorageDecision, isOvertaken: Bool = false, _ complete: (inout FetchedResponse) -> Void
    ) {
        let shown = AcceptedCoding.shown(response, collected.bytes, decoded: collected.findings.decoded, to: subject.head)
        var fetched = FetchedResponse(head: shown.head, content: shown.content, storage: storage)
        complete(&fetched)
        if storage == .allowed { shard.countStored() }
        land(isOvertaken ? .overtaken : FlightOutcome(storage))
        letGo { $0.fetchBrought(fetched) }
    }

    private func noteWhole(_ response: ResponseHead) {
        noteSuccess()
        if isPresent(response.status) { notePresent(response) }
    }

    /// Whether the status shows that the resource of the stored response exists. A 204 or 205 shows it only if the stored response has that
    /// status.
    private func isPresent(_ status: Status) -> Bool {
        guard status == 204 || status == 205 else { return status.isSuccessful }
        return subject.found?.metadata.status == status
    }

    /// Whether the content is checked as JSON. Without a Content-Type, this depends on the stored response.
    private func isJSON(_ head: ResponseHead) -> Bool {
        // Only the fields of a preflight's response matter, not its content type. A 205 has no content (RFC 9110 §15.3.6).
        subject.head.method != .options && head.status != 205
            && MediaType.isJSON(head.fields, orElse: subject.found?.metadata.flags.contains(.isJSON) ?? false)
    }
}
