// Sends the response: a stored one, the upstream's, or an error. Each path ends in `finish`, which is called once.

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

extension Exchange {
    // MARK: Decisions

    func respond(_ outcome: OutcomeDecision<FoundResponse>) {
        switch outcome {
        case .serveCollapsed(let found, let age):
            record.result = .collapsed
            var lines: [UInt8] = []
            lines.append(age: age)
            context.messages.cacheStatus.forwarded(forwarding(isCollapsed: true), to: &lines)
            if head.method == .options { Preflight.appendMaxAge(found.metadata.freshnessLifetime.map { $0 - age }, to: &lines) }
            found.withHead { sendStored(found, head: $0, found.metadata, age: age, lines) }
        case .rescue(let rescue, let failure): sendRescue(rescue, failure)
        case .refuse(let failure, let reason): refuse(failure, reason)
        // The state machine handles these outcomes itself.
        case .fetchAgain, .fetchAlone, .keepWaiting: break
        }
    }

    private func sendRescue(_ rescue: Rescue<FoundResponse>, _ failure: FetchFailure) {
        // A rescued request that belongs to a failing scope is repeated as a check. Also after a wait of `rescue_after`: otherwise an
        // upstream that never responds and gets few requests would never be checked.
        if request.isRepeatable, context.coordination.health.isFailing(request.scopes) {
            context.background.rechecks.keep(request, client: client, behind: record.number)
        }
        var detail = failure.label
        switch rescue.source {
        case .own: break
        case .gone:
            detail += "/gone"
            record.found.isGone = true
            context.cache?.state.gone?.count(.served)
        case .sharedRescue(let permission):
            detail += permission.isOfSameUser ? "/\(permission.rawValue)" : "/shared:\(permission.rawValue)"
            record.reasons.sharedRescuePermission = permission
        }
        record.result = .rescued
        record.upstream.failure = failure
        var lines: [UInt8] = []
        lines.reserveCapacity(Self.usualLineBytes)
        lines.append(age: rescue.age)
        if let status = failure.status {
            context.messages.cacheStatus.forwarded(forwarding(status: status, detail: detail), to: &lines)
        } else {
            // Without an upstream response there is no `fwd`: it would claim that the upstream sent our 200 (RFC 9211 §2.2).
            let ttl = rescue.ttl ?? -rescue.age
            // A response that a write or a purge has marked is stale, whatever its remaining lifetime.
            let isMarked = !rescue.response.metadata.flags.isDisjoint(with: .countsAsStale)
            context.messages.cacheStatus.hit(
                ttl: isMarked ? min(ttl, 0) : ttl, key: shownKey, detail: detail, isFaulted: isFaulted, to: &lines)
        }
        context.messages.appendStale(age: rescue.age, failure.label, to: head, &lines)
        let found = rescue.response
        found.withHead { sendStored(found, head: $0, found.metadata, age: rescue.age, lines) }
    }

    /// Responds with an error, because no stored response may be served.
    private func refuse(_ failure: FetchFailure, _ reason: NoCopyReason) {
        record.upstream.failure = failure
        switch reason {
        case .nothingStored, .bypassed: break
        case .forbidden(let reason): record.reasons.notRescued = reason
        case .sharedRescueForbidden(let reason): record.reasons.sharedRescueRefusal = reason
        }
        sendOwn(failure.refusal(reason).response(accept: head.fields.combined(.accept), name: context.rules.name))
    }

    func sendOwn(_ response: OwnResponse) {
        var response = response
        if record.hasAPI {
            record.reasons.carriesGrant = context.messages.appendGrant(ofPath: head, to: &response.fieldLines)
        }
        record.result = .error
        record.source = .own
        record.bodyBytes = head.method == .head ? 0 : response.content.count
        sendWhole(response.head(date: context.messages.date), [], .bytes(response.content), status: response.status)
    }

    // MARK: The fetch's events

