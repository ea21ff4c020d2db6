// How an exchange answers: with a stored copy, with what the upstream sent, or with an error of our own. Each way ends in `finish`, once.

import CachePolicy
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Telemetry
import Upstream

extension Exchange {
    /// The copy of those without credentials goes out.
    func serveStandIn(_ copy: StandIn, _ failure: FetchFailure) throws(NotAtHand) {
        record.sharedPermission = MetricNames.place(of: copy.permission)
        trace.sharedPermission = copy.permission
        try serveRescue(copy.found, (copy.age, copy.ttl), failure, detail: "\(failure.label)/shared:\(copy.permission.rawValue)")
    }

    /// The request's own copy goes out.
    func serveOwnCopy(_ found: FoundResponse, _ rescue: (age: Int64, ttl: Int64?), _ failure: FetchFailure) throws(NotAtHand) {
        let (found, rescue) = try latest(found, rescue)
        try serveRescue(found, rescue, failure)
    }

    /// - Parameter detail: for Cache-Status, where it has more to tell than the failure.
    func serveRescue(
        _ found: FoundResponse, _ rescue: (age: Int64, ttl: Int64?), _ failure: FetchFailure, detail: String? = nil
    ) throws(NotAtHand) {
        if let gone = try shard.lookUp?.gone(beside: found) { return serveGone(gone, failure) }
        sendRescue(found, rescue, failure, detail: detail)
    }

    private func sendRescue(_ found: FoundResponse, _ rescue: (age: Int64, ttl: Int64?), _ failure: FetchFailure, detail: String?) {
        let detail = detail ?? failure.label
        record.result = .rescued
        record.rescueCause = MetricNames.place(of: failure)
        trace.failure = Int16(record.rescueCause ?? -1)
        if case .stopped(let stop) = failure { trace.stop = stop }
        var lines: [UInt8] = []
        lines.append(age: rescue.age)
        if let status = failure.status {
            let token = plan.found == nil ? forwardToken : selectedToken(found)
            shard.cacheStatus.forwarded(token, status: status, key: shownKey, detail: detail, to: &lines)
        } else {
            // Without an answer there is no `fwd`: it would claim that the upstream sent our 200 (RFC 9211 §2.2).
            shard.cacheStatus.hit(ttl: min(rescue.ttl ?? -rescue.age, 0), key: shownKey, detail: detail, to: &lines)
        }
        sendStored(found, age: rescue.age, lines)
    }

    /// The last that the upstream said of it is that it is gone.
    private func serveGone(_ gone: FoundResponse, _ failure: FetchFailure) {
        let strictness = shard.settings.policy.strictness
        guard case .allowed(let age, let ttl) = Reuse.rescue(gone.metadata, plan.directives, strictness: strictness, now: shard.now) else {
            return answerFailure(failure)
        }
        shard.lookUp?.shared.gone?.count(.served)
        trace.isGone = true
        sendRescue(gone, (age, ttl), failure, detail: "\(failure.label)/gone")
    }

    /// What is stored now, where it is later than what was found when the request came: an older copy must not follow a newer one.
    private func latest(
        _ found: FoundResponse, _ rescue: (age: Int64, ttl: Int64?)
    ) throws(NotAtHand) -> (FoundResponse, (age: Int64, ttl: Int64?)) {
        let strictness = shard.settings.policy.strictness
        guard let keys = plan.keys, let now = try shard.lookUp?.find(head, at: keys).found,
            now.metadata.recency.isLater(than: found.metadata.recency),
            case .allowed(let age, let ttl) = Reuse.rescue(now.metadata, plan.directives, strictness: strictness, now: shard.now)
        else { return (found, rescue) }
        return (now, (age, ttl))
    }

    func sendStored(_ found: FoundResponse, age: Int64, _ lines: [UInt8]) {
        sendStored(found, head: found.head, found.metadata, age: age, lines)
    }

    /// It was looked up a while ago perhaps, so it may have to be brought in again.
    /// - Parameters:
    ///   - bytes: the stored head, perhaps just brought up to date.
    ///   - metadata: what belongs to it.
    func sendStored(_ found: FoundResponse, head bytes: UnsafeRawBufferPointer, _ metadata: StoredMetadata, age: Int64, _ lines: [UInt8]) {
        guard let cache = shard.lookUp, !cache.isAtHand(found) else {
            return sendNow(found, head: bytes, metadata, age: age, lines)
        }
        state = .readingIn
        stopTimer()
        trace.noteDiskRead()
        prepared = PreparedResponse(found: found, head: Array(bytes), metadata: metadata, age: age, lines: lines)
        cache.bringIn(contentOf: found) { [self] in
            shard.loop.execute { self.sendPrepared() }
        }
    }

    private func sendPrepared() {
        guard case .readingIn = state, let prepared else { return }
        self.prepared = nil
        prepared.head.withUnsafeBytes { sendNow(prepared.found, head: $0, prepared.metadata, age: prepared.age, prepared.lines) }
    }

    private func sendNow(
        _ found: FoundResponse, head bytes: UnsafeRawBufferPointer, _ metadata: StoredMetadata, age: Int64, _ lines: [UInt8]
    ) {
        record.source = .store
        record.age = age
        state = .finished
        var lines = lines
        appendWhy(to: &lines)
        let body = WholeBody.borrowed(found.content, owner: found.owner)
        let sent = lines.withUnsafeBytes {
            shard.storedAnswers.send(storedHead: bytes, metadata: metadata, body: body, to: head, lines: $0, on: connection)
        }
        record.bodyBytes = sent.bodyBytes
        finish(sent.status)
    }

