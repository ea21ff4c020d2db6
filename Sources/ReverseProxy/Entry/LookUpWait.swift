// Suspends a request if its lookup needs data that is not in memory. Another thread reads the data from disk, or the shared level is
// queried. Then the lookup is repeated, because the cache may have changed meanwhile.

import Addresses
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
    func load(_ missing: NotInMemory, on loop: EventLoop, then: @escaping @Sendable () -> Void) {
        load(missing) { loop.execute(then) }
    }
}

/// Content that is sent from the store's files is loaded by the store's threads.
extension APICacheState: ContentMemory {}

/// `@unchecked Sendable` because it is used on its shard's loop only; the readers only pass it back to that loop.
final class LookUpWait: ClientExchange, FleetWaiter, @unchecked Sendable {
    private let entry: RequestEntry
    private let loop: EventLoop
    private let cache: ResponseCache?
    private let level: any FleetStorage
    private let reporting: Reporting
    private let stream: any ClientStream
    private let head: RequestHead
    private let body: RequestBody
    private let keyed: Keyed
    private var progress: LookUpProgress
    /// The lookup at the shared level, and the maximum wait for another node; nil if there was none.
    private var pendingSearch: (lookUp: FleetLookUp, wait: Int64?)?
    /// Time of the query in microseconds and in milliseconds of the loop's clock, and whether the call that made it is still running.
    private var askedAt: Int64 = 0
    private var askedSince: Int64 = 0
    private var isAsking = false
    /// Whether the request waited for another node that asks the upstream.
    private var hasWaited = false
    /// Request content that has arrived. It is short: content in a cache key has a length limit.
    private var content: [UInt8] = []
    private var isRequestWhole = false
    private var isOver = false
    /// The exchange that handles all further events, once the lookup is complete.
    private var exchange: (any ClientExchange)?

    init(
        _ entry: RequestEntry, _ head: RequestHead, _ body: RequestBody, _ keyed: Keyed, _ progress: LookUpProgress,
        on stream: any ClientStream, _ wanted: NotInMemory
    ) {
        (self.entry, self.head, self.body, self.stream) = (entry, head, body, stream)
        (loop, reporting) = (entry.context.loop, entry.context.reporting)
        (cache, level) = (entry.context.cache, entry.context.coordination.level)
        (self.keyed, self.progress) = (keyed, progress)
        load(wanted)
    }

    private func load(_ wanted: NotInMemory) {
        if case .fleet(let lookUp) = wanted { return searchFleet(lookUp) }
        progress.reads += 1
        cache?.load(wanted, on: loop) { self.loaded() }
    }

    private func searchFleet(_ lookUp: FleetLookUp) {
        askedSince = loop.batchMilliseconds
        guard let cache else { return resume(with: FleetReply(outcome: .missing, microseconds: 0)) }
        let wait = progress.query?.wait
        pendingSearch = (lookUp, wait)
        (askedAt, isAsking, hasWaited) = (SystemTime.monotonicMicroseconds, true, false)
        level.search(lookUp, in: cache, wait: wait, for: self)
        isAsking = false
    }

    var clientNumber: UInt64 { stream.client.clientAddress.number }

    func fleetWaits() { hasWaited = true }

    func fleetLookUpEnded(_ outcome: FleetOutcome, _ refusal: FleetRefusal?) -> Bool {
        guard !isOver else { return false }
        let reply = FleetReply(
            outcome: outcome, refusal: refusal, microseconds: SystemTime.monotonicMicroseconds - askedAt, hasWaited: hasWaited)
        if isAsking {
            loop.inNextRound { self.resume(with: reply) }
        } else {
            resume(with: reply)
        }
        return true
    }

    private func resume(with reply: FleetReply) {
        progress.answer = FleetAnswer(reply: reply, since: askedSince)
        loaded()
    }

    /// The request to the upstream has been sent already.
    func fleetResponseCameLate() {
        guard isOver, let exchange = exchange as? Exchange else { return }
        exchange.handle(.copyTaken)
    }

    private func loaded() {
        loop.assertOnLoop()
        guard !isOver else { return }
        do throws(NotInMemory) {
            let mayWait = progress.reads >= ResponseCache.readLimit
            resume(
                try cache?.waiting(mayWait) { () throws(NotInMemory) in
                    try entry.enterAtLookUp(head, body, keyed, &progress, on: stream)
                } ?? nil)
        } catch {
            load(error)
        }
    }

    private func resume(_ next: (any ClientExchange)?) {
        isOver = true
        exchange = next
        // This node may hold the lease, but sends no request to the upstream.
        if next == nil, let pendingSearch, pendingSearch.wait != nil { level.ended(pendingSearch.lookUp.keys.own, .served, by: 0) }
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
        record.number = reporting.records.why.nextNumber()
        reporting.finish(&record, head, stream.client, keyed.began)
    }
}
