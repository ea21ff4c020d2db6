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
    func serveHit(_ found: FoundResponse, _ serving: Serving, to head: RequestHead, _ arrival: Arrival, _ stream: any ClientStream) {
        let (age, ttl) = (serving.age, serving.ttl)
        let client = stream.client
        var record = ExchangeRecord(serving.result, MethodLabel(head.method), status: 200)
        record.number = records.why.nextNumber()
        record.found.kind = .stored
        record.mode = serving.mode
        record.found.lifetime = ttl.map { $0 + age } ?? -1
        record.found.age = age
        record.found.lifetimeSource = found.metadata.lifetimeSource
        record.reasons.isClientIgnored = arrival.isClientIgnored
        if arrival.isClientIgnored { countIgnoredDirectives() }
        record.found.isDisregarded = found.metadata.flags.contains(.disregarded)
        record.partition = ExchangeRecord.partition(in: found.key, at: keys.partitionOffset)
        record.identity = arrival.identityOutcome
        if let routeFigures { record.route = arrival.route.map { UInt16($0) } ?? routeFigures.place(of: head.pathAndQuery) }
        record.found.diskReads = UInt8(clamping: arrival.reads)
        record.found.shared = arrival.shared
        let stored = StoredResponseSender.Response(
            found, head: found.head, found.metadata, routes.compression.rules(for: head.pathAndQuery))
        func send(_ lines: UnsafeRawBufferPointer) -> StoredResponseSender.Sent {
            messages.storedResponses.send(stored, to: head, lines: lines, on: stream)
        }
        let sent: StoredResponseSender.Sent
        let isOthers = arrival.shared?.outcome == .found
        let isPlain = record.mode == .live && !isOthers && !asksForWords(head) && head.method != .options && !asksFromScript(head, found)
        if let ttl, isPlain {
            sent = send(messages.hitLines.make(age: age, ttl: ttl))
        } else {
            sent = longerLines(found, serving, head, record).withUnsafeBytes(send)
        }
        record.status = sent.status.rawValue
        record.source = .store
        record.bodyBytes = sent.bodyBytes
        record.age = age
        // A stored error is not remembered: it may lie beside a stored response, and changes of that may remove it.
        if isPlain, serving.cause == .fresh, !found.metadata.isNegative, let response = sent.bytes {
            remember(head, arrival) { basis in
                let ageEnds = Freshness.ageEnds(of: found.metadata, now: now)
                return KeptHit(response, basis, times: now.milliseconds..<min(ageEnds.milliseconds, basis.ends), record)
            }
        }
        if case .gone = serving.cause { cache?.shared.gone?.count(.served) }
        finish(&record, head, client, arrival.began)
    }

    /// Whether CORS fields may have to be added, also to a 304 for the client's precondition.
    private func asksFromScript(_ head: RequestHead, _ found: FoundResponse) -> Bool {
        head.contains(.origin) && (head.contains(.ifNoneMatch) || head.contains(.ifModifiedSince) || isBound(found, head))
    }

    /// Field lines of a hit that needs more than Age and the usual Cache-Status.
    @inline(never)
    private func longerLines(
        _ found: FoundResponse, _ serving: Serving, _ head: RequestHead, _ record: ExchangeRecord
    ) -> [UInt8] {
        var lines: [UInt8] = []
        lines.append(age: serving.age)
        let detail = record.mode != .live ? record.mode.rawValue : record.found.shared?.outcome == .found ? "other_node" : nil
        messages.cacheStatus.hit(ttl: serving.ttl, key: shownKey(found.key, head), detail: detail, to: &lines)
        if asksFromScript(head, found) { _ = appendGrant(ofTarget: head, beside: found.head, to: &lines) }
        if head.method == .options { Preflight.appendMaxAge(serving.ttl, to: &lines) }
        if explains(head) { lines += whyField(record, head) }
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
