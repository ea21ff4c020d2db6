// Takes a request's content whole before anything is asked for it: so a slow client holds no connection to the upstream, and the key can be
// made of the content where it is (QUERY, and POST that only reads). What is too long for that, or finds no room, goes on as it comes.

import CachePolicy
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import Telemetry

/// `@unchecked Sendable` because it is touched on its shard's loop only; the worker's results are brought there.
final class ContentReader: ClientExchange, @unchecked Sendable {
    private let shard: ProxyShard
    private let stream: any ClientStream
    private let head: RequestHead
    private let framing: ContentFraming
    private let hold: ContentHold
    /// The longest that is taken whole.
    private let limit: Int
    private let began: Int64
    private var content: [UInt8] = []
    private var phase = Phase.reading

    private enum Phase {
        case reading
        /// The worker makes the key's part of it.
        case identifying(RequestBody)
        /// Handed over, or the client is gone.
        case ended
    }

    init(shard: ProxyShard, stream: any ClientStream, head: RequestHead, framing: ContentFraming, hold: ContentHold, limit: Int) {
        self.shard = shard
        self.stream = stream
        self.head = head
        self.framing = framing
        self.hold = hold
        self.limit = limit
        began = shard.loop.batchMicroseconds
        // Growing would copy it. What is so long comes from the kernel page by page, as it is filled.
        if case .length(let count) = framing, count > Self.growingBytes { content.reserveCapacity(count) }
    }

    private static let growingBytes = 1 << 20

    func requestContent(_ bytes: Span<UInt8>) {
        shard.loop.assertOnLoop()
        switch hold.take(bytes.count) {
        case .whole: content.append(copying: bytes, growingTo: limit)
        case .streamed(let reason): stream(reason, bytes)
        }
    }

    func requestEnded() {
        shard.loop.assertOnLoop()
        let body: RequestBody =
            framing == .none ? .none : .whole(WholeContent(bytes: content, hold: hold, waitedMicroseconds: elapsed))
        if framing != .none { shard.countContent(.whole) }
        guard shard.isKeptByContent(head), content.count > shard.settings.content.examinedAtOnceBytes else {
            return handOver(shard.receivedWhole(head, body, on: stream))
        }
        // What waits for the worker is held in memory: where that is too much already, the response is not kept.
        guard !shard.workers.content.isFull else { return handOver(shard.pass(head, body, .unreadContent, on: stream)) }
        phase = .identifying(body)
        shard.countExaminedBeside()
        shard.workers.content.perform(content.count, shard.identification(of: head, content)) { self.identified($0) }
    }

    private func identified(_ identity: [UInt8]?) {
        shard.loop.assertOnLoop()
        guard case .identifying(let body) = phase else { return }
        handOver(shard.receivedWhole(head, body, identity: identity, on: stream))
    }

    private func handOver(_ next: (any ClientExchange)?) {
        phase = .ended
        if let next { stream.handOver(to: next) }
    }

    /// What was held goes on first. The client need not be told to send: it does so already.
    private func stream(_ reason: StreamingReason, _ bytes: Span<UInt8>) {
        shard.countContent(ContentOutcome(reason))
        let body = StreamedContent(framing: framing, reason: reason, hold: hold, awaitsContinue: false)
        let isKept = shard.isKeptByContent(head)
        guard let next = shard.pass(head, .streamed(body), isKept ? BypassReason(reason) : nil, on: stream) else { return }
        stream.handOver(to: next)
        let held = content
        content = []
        if !held.isEmpty { next.requestContent(held.span) }
        next.requestContent(bytes)
    }

    private var elapsed: Int64 { max(0, shard.loop.batchMicroseconds - began) }

    func responseDrained() {}

    /// Nothing was asked: so nothing of it reaches the upstream.
    func clientLeft() { end(status: 499, bodyBytes: 0) }

    func respondNow() {
        let response = OwnResponse(
            status: 503, sentence: "Cistern is stopping, and the request's content is not whole.", accept: head.fields.combined(.accept))
        stream.sendWhole(head: response.head(date: shard.date), body: .bytes(response.content))
        end(status: response.status, bodyBytes: response.content.count)
    }

    private func end(status: Status, bodyBytes: Int) {
        if case .reading = phase { shard.countContent(.unfinished) }
        phase = .ended
        var record = ExchangeRecord(result: .error, method: MethodLabel(head.method), status: status.rawValue)
        record.source = .own
        record.bodyBytes = bodyBytes
        record.contentMicroseconds = elapsed
        var trace = ExchangeTrace()
        trace.number = shard.records.why.nextNumber()
        trace.content.outcome = .unfinished
        shard.finish(&record, &trace, head, stream.client, began)
    }
}