    /// There is no copy, or none that may go out.
    func answerFailure(_ failure: FetchFailure) {
        trace.failure = Int16(MetricNames.place(of: failure) ?? -1)
        if case .stopped(let stop) = failure { trace.stop = stop }
        noteWhyNotRescued()
        switch failure {
        case .transfer(.connectionLimitReached):
            answerError(
                503, "Too many requests wait for the upstream, and no stored copy may be served.",
                proxyError: UpstreamError.connectionLimitReached.rawValue, retryAfter: 1)
        case .transfer(let error):
            answerError(
                error.status, "The upstream failed (\(error.text)), and no stored copy may be served.",
                proxyError: error.proxyStatus)
        case .fault(_, let status):
            answerError(502, "The upstream's answer (\(status.rawValue)) cannot be used.", proxyError: "http_protocol_error")
        case .stopped(let stop):
            answerError(
                503, "The upstream cannot be reached (\(stop.cause.label)), and no stored copy may be served.", proxyError: failure.label,
                retryAfter: max(1, (stop.wait + 999) / 1000))
        case .slow: answerError(504, "The upstream is too slow.", proxyError: UpstreamError.responseTimeout.rawValue)
        }
    }

    /// - Parameter retryAfter: seconds.
    func answerError(_ status: Status, _ sentence: String, proxyError: String?, retryAfter: Int64? = nil) {
        var answer = OwnResponse(status: status, sentence: sentence, accept: head.fields.combined(.accept))
        if let proxyError {
            answer.fieldLines = Array("Proxy-Status: \(shard.settings.forwarding.name); error=\(proxyError)\r\n".utf8)
        }
        if let retryAfter { answer.fieldLines += Array("Retry-After: \(retryAfter)\r\n".utf8) }
        answerOwn(answer, result: .error)
    }

    func answerOwn(_ answer: OwnResponse, result: CacheResult) {
        record.result = result
        record.source = .own
        record.bodyBytes = head.method == .head ? 0 : answer.content.count
        sendWhole(answer.head(date: shard.date), [], .bytes(answer.content), status: answer.status)
    }

    func sendWhole(_ bytes: [UInt8], _ lines: [UInt8], _ body: WholeBody, status: Status) {
        state = .finished
        record.status = status.rawValue
        var lines = lines
        appendWhy(to: &lines)
        bytes.withUnsafeBytes { head in
            lines.withUnsafeBytes { connection.sendWhole(head: head, lines: $0, body: body) }
        }
        finish(status)
    }

    func finish(_ status: Status) {
        stopTimer()
        record.status = status.rawValue
        shard.finish(&record, trace, head, connection, began)
    }

    /// An answer's head as the client gets it: the length made anew, Via added, a redirect kept here, Date added where it is missing.
    func passedOn(_ answer: ResponseHead) -> ResponseHead {
        var head = shard.keepingRedirect(answer)
        head.fields.remove(.contentLength)
        for name in shard.storedAnswers.hiddenFields { head.fields.remove(named: name.span) }
        if !head.fields.contains(.date) { head.fields.append(.date, shard.date) }
        if let via = shard.via { head.fields.append(.via, via) }
        return head
    }

    /// The answer is passed on although it is not what the operator calls good (RFC 9209 §2.1.5).
    func appendProxyStatus(details fault: UpstreamFault, to lines: inout [UInt8]) {
        lines += Array("Proxy-Status: \(shard.settings.forwarding.name); details=\"\(fault.rawValue)\"\r\n".utf8)
    }

    /// For Cache-Status, where the client asks for it and may.
    var shownKey: String? { shard.shownKey(plan.key, head) }

    var forwardToken: StaticString {
        if let bypass = plan.bypass { return bypass.forwardToken }
        guard plan.key != nil else { return "bypass" }
        guard let found = plan.found else { return plan.missToken }
        return selectedToken(found)
    }

    /// Why the upstream is asked although there is a copy: it is stale, or the request or the operator does not want it (RFC 9211 §2.2).
    private func selectedToken(_ found: FoundResponse) -> StaticString {
        if plan.mode == .record { return "bypass" }
        return Reuse.isFresh(found.metadata, now: shard.now) ? "request" : "stale"
    }

    /// What the upstream set with an answer of which the client gets another's content, or none (RFC 6265 §3).
    func appendCookies(_ values: [ArraySlice<UInt8>], to lines: inout [UInt8]) {
        for value in values {
            lines.append("Set-Cookie: ")
            lines += value
            lines.append("\r\n")
        }
    }

    func noteUpstream() {
        // Not the batch's time: an answer often comes within the batch in which it was asked for.
        record.upstreamMicroseconds = SystemTime.monotonicMicroseconds - began - waited
        guard let fetch else { return }
        trace.times = fetch.times
        trace.upstreamStatus = fetch.status?.rawValue ?? 0
    }

    private func noteWhyNotRescued() {
        guard let found = plan.found else { return }
        let strictness = shard.settings.policy.strictness
        if case .forbidden(let reason) = Reuse.rescue(found.metadata, plan.directives, strictness: strictness, now: shard.now) {
            trace.notRescued = reason
        }
    }

    /// The explanation, where the client asks for it and may.
    func appendWhy(to lines: inout [UInt8]) {
        if shard.explains(head) { lines += shard.whyField(record, trace, head) }
    }
}

/// A stored copy with all that is sent before it.
struct PreparedResponse {
    let found: FoundResponse
    let head: [UInt8]
    let metadata: StoredMetadata
    let age: Int64
    let lines: [UInt8]
}
