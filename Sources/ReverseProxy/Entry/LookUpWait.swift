// Suspends a request if its lookup needs data that is not in memory. Another thread reads the data from disk, or the shared level is
// queried. Then the lookup is repeated, because the cache may have changed meanwhile.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache

extension ResponseCache {
    /// Loads the data, and then continues on the loop.
    func bringIn(_ missing: NotAtHand, on loop: EventLoop, then: @escaping @Sendable () -> Void) {
        bringIn(missing) { loop.execute(then) }
    }
}

/// Content that is sent from the store's files is loaded by the store's threads.
extension SharedCacheState: ContentMemory {}

/// `@unchecked Sendable` because it is used on its shard's loop only; the readers only pass it back to that loop.
final class LookUpWait: ClientExchange, SharedWaiter, @unchecked Sendable {
    private let entry: RequestEntry
    private let loop: EventLoop
    private let cache: ResponseCache?
    private let level: any SharedLevel
    private let reporting: Reporting
    private let stream: any ClientStream
    private let head: RequestHead
    private let body: RequestBody
    private let keyed: Keyed
    private var progress: LookUpProgress
    /// The lookup at the shared level, and the maximum wait for another node; nil if there was none.
    private var asked: (lookUp: SharedLookUp, wait: Int64?)?
    /// Time of the query in microseconds and in milliseconds of the loop's clock, and whether the call that made it has not returned yet.
    private var askedAt: Int64 = 0
    private var askedSince: Int64 = 0
    private var isAsking = false
    /// Whether the request waited for another node that asks the upstream.
    private var hasWaited = false
    /// Request content that has arrived. It is short, because it is part of the cache key.
    private var content: [UInt8] = []
    private var isRequestWhole = false
    private var isOver = false
    /// The exchange that handles all further events, once the lookup is complete.
    private var exchange: (any ClientExchange)?

    init(
        _ entry: RequestEntry, _ head: RequestHead, _ body: RequestBody, _ keyed: Keyed, _ progress: LookUpProgress,
        on stream: any ClientStream, _ wanted: NotAtHand
    ) {
        (self.entry, self.head, self.body, self.stream) = (entry, head, body, stream)
        (loop, reporting) = (entry.context.loop, entry.context.reporting)
        (cache, level) = (entry.context.cache, entry.context.coordination.level)
        (self.keyed, self.progress) = (keyed, progress)
        bringIn(wanted)
    }

    private func bringIn(_ wanted: NotAtHand) {
        if case .shared(let lookUp) = wanted { return ask(lookUp) }
        progress.reads += 1
        cache?.bringIn(wanted, on: loop) { self.broughtIn() }
    }

    private func ask(_ lookUp: SharedLookUp) {
        askedSince = loop.batchMilliseconds
        guard let cache else { return goOn(with: SharedReply(outcome: .missing, microseconds: 0)) }
        let wait = progress.query?.wait
        asked = (lookUp, wait)
        (askedAt, isAsking, hasWaited) = (SystemTime.monotonicMicroseconds, true, false)
        level.look(lookUp, in: cache, wait: wait, for: self)
        isAsking = false
    }

    func sharedWaits() { hasWaited = true }

    func sharedEnded(_ outcome: SharedOutcome, _ refusal: SharedRefusal?) -> Bool {
        guard !isOver else { return false }
        let reply = SharedReply(
            outcome: outcome, refusal: refusal, microseconds: SystemTime.monotonicMicroseconds - askedAt, hasWaited: hasWaited)
        if isAsking {
            loop.inNextRound { self.goOn(with: reply) }
        } else {
            goOn(with: reply)
        }
        return true
    }

    private func goOn(with reply: SharedReply) {
        progress.answer = FleetAnswer(reply: reply, since: askedSince)
        broughtIn()
    }

    /// The upstream has been asked already.
    func sharedCameLate() {
        guard isOver, let exchange = exchange as? Exchange else { return }
        exchange.handle(.copyTaken)
    }

    private func broughtIn() {
        loop.assertOnLoop()
        guard !isOver else { return }
        do throws(NotAtHand) {
            let mayWait = progress.reads >= ResponseCache.readLimit
            goOn(
                try cache?.waiting(mayWait) { () throws(NotAtHand) in
                    try entry.enterAtLookUp(head, body, keyed, &progress, on: stream)
                } ?? nil)
        } catch {
            bringIn(error)
        }
    }

    private func goOn(_ next: (any ClientExchange)?) {
        isOver = true
        exchange = next
        // This node may hold the lease, but does not ask the upstream.
        if next == nil, let asked, asked.wait != nil { level.ended(asked.lookUp.keys.own, .served, by: 0) }
        let held = content
        content = []
        if !held.isEmpty { next?.requestContent(held.span) }
        if isRequestWhole { next?.requestEnded() }
    }

    func requestContent(_ bytes: Span<UInt8>) {
        if let exchange { exchange.requestContent(bytes) } else { content.append(copying: bytes) }
    }

    func requestEnded() {
        isRequestWhole = true
        exchange?.requestEnded()
    }

    func responseDrained() { exchange?.responseDrained() }

    func respondNow() { exchange?.respondNow() }

    func clientEnded() { exchange?.clientEnded() }

    func clientLeft() {
        if let exchange { return exchange.clientLeft() }
        guard !isOver else { return }
        isOver = true
        var record = ExchangeRecord(.error, MethodLabel(head.method), status: 499)
        record.number = reporting.nextNumber()
        reporting.finish(&record, head, stream.client, keyed.began)
    }
}