    func fetchBrought(_ response: FetchedResponse) {
        if machine.state == .streaming {
            _ = noteStorage(of: response)
            return streamEnded()
        }
        noteUpstream()
        recording?.begin(response.head)
        recording?.add(response.content.span)
        recording?.end(at: context.loop.time.monotonicMilliseconds)
        handle(.responseCame) { self.sendFetched(response) }
    }

    func fetchChallenged(_ transfer: Transfer) { context.requests.connections.setAside(transfer, on: stream) }

    func fetchConfirmed(_ confirmation: Confirmation) {
        noteUpstream()
        handle(.responseCame) { self.sendConfirmed(confirmation) }
    }

    func fetchFailed(_ failure: FetchFailure) {
        if machine.state == .streaming {
            record.upstream.failure = failure
            return breakStream(failure)
        }
        if fetch != nil { noteUpstream() }
        handle(.fetchFailed(failure))
    }

    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason?) -> Bool {
        if machine.state == .streaming {
            record.reasons.notStored = notStored
            return true
        }
        noteUpstream()
        handle(.streamBegan) {
            stopTimers()
            body = .none
            recording?.begin(head)
            if notStored == nil { context.reporting.count(.longResponses) }
            self.begin(head.withTag(knownTo: self.head.fields), length: length, notStored)
        }
        return machine.state == .streaming
    }

    func streamBrought(_ bytes: Span<UInt8>) {
        context.loop.assertOnLoop()
        guard machine.state == .streaming, !bytes.isEmpty else { return }
        recording?.add(bytes)
        guard let coding else { return write(bytes) }
        write(coding.code(bytes).span)
    }

    private func write(_ bytes: Span<UInt8>) {
        record.bodyBytes += bytes.count
        if !stream.write(bytes) { fetch?.pause() }
    }

    func streamEnded() {
        handle(.streamEnded) {
            recording?.end(at: context.loop.time.monotonicMilliseconds)
            if let coding { write(coding.end().span) }
            coding = nil
            stream.endResponse()
            finish(Status(rawValue: record.status))
        }
    }

    func streamBroke(_ error: UpstreamError) {
        if machine.state == .streaming { breakStream(.transfer(error)) }
    }

    private func breakStream(_ failure: FetchFailure) {
        // If a connection closes without a response, a client retries. So a response that has not been sent yet is withdrawn.
        let isTakenBack = stream.takeBackResponse()
        coding = nil
        if isTakenBack {
            (record.reasons.notStored, record.reasons.isBypassedStream, record.bodyBytes) = (nil, false, 0)
            noteUpstream()
        }
        handle(.streamBroke(failure, isTakenBack: isTakenBack)) { self.breakOff() }
    }

    // MARK: Results of the fetch

    private func sendFetched(_ fetched: FetchedResponse) {
        noteKept(fetched.head.status, isKept: fetched.storage == .allowed)
        var response = fetched
        var lines: [UInt8] = []
        let detail = noteStorage(of: response)?.rawValue
        context.messages.cacheStatus.forwarded(forwarding(isStored: response.storage == .allowed, detail: detail), to: &lines)
        context.messages.appendStale(StaleField.ofUpstream(response.head.fields), to: head, &lines)
        if let fault = response.fault { appendProxyStatus(details: fault, to: &lines) }
        // The fetch did not forward the client's preconditions.
        let isShort =
            head.method.isSafe
            && response.metadata.map { Preconditions.isNotModified(head.fields, stored: $0, head: response.storedHead.span) } ?? false
        let form = negotiatedForm(
            response.head, contentBytes: response.content.count, isOpen: response.metadata?.flags.contains(.isOpen))
        if isShort { response = notModified(response, form) }
        let produced = isShort ? nil : form.flatMap { gzipped(&response, $0) }
        record.bodyBytes = response.content.count
        var bytes = context.messages.clientHead.make(response.head, date: context.messages.date)
        if let tag = response.ownTag { FieldSerializer.append(.etag, tag, to: &bytes) }
        if let produced { return sendProduced(produced, after: bytes, lines, status: response.head.status) }
        if !response.head.status.forbidsContent {
            bytes.append(atMost: ByteWriter.contentLengthBytes) { $0.put(contentLength: response.content.count) }
        }
        sendWhole(bytes, lines, .bytes(response.content), status: response.head.status)
    }

    /// Records whether the response is stored.
    /// - Returns: why not; nil if it is stored.
    func noteStorage(of response: FetchedResponse) -> NotStoredReason? {
        record.isStored = response.storage == .allowed
        record.found.isGone = response.isRememberedAsGone
        guard case .forbidden(let reason) = response.storage else { return nil }
        (record.reasons.notStored, record.reasons.fault) = (reason, response.fault)
        return reason
    }

    /// Returns the form in which this client receives the response; nil if all clients receive one form.
    /// - Parameters:
    ///   - contentBytes: content length in bytes; nil if unknown.
    ///   - isOpen: whether the response can contain no secret; nil if unknown.
    private func negotiatedForm(_ response: ResponseHead, contentBytes: Int?, isOpen: Bool? = nil) -> SentForm? {
        // Content above the buffer limit counts as a download, which needs its length more than compression.
        if let contentBytes, contentBytes > context.rules.bufferLimitBytes { return nil }
        let compression = context.rules.routes.compression.rules(for: head.pathAndQuery)
        guard compression.covers(contentBytes ?? .max, from: context.rules.compressFromBytes) else { return nil }
        let facts = SentFormFacts.passed(
            response, contentBytes: contentBytes ?? .max, to: head, compression, from: context.rules.compressFromBytes
        ) { isOpen ?? self.isOpen(response.fields) }
        return facts?.isNegotiated == true ? facts?.form : nil
    }

    /// Whether the response can contain no secret.
    private func isOpen(_ response: Fields) -> Bool {
        guard let fetchTarget = request.fetchTarget, let cache = context.cache else {
            return !ResponseCredentials.arePresent(in: response) && !context.coordination.keys.maker.hasCredentials(head.fields)
        }
        return cache.isOpen(response, to: head, isPartitioned: fetchTarget.isPartitioned)
    }

    /// Compresses a whole response if that makes it shorter.
    private func gzipped(_ response: inout FetchedResponse, _ form: SentForm) -> ProducedContent? {
        var produced: ProducedContent?
        var isCoded = form == .gzipped
        if isCoded, head.method != .head {
            switch context.messages.storedResponses.gzipped(response.content, takesChunks: stream.takesChunks) {
            case .whole(.bytes(let content)): response.content = content
            case .produced(let content, _): produced = content
            case .whole, .notWon, .damaged: isCoded = false
            }
        }
        NegotiatedHead.change(&response.head, isCoded ? NegotiatedHead.Coded(.gzip) : nil)
        if isCoded { context.reporting.count(.compressedWhole) }
        return produced
    }

    /// Replaces a whole response by a 304 with the fields that the whole response would have.
    private func notModified(_ response: FetchedResponse, _ form: SentForm?) -> FetchedResponse {
        var short = response
        if let form { NegotiatedHead.change(&short.head, form == .gzipped ? NegotiatedHead.Coded(.gzip) : nil) }
        (short.head, short.content) = (Preconditions.notModified(short.head), [])
        return short
    }

    /// Records whether the response is stored. If not, the next request for this target is forwarded with the client's preconditions.
    private func noteKept(_ status: Status, isKept: Bool) {
        guard let fetchTarget = request.fetchTarget, request.found == nil, status.isSuccessful || status == 304, head.asksForChange else {
            return
        }
        context.requests.unstorable.note(fetchTarget.keys, isKept: isKept)
    }

    private func sendConfirmed(_ confirmation: Confirmation) {
        record.result = .revalidated
        let age = Freshness.currentAge(of: confirmation.metadata, now: context.loop.now)
        var lines: [UInt8] = []
        lines.append(age: age)
        context.messages.cacheStatus.forwarded(forwarding(status: 304), to: &lines)
        context.messages.appendStale(confirmation.stale, to: head, &lines)
        // The client receives a stored response instead of the upstream's content (RFC 6265 §3).
        if context.rules.setCookie != .keep { FieldSerializer.append(confirmation.credentials, to: &lines) }
        sendStored(confirmation.found, head: confirmation.head.span, confirmation.metadata, age: age, lines)
    }

    /// Starts a streamed response.
    /// - Parameter notStored: nil if the response may be stored at its end.
    func begin(_ response: ResponseHead, length: Int?, _ notStored: NotStoredReason?) {
        noteKept(response.status, isKept: false)
        record.reasons.notStored = notStored
        record.reasons.isBypassedStream = request.fetchTarget == nil && notStored != .cacheOff
        record.status = response.status.rawValue
        guard let form = negotiatedForm(response, contentBytes: length) else {
            return start(response, length: length, notStored, variesHere: false)
        }
        // A long part of the content may have arrived already, which would take too long to compress at once.
        let hasBacklog = notStored == nil && length == nil
        guard form == .gzipped, stream.takesChunks, !hasBacklog, beginCoding() else {
            return start(response, length: length, notStored, variesHere: true)
        }
        var coded = response
        NegotiatedHead.change(&coded, NegotiatedHead.Coded(.gzip))
        start(coded, length: nil, notStored, variesHere: false)
    }

    /// Starts compression of a streamed response, if there is memory for another encoder. HEAD receives the fields of GET.
    private func beginCoding() -> Bool {
        guard head.method != .head else { return true }
        coding = context.messages.passedCodings.begin()
        return coding != nil
    }

    /// - Parameters:
    ///   - response: head for the client.
    ///   - variesHere: whether other clients may receive another form, so that Vary must be added.
    private func start(_ response: ResponseHead, length: Int?, _ notStored: NotStoredReason?, variesHere: Bool) {
        let isTunnel = response.status == 101
        // What the client sends from now on is content.
        if isTunnel { upload = .streaming(nil) }
        let framing: ResponseFraming =
            if isTunnel {
                .tunnel
            } else if response.status.forbidsContent {
                .none
            } else if let length {
                .length(length)
            } else {
                head.method == .head ? .none : .chunked
            }
        var bytes = context.messages.clientHead.make(
            response, date: context.messages.date, extraCapacity: Self.usualLineBytes + stream.spaceNeeded(lines: [], framing),
            in: stream.spareOutput())
        if variesHere { NegotiatedHead.appendVary(beside: response.fields, to: &bytes) }
        let detail = request.fetchTarget == nil && notStored != .cacheOff ? nil : notStored?.rawValue
        context.messages.cacheStatus.forwarded(forwarding(detail: detail), to: &bytes)
        context.messages.appendStale(StaleField.ofUpstream(response.fields), to: head, &bytes)
        context.reporting.appendWhy(record, head, to: &bytes)
        // A response that is short enough for the buffer is read at the upstream's pace, so that its connection becomes free early.
        let limit = context.rules.bufferLimitBytes
        stream.startResponse(head: consume bytes, lines: [], framing: framing, readAhead: (length ?? 0) > limit ? 0 : limit)
    }

    /// Space for the lines that follow the response's own fields, in bytes.
    private static let usualLineBytes = 256

    /// Aborts a response that has begun and cannot be completed.
    func breakOff() {
        record.result = .error
        finish(Status(rawValue: record.status))
        stream.abortResponse()
    }

    // MARK: Sending

    /// Sends a stored response. Loads its content first if it is no longer in memory.
    /// - Parameters:
    ///   - bytes: the stored head, which a validation may have updated.
    ///   - metadata: metadata of that head.
    private func sendStored(_ found: FoundResponse, head bytes: Span<UInt8>, _ metadata: StoredMetadata, age: Int64, _ lines: [UInt8]) {
        guard let cache = context.cache, !cache.isInMemory(found) else {
            return sendNow(found, head: bytes, metadata, age: age, lines)
        }
        stopTimers()
        record.noteDiskRead()
        prepared = PreparedResponse(found: found, head: Array(copying: bytes), metadata: metadata, age: age, lines: lines)
        cache.load(contentOf: found) { [self] in
            context.loop.execute { self.sendPrepared() }
        }
    }

    private func sendPrepared() {
        context.loop.assertOnLoop()
        guard !isFinished, let prepared else { return }
        self.prepared = nil
        let head = prepared.head
        sendNow(prepared.found, head: head.span, prepared.metadata, age: prepared.age, prepared.lines)
    }

    private func sendNow(_ found: FoundResponse, head bytes: Span<UInt8>, _ metadata: StoredMetadata, age: Int64, _ lines: [UInt8]) {
        record.source = .store
        record.age = age
        handle(.sent)
        var lines = lines
        record.reasons.carriesGrant = context.messages.appendGrant(ofTarget: head, beside: bytes, to: &lines)
        context.reporting.appendWhy(record, head, to: &lines)
        let stored = StoredResponseSender.Response(found, metadata, context.rules.routes.compression.rules(for: head.pathAndQuery))
        let sent = context.messages.storedResponses.send(stored, head: bytes, to: head, lines: lines.span, on: stream)
        record.bodyBytes = sent.bodyBytes
        finish(sent.status)
    }

    private func sendProduced(_ content: ProducedContent, after bytes: [UInt8], _ lines: [UInt8], status: Status) {
        handle(.sent)
        var lines = lines
        context.reporting.appendWhy(record, head, to: &lines)
        stream.sendProduced(head: bytes.span, lines: lines.span, content: content)
        finish(status)
    }

    private func sendWhole(_ bytes: [UInt8], _ lines: [UInt8], _ body: WholeBody, status: Status) {
        handle(.sent)
        record.status = status.rawValue
        var lines = lines
        context.reporting.appendWhy(record, head, to: &lines)
        stream.sendWhole(head: bytes.span, lines: lines.span, body: body)
        finish(status)
    }

    func finish(_ status: Status) {
        stopTimers()
        recording?.finish()
        record.status = status.rawValue
        context.reporting.finish(&record, head, owner, began)
    }

    /// Adds Proxy-Status (RFC 9209 §2.1.5): the response is forwarded although it does not meet the operator's requirements.
    private func appendProxyStatus(details fault: UpstreamFault, to lines: inout [UInt8]) {
        lines += Array("Proxy-Status: \(context.rules.name); details=\"\(fault.rawValue)\"\r\n".utf8)
    }

    /// Cache key for Cache-Status; nil if the client did not request it, or may not see it.
    private var shownKey: String? { head.contains(.cisternKey) ? context.reporting.shownKey(request.fetchTarget?.keys.own) : nil }

    private var isFaulted: Bool { fetch?.isFaulted ?? false }

    /// Content of the Cache-Status field.
    private func forwarding(
        status: Status? = nil, isStored: Bool = false, isCollapsed: Bool = false, detail: String? = nil
    ) -> CacheStatus.Forwarding {
        CacheStatus.Forwarding(
            request.forwardToken, status: status, isStored: isStored, isCollapsed: isCollapsed, isFaulted: isFaulted, key: shownKey,
            detail: fetch?.unawaitedPropagation ?? detail)
    }

    func noteUpstream() {
        // The batch's time is not used, because a response often arrives in the batch in which its request was sent.
        record.upstream.microseconds = SystemTime.monotonicMicroseconds - began - waited
        if let fetch { record.upstream.note(fetch) }
    }
}

/// A stored response with the lines that precede it. A class, so that other exchanges reserve no memory for it.
final class PreparedResponse {
    let found: FoundResponse
    let head: [UInt8]
    let metadata: StoredMetadata
    let age: Int64
    let lines: [UInt8]

    init(found: FoundResponse, head: [UInt8], metadata: StoredMetadata, age: Int64, lines: [UInt8]) {
        (self.found, self.head, self.metadata, self.age, self.lines) = (found, head, metadata, age, lines)
    }
}
