// The machine of one client's exchange that is not a fresh hit: asks through a `Fetch` and answers with what it brings, or with the stored
// copy where that fails. Its states are in `ExchangeState`; each event is one function.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore
import Reactor
import Telemetry
import Upstream

enum ExchangeState {
    /// The upstream has been asked; nothing of the answer has gone out.
    case asking
    /// The answer is passed on as it comes.
    case streaming
    /// Answered, or the client is gone.
    case finished
}

final class Exchange: ClientExchange, FetchReceiver {
    private let shard: ProxyShard
    /// The connection lets go of its exchange when it is answered or closed; so this is no cycle that lasts.
    private let connection: ClientConnection
    private let head: RequestHead
    private let framing: ContentFraming
    private let plan: ExchangePlan
    private let began: Int64
    private var state = ExchangeState.asking
    private var fetch: Fetch?
    private var isRequestWhole = false
    private var record: ExchangeRecord

    init(shard: ProxyShard, connection: ClientConnection, head: RequestHead, framing: ContentFraming, plan: ExchangePlan, began: Int64) {
        self.shard = shard
        self.connection = connection
        self.head = head
        self.framing = framing
        self.plan = plan
        self.began = began
        isRequestWhole = framing == .none || framing == .length(0)
        record = ExchangeRecord(result: plan.key == nil ? .bypass : .miss, method: MethodLabel(head.method), status: 0)
    }

    var isFinished: Bool { if case .finished = state { true } else { false } }

    // MARK: Asking

    func start() {
        if let refusal = RequestRefusals.refusal(of: head, fields: shard.requestFields, upstream: shard.settings.forwarding.name) {
            return answerOwn(refusal, result: .error)
        }
        if plan.directives.onlyIfCached, plan.key != nil {
            return answerError(504, "Nothing fresh is stored for this request, and it asked for nothing else.", proxyError: nil)
        }
        var fields = shard.requestFields.make(from: head, client: client)
        if plan.key != nil { prepareForStore(&fields) }
        let request = UpstreamRequest(method: head.method, target: Array(head.pathAndQuery), fields: fields, content: framing)
        let subject = Fetch.Subject(
            head: head, directives: plan.directives, key: plan.key, sharedKey: plan.sharedKey, isPartitioned: plan.isPartitioned,
            found: plan.found, mayRescue: rescue != nil)
        let fetch = Fetch(shard: shard, subject: subject, receiver: self)
        self.fetch = fetch
        if !fetch.start(request) { fetchFailed(.transfer(.proxyInternalError)) }
    }

    private var client: UpstreamRequestFields.Client {
        UpstreamRequestFields.Client(address: connection.peer.text, isIPv6: connection.peer.isIPv6, host: head.host)
    }

    /// Our own conditions in the place of the client's, and a coding that can be taken off again.
    private func prepareForStore(_ fields: inout Fields) {
        if let found = plan.found { Validation.addConditions(to: &fields, stored: found.metadata, head: found.item.head) }
        guard fields.contains(.acceptEncoding) else { return }
        let members = FieldLists.members(of: .acceptEncoding, in: fields)
        let acceptsGzip = members.contains { AcceptedCoding($0)?.acceptsGzip == true }
        fields.set(.acceptEncoding, Array((acceptsGzip ? "gzip" : "identity").utf8))
    }

    /// Age and freshness left of the stored copy, where it may go out while the upstream fails.
    private var rescue: (age: Int64, ttl: Int64?)? {
        guard let found = plan.found else { return nil }
        let strictness = shard.settings.policy.strictness
        guard case .allowed(let age, let ttl) = Reuse.rescue(found.metadata, plan.directives, strictness: strictness, now: shard.now) else {
            return nil
        }
        return (age, ttl)
    }

    // MARK: The client's events

    func requestContent(_ bytes: Span<UInt8>) {
        shard.countRequestBytes(bytes.count)
        if let fetch, !fetch.write(bytes) { connection.pauseContent() }
    }

