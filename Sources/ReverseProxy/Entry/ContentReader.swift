// Reads the whole content of a request before the request is processed. A slow client then occupies no upstream connection, and the cache
// key can include the content (QUERY, and POST requests that only read). Content that exceeds a limit is streamed.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache

/// `@unchecked Sendable` because it is used on its shard's loop only; results of the worker are passed to that loop.
final class ContentReader: ClientExchange, @unchecked Sendable {
    private let entry: RequestEntry
    private let loop: EventLoop
    private let reporting: Reporting
    private let stream: any ClientStream
    private let head: RequestHead
    private let framing: ContentFraming
    private let hold: ContentHold
    /// Maximum length of content that is read whole, in bytes.
    private let limit: Int
    private let began: Int64
    private var content: [UInt8] = []
    private var phase = Phase.reading

    private enum Phase {
        case reading
        /// The worker computes the content's part of the cache key.
        case identifying(RequestBody)
        /// The request was passed on, or the client has disconnected.
        case ended
    }

    init(entry: RequestEntry, stream: any ClientStream, head: RequestHead, framing: ContentFraming, hold: ContentHold, limit: Int) {
        self.entry = entry
        (loop, reporting) = (entry.context.loop, entry.context.reporting)
        self.stream = stream
        self.head = head
        self.framing = framing
        self.hold = hold
        self.limit = limit
        began = loop.batchMicroseconds
        // Reserves memory for long content immediately, because growing a buffer copies it. The kernel allocates pages only as they are
        // filled.
        if case .length(let count) = framing, count > Self.growingBytes { content.reserveCapacity(count) }
    }

    private static let growingBytes = 1 << 20

    func requestContent(_ bytes: Span<UInt8>) {
        loop.assertOnLoop()
        switch hold.take(bytes.count) {
        case .whole: content.append(copying: bytes, growingTo: limit)
        case .streamed(let reason): stream(reason, bytes)
        }
    }

    func requestEnded() {
        loop.assertOnLoop()
        let body: RequestBody =
            framing == .none ? .none : .whole(WholeContent(bytes: content, hold: hold, waitedMicroseconds: elapsed))
        if framing != .none { reporting.countContent(.whole) }
        guard entry.isKeptByContent(head) else { return handOver(entry.enterAtKey(head, body, .absent, on: stream)) }
        let identify = entry.identification(of: head, content)
        guard content.count > entry.settings.content.examinedAtOnceBytes else { return handOver(body, identify()) }
        // Content that waits for the worker is held in memory. If the queue is full, the request bypasses the store.
        guard !entry.examiner.isFull else { return handOver(entry.pass(head, body, .unreadContent, on: stream)) }
        phase = .identifying(body)
        reporting.count(.examinedOffLoop)
        entry.examiner.perform(content.count, identify) { self.identified($0) }
    }

    private func identified(_ identity: [UInt8]?) {
        loop.assertOnLoop()
        guard case .identifying(let body) = phase else { return }
        handOver(body, identity)
    }

    private func handOver(_ body: RequestBody, _ identity: [UInt8]?) {
        handOver(entry.enterAtKey(head, body, identity.map { .identity($0) } ?? .unusable, on: stream))
    }

    private func handOver(_ next: (any ClientExchange)?) {
        phase = .ended
        if let next { stream.handOver(to: next) }
    }

    /// Streams the content, beginning with the collected bytes. A 100 (Continue) is not needed, because the client is sending already.
    private func stream(_ reason: StreamingReason, _ bytes: Span<UInt8>) {
        reporting.countContent(ContentOutcome(reason))
        let body = StreamedContent(framing: framing, reason: reason, hold: hold, awaitsContinue: false)
        let isKept = entry.isKeptByContent(head)
        guard let next = entry.pass(head, .streamed(body), isKept ? BypassReason(reason) : nil, on: stream) else { return }
        stream.handOver(to: next)
        let held = content
        content = []
        if !held.isEmpty { next.requestContent(held.span) }
        next.requestContent(bytes)
    }

