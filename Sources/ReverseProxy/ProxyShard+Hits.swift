// Serves a stored response without contacting the upstream.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import ResponseCache
import Sending

extension ProxyShard {
    func serveHit(
        _ found: FoundResponse, _ serving: Serving, to head: RequestHead, _ keyed: Keyed, _ attempt: LookUpAttempt,
        _ stream: any ClientStream
    ) {
        let (age, ttl) = (serving.age, serving.ttl)
        let client = stream.client
        var trace = ExchangeTrace()
        trace.number = records.why.nextNumber()
        trace.found.kind = .stored
        trace.mode = serving.mode
        trace.found.lifetime = ttl.map { $0 + age } ?? -1
        trace.found.age = age
        trace.found.lifetimeSource = found.metadata.lifetimeSource
        trace.reasons.isClientIgnored = attempt.isClientIgnored
        if attempt.isClientIgnored { countIgnoredDirectives() }
        trace.found.isDisregarded = found.metadata.flags.contains(.disregarded)
        trace.partition = ExchangeTrace.partition(in: found.key, at: keys.partitionOffset)
        trace.identity = attempt.basis.identityOutcome
        if let routeFigures { trace.route = routeFigures.place(of: head.pathAndQuery) }
        trace.found.diskReads = UInt8(clamping: attempt.reads)
        trace.found.shared = attempt.answer?.reply
        let stored = StoredResponseSender.Response(
            found, head: found.head, found.metadata, routes.compression.rules(for: head.pathAndQuery))
        func send(_ lines: UnsafeRawBufferPointer) -> StoredResponseSender.Sent {
            messages.storedResponses.send(stored, to: head, lines: lines, on: stream)
        }
        var record = ExchangeRecord(result: serving.result, method: MethodLabel(head.method), status: 200)
        let sent: StoredResponseSender.Sent
        let isOthers = attempt.answer?.reply.outcome == .found
        let isPlain = trace.mode == .live && !isOthers && !asksForWords(head) && head.method != .options && !asksFromScript(head, found)
        if let ttl, isPlain {
            sent = send(messages.hitLines.make(age: age, ttl: ttl))
        } else {
            sent = longerLines(found, serving, head, record, trace).withUnsafeBytes(send)
        }
        record.status = sent.status.rawValue
        record.source = .store
        record.bodyBytes = sent.bodyBytes
        record.age = age
        // A stored error is not remembered: it may lie beside a stored response, and changes of that may remove it.
        if isPlain, serving.cause == .fresh, !found.metadata.isNegative, let response = sent.bytes, let memo, attempt.mayRemember,
            let memoKey = keyed.memoKey
        {
            memo.keep(memoKey, head, attempt.basis) {
                let ageEnds = Freshness.ageEnds(of: found.metadata, now: now)
                let times = now.milliseconds..<min(ageEnds.milliseconds, attempt.basis.ends)
                return KeptHit(response, attempt.basis, times: times, record, trace)
            }
        }
        if case .gone = serving.cause { cache?.shared.gone?.count(.served) }
        finish(&record, &trace, head, client, keyed.began)
    }

    /// Whether CORS fields may have to be added, also to a 304 for the client's precondition.
    private func asksFromScript(_ head: RequestHead, _ found: FoundResponse) -> Bool {
        head.contains(.origin) && (head.contains(.ifNoneMatch) || head.contains(.ifModifiedSince) || isBound(found, head))
    }

    /// Field lines of a hit that needs more than Age and the usual Cache-Status.
    @inline(never)
    private func longerLines(
        _ found: FoundResponse, _ serving: Serving, _ head: RequestHead, _ record: ExchangeRecord, _ trace: ExchangeTrace
    ) -> [UInt8] {
        var lines: [UInt8] = []
        lines.append(age: serving.age)
        let detail = trace.mode != .live ? trace.mode.rawValue : trace.found.shared?.outcome == .found ? "other_node" : nil
        messages.cacheStatus.hit(ttl: serving.ttl, key: shownKey(found.key, head), detail: detail, to: &lines)
        if asksFromScript(head, found) { _ = appendGrant(ofTarget: head, beside: found.head, to: &lines) }
        if head.method == .options { Preflight.appendMaxAge(serving.ttl, to: &lines) }
        if explains(head) { lines += whyField(record, trace, head) }
        return lines
    }
}

extension Serving {
    fileprivate var mode: ServingMode {
        switch cause {
        case .fresh, .staleWhileRevalidate: .live
        case .mode(let mode), .gone(let mode): mode
        }
    }

    fileprivate var result: CacheResult {
        switch cause {
        case .fresh, .mode, .gone: .hit
        case .staleWhileRevalidate: .stale
        }
    }
}