    func requestEnded() {
        isRequestWhole = true
        fetch?.endContent()
    }

    func responseDrained() { fetch?.resume() }

    func clientLeft() {
        guard !isFinished else { return }
        state = .finished
        fetch?.abandon(isRequestWhole: isRequestWhole)
        fetch = nil
        record.status = 499
        record.result = .error
        shard.finish(&record, head, connection, began)
    }

    // MARK: The fetch's events

    func fetchInformed(_ head: ResponseHead) { connection.sendInformational(head) }

    func fetchDrained() { connection.resumeContent() }

    func fetchAnswered(_ answer: WholeAnswer) {
        noteUpstream()
        var lines: [UInt8] = []
        switch answer.storage {
        case .allowed: shard.countStored()
        case .forbidden(let reason): record.notStored = MetricNames.place(of: reason)
        }
        let detail: String? = if case .forbidden(let reason) = answer.storage { reason.rawValue } else { nil }
        shard.cacheStatus.forwarded(forwardToken, stored: answer.storage == .allowed, detail: detail, to: &lines)
        record.bodyBytes = answer.content.count
        // The client's own conditions were not sent on, so they are answered here.
        if plan.found != nil, let metadata = answer.metadata {
            let isNotModified = answer.storedHead.withUnsafeBytes { Preconditions.isNotModified(head.fields, stored: metadata, head: $0) }
            if isNotModified {
                record.bodyBytes = 0
                let notModified = answer.storedHead.withUnsafeBytes { Preconditions.notModifiedHead($0) }
                return sendWhole(notModified, lines, .none, status: 304)
            }
        }
        var bytes: [UInt8] = []
        ResponseSerializer.append(passedOn(answer.head), to: &bytes)
        bytes.append("Content-Length: ")
        bytes.append(decimal: answer.content.count)
        bytes.append("\r\n")
        sendWhole(bytes, lines, .bytes(answer.content), status: answer.head.status)
    }

    func fetchConfirmed(_ confirmation: Confirmation) {
        noteUpstream()
        record.result = .revalidated
        record.isFromStore = true
        let age = Freshness.currentAge(of: confirmation.metadata, now: shard.now)
        record.age = age
        var lines: [UInt8] = []
        appendAge(age, to: &lines)
        shard.cacheStatus.forwarded("stale", status: 304, to: &lines)
        let item = confirmation.found.item
        state = .finished
        let status = confirmation.head.withUnsafeBytes { bytes in
            StoredAnswer.send(
                storedHead: bytes, metadata: confirmation.metadata, body: .borrowed(item.body, owner: item.owner), to: head, lines: lines,
                on: connection)
        }
        record.bodyBytes = status == 304 || head.method == .head ? 0 : item.body.count
        finish(status)
    }