    private var elapsed: Int64 { max(0, loop.batchMicroseconds - began) }

    func responseDrained() {}

    /// The request has not been processed, so the upstream receives nothing of it.
    func clientLeft() { end(status: 499, bodyBytes: 0) }

    func respondNow() {
        let response = OwnResponse(
            status: 503, sentence: "Cistern is stopping, and the request's content is incomplete.", accept: head.fields.combined(.accept))
        stream.sendWhole(head: response.head(date: entry.date), body: .bytes(response.content))
        end(status: response.status, bodyBytes: response.content.count)
    }

    private func end(status: Status, bodyBytes: Int) {
        if case .reading = phase { reporting.countContent(.unfinished) }
        phase = .ended
        var record = ExchangeRecord(.error, MethodLabel(head.method), status: status.rawValue)
        record.source = .own
        record.bodyBytes = bodyBytes
        record.number = reporting.records.why.nextNumber()
        (record.content.outcome, record.content.microseconds) = (.unfinished, elapsed)
        reporting.finish(&record, head, stream.client, began)
    }
}

extension RequestEntry {
    /// Receives a request with content, or with a response that is stored by content.
    func receive(
        _ head: RequestHead, _ framing: ContentFraming, isKept: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        // The client of a refused request need not send the content first.
        guard isKept || !isRefused(head, on: stream) else {
            return pass(head, .streamed(.unread(framing)), on: stream)
        }
        let rules = context.api.process.content.rules
        let routeLimit = isKept ? routes.all[routes.index(of: head.pathAndQuery)].contentLimitBytes : 0
        let limit = max(rules.eachBytes, routeLimit)
        let announced: Int? =
            switch framing {
            case .none, .tunnel: 0
            case .length(let count): count
            case .chunked: nil
            }
        switch rules.decide(announced: announced, limit: limit) {
        case .whole:
            stream.startContentTotal()
            stream.sendContinue()
            let hold = ContentHold(context.api.process.content, limit: limit)
            return ContentReader(entry: self, stream: stream, head: head, framing: framing, hold: hold, limit: limit)
        case .streamed(let reason):
            context.reporting.countContent(ContentOutcome(reason))
            let body = StreamedContent(framing: framing, reason: reason, hold: nil, awaitsContinue: stream.isContinueAwaited)
            return pass(head, .streamed(body), isKept ? BypassReason(reason) : nil, on: stream)
        }
    }

    /// Maximum length of a content identity in bytes. A digest replaces a longer one, because keys are stored, and compared at every
    /// lookup.
    private static let identityLimitBytes = 1 << 10

    /// Returns a function that computes the content's part of the key. It uses no state of the loop.
    func identification(of head: RequestHead, _ content: [UInt8]) -> @Sendable () -> [UInt8]? {
        let (target, cache) = (head.pathAndQuery, context.cache?.state)
        let limit = routes.all[routes.index(of: target)].contentLimitBytes
        let rules = context.api.cacheSettings.arguments.rules(for: target)
        return {
            guard content.count <= limit, let cache,
                let identity = RequestContent.identity(
                    method: head.method, target: target, fields: head.fields, content: content.span, rules: rules)
            else { return nil }
            guard identity.count > Self.identityLimitBytes else { return identity }
            return RequestContent.short(head.method, digest: cache.contentDigest(identity))
        }
    }

    /// Whether the response is stored by content: for QUERY, and for requests that only read by their route's settings.
    func isKeptByContent(_ head: RequestHead) -> Bool {
        guard context.cache != nil, !head.method.isRead, !routes.stream(head.pathAndQuery), !routes.isOff(head.pathAndQuery) else {
            return false
        }
        return routes.reads(head.method, head.pathAndQuery)
    }

    private func isRefused(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if case .refuse = facts(head, on: stream).decide() { true } else { false }
    }
}

extension BypassReason {
    /// Bypass reason of a request that would otherwise be stored by its content.
    init(_ reason: StreamingReason) {
        self =
            switch reason {
            case .tooLong: .longContent
            case .noCapacity: .unreadContent
            }
    }
}
