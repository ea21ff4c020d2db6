// Serves a stored response without contacting the upstream.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import ResponseCache
import Sending

extension RequestEntry {
    func serveHit(
        _ found: FoundResponse, _ serving: ServingBasis, to head: RequestHead, _ keyed: Keyed, _ attempt: LookUpAttempt,
        _ stream: any ClientStream
    ) {
        let (age, ttl) = (serving.age, serving.ttl)
        let client = stream.client
        var record = ExchangeRecord(serving.result, MethodLabel(head.method), status: 200)
        record.number = context.reporting.records.why.nextNumber()
        record.found.kind = .stored
        record.mode = serving.mode
        record.found.lifetime = ttl.map { $0 + age } ?? -1
        record.found.age = age
        record.found.staleness = age - max(0, record.found.lifetime)
        record.found.lifetimeSource = found.metadata.lifetimeSource
        record.reasons.isClientIgnored = attempt.isClientIgnored
        if attempt.isClientIgnored { context.reporting.count(.clientDirectivesIgnored) }
        record.found.isDisregarded = found.metadata.flags.contains(.disregarded)
        record.partition = ExchangeRecord.partition(in: found.key, at: context.coordination.keys.partitionOffset)
        record.identity = attempt.basis.identityOutcome
        if let routeFigures = context.reporting.routeFigures { record.route = routeFigures.index(of: head.pathAndQuery) }
        record.found.diskReads = UInt8(clamping: attempt.reads)
        record.found.fleetReply = attempt.answer?.reply
        let stored = StoredResponseSender.Response(found, found.metadata, routes.compression.rules(for: head.pathAndQuery))
        func send(_ lines: Span<UInt8>) -> StoredResponseSender.Sent {
            found.withHead { context.messages.storedResponses.send(stored, head: $0, to: head, lines: lines, on: stream) }
        }
        let sent: StoredResponseSender.Sent
        let isOthers = attempt.answer?.reply.outcome == .found
        let isPlain =
            ttl ?? 0 > 0 && record.mode == .live && !isOthers && !wantsOwnLines(head) && head.method != .options
            && !asksFromScript(head, found)
        if let ttl, isPlain {
            sent = context.messages.hitLines.with(age: age, ttl: ttl, send)
        } else {
            let lines = longerLines(found, serving, head, record)
            sent = send(lines.span)
        }
        record.status = sent.status.rawValue
        record.source = .store
        record.bodyBytes = sent.bodyBytes
        record.age = age
        // A stored error depends on Accept fields, which the memo does not compare.
        if isPlain, serving.cause == .fresh, attempt.mayRemember, !found.metadata.isNegative, let response = sent.bytes,
            let memo = context.memo,
            let memoKey = keyed.memoKey
        {
            memo.keep(memoKey, head, attempt.basis) {
                let ageEnds = Freshness.ageEnds(of: found.metadata, now: now)
                let times = now.milliseconds..<min(ageEnds.milliseconds, attempt.basis.ends)
                return MemoizedHit(response, attempt.basis, times: times, record)
            }
        }
        if case .gone = serving.cause { context.cache?.state.gone?.count(.served) }
        context.reporting.finish(&record, head, client, keyed.began)
    }

    /// Whether CORS fields may have to be added, also to a 304 for the client's precondition.
    private func asksFromScript(_ head: RequestHead, _ found: FoundResponse) -> Bool {
        head.contains(.origin) && (head.contains(.ifNoneMatch) || head.contains(.ifModifiedSince) || isBound(found, head))
    }

    /// Field lines of a hit that needs more than Age and the usual Cache-Status.
    @inline(never)
    private func longerLines(
        _ found: FoundResponse, _ serving: ServingBasis, _ head: RequestHead, _ record: ExchangeRecord
    ) -> [UInt8] {
        var lines: [UInt8] = []
        lines.append(age: serving.age)
        let detail = record.mode != .live ? record.mode.rawValue : record.found.fleetReply?.outcome == .found ? "other_node" : nil
        let key = head.contains(.cisternKey) ? context.reporting.shownKey(found.key) : nil
        context.messages.cacheStatus.hit(ttl: serving.ttl, key: key, detail: detail, to: &lines)
        if let reason = serving.staleReason(of: found.metadata, now: now) {
            context.messages.appendStale(age: serving.age, reason, to: head, &lines)
        }
        if asksFromScript(head, found) { _ = found.withHead { context.messages.appendGrant(ofTarget: head, beside: $0, to: &lines) } }
        if head.method == .options { Preflight.appendMaxAge(serving.ttl, to: &lines) }
        context.reporting.appendWhy(record, head, to: &lines)
        return lines
    }
}

extension ServingBasis {
    fileprivate var mode: ServingMode {
        switch cause {
        case .fresh, .staleWhileRevalidate: .live
        case .mode(let mode), .gone(let mode): mode
        }
    }

    /// The reason in Cistern-Stale; nil if the response is fresh.
    fileprivate func staleReason(of stored: StoredMetadata, now: Timestamp) -> String? {
        switch cause {
        case .fresh: ttl ?? 1 > 0 ? nil : StaleField.accepted
        case .staleWhileRevalidate: StaleField.whileRevalidating
        case .mode(let mode), .gone(let mode): Reuse.isFresh(stored, now: now) ? nil : mode.rawValue
        }
    }

    fileprivate var result: CacheResult {
        switch cause {
        case .fresh, .mode, .gone: .hit
        case .staleWhileRevalidate: .stale
        }
    }
}