    func fetchFailed(_ failure: FetchFailure) {
        noteUpstream()
        if let found = plan.found, let rescue { return serveRescue(found, rescue, failure) }
        switch failure {
        case .transfer(let error):
            answerError(
                error.status, "The upstream failed (\(error.rawValue)), and no stored copy may be served.", proxyError: error.rawValue)
        case .fault(_, let status):
            answerError(502, "The upstream's answer (\(status.rawValue)) cannot be used.", proxyError: "http_protocol_error")
        }
    }

    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason) {
        noteUpstream()
        state = .streaming
        if plan.key != nil { record.notStored = MetricNames.place(of: notStored) }
        record.status = head.status.rawValue
        var lines: [UInt8] = []
        shard.cacheStatus.forwarded(forwardToken, detail: plan.key == nil ? nil : notStored.rawValue, to: &lines)
        let framing: ResponseFraming =
            if head.status.forbidsContent {
                .none
            } else if let length {
                .length(length)
            } else {
                self.head.method == .head ? .none : .chunked
            }
        connection.startResponse(passedOn(head), lines: lines, framing: framing)
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
        state = .finished
        record.result = .error
        finish(Status(rawValue: record.status))
        connection.abortResponse()
    }

    // MARK: Answering

    private func serveRescue(_ found: FoundResponse, _ rescue: (age: Int64, ttl: Int64?), _ failure: FetchFailure) {
        record.result = .rescued
        record.isFromStore = true
        record.age = rescue.age
        record.rescueCause = MetricNames.place(of: failure)
        var lines: [UInt8] = []
        appendAge(rescue.age, to: &lines)
        if let status = failure.status {
            shard.cacheStatus.forwarded("stale", status: status, detail: failure.label, to: &lines)
        } else {
            // Without an answer there is no `fwd`: it would claim that the upstream sent our 200 (RFC 9211 §2.2).
            shard.cacheStatus.hit(ttl: min(rescue.ttl ?? -rescue.age, 0), detail: failure.label, to: &lines)
        }
        state = .finished
        let status = StoredAnswer.send(found, to: head, lines: lines, on: connection)
        record.bodyBytes = status == 304 || head.method == .head ? 0 : found.item.body.count
        finish(status)
    }

    private func answerError(_ status: Status, _ sentence: String, proxyError: String?) {
        var answer = OwnResponse(status: status, sentence: sentence, accept: head.fields.combined(.accept))
        if let proxyError {
            answer.fieldLines = Array("Proxy-Status: \(shard.settings.forwarding.name); error=\(proxyError)\r\n".utf8)
        }
        answerOwn(answer, result: .error)
    }

    private func answerOwn(_ answer: OwnResponse, result: CacheResult) {
        record.result = result
        record.bodyBytes = answer.content.count
        sendWhole(answer.head(date: shard.date), [], .bytes(answer.content), status: answer.status)
    }

    private func sendWhole(_ bytes: [UInt8], _ lines: [UInt8], _ body: WholeBody, status: Status) {
        state = .finished
        bytes.withUnsafeBytes { head in
            lines.withUnsafeBytes { connection.sendWhole(head: head, lines: $0, body: body) }
        }
        finish(status)
    }

    private func finish(_ status: Status) {
        record.status = status.rawValue
        shard.finish(&record, head, connection, began)
    }

    /// An answer's head as the client gets it: the length made anew, Via added, a redirect kept here, Date added where it is missing.
    private func passedOn(_ answer: ResponseHead) -> ResponseHead {
        var head = answer
        head.fields.remove(.contentLength)
        if !head.fields.contains(.date) { head.fields.append(.date, shard.date) }
        if let via = shard.via { head.fields.append(.via, via) }
        if shard.settings.forwarding.rewriteLocation, let location = head.fields.first(.location),
            let relative = LocationRewriting.relative(location, to: shard.origin, basePath: shard.basePath)
        {
            head.fields.set(.location, relative)
        }
        return head
    }

    private func appendAge(_ age: Int64, to lines: inout [UInt8]) {
        lines.append("Age: ")
        lines.append(decimal: Int(age))
        lines.append("\r\n")
    }

    private var forwardToken: StaticString {
        if let bypass = plan.bypass { return bypass.forwardToken }
        guard plan.key != nil else { return "bypass" }
        guard plan.found != nil else { return plan.missToken }
        return plan.directives == RequestCacheControl() ? "stale" : "request"
    }

    private func noteUpstream() { record.upstreamMicroseconds = shard.loop.batchMicroseconds - began }
}

/// One member of Accept-Encoding (RFC 9110 §12.5.3).
private struct AcceptedCoding {
    let acceptsGzip: Bool

    init?(_ member: ArraySlice<UInt8>) {
        let parts = FieldLists.members(of: member, separator: UInt8(ascii: ";"))
        guard let name = parts.first else { return nil }
        let isGzip = name.equalsIgnoringCase("gzip") || name.equalsIgnoringCase("x-gzip")
        let isRefused = parts.dropFirst().contains { part in
            part.prefix(2).equalsIgnoringCase("q=") && part.dropFirst(2).allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
        }
        acceptsGzip = isGzip && !isRefused
    }
}
