// Counters of one API on a shard, and their part in the page at /metrics.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Logging
import Reactor
import ResponseCache
import Sending
import Upstream

extension ProxyShard {
    /// Adds the counters of this API. The counters that all APIs of the shard share are added elsewhere.
    public func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        addCounts(to: &snapshot.figures)
        snapshot.figures.add(upstream.counters)
        snapshot.figures[.upstreamWaiting] += upstream.waitingCount
        snapshot.figures[.upstreamOpen] += upstream.openConnections
        snapshot.figures[.upstreamLimit] += upstream.connectionLimit
        let busiest = upstream.busiest
        snapshot.limits.note("upstream.connections", busiest.running, of: upstream.settings.maximumConnections)
        snapshot.limits.note("upstream.queue", busiest.waiting, of: upstream.settings.queueLimit)
        background.fetches.addUse(to: &snapshot.limits)
        let tokens = keys.maker.tokenFigures
        snapshot.tokens.looked.merge(tokens.looked, uniquingKeysWith: +)
        snapshot.figures[.tokensRemembered] += tokens.remembered
    }

    private func addCounts(to figures: inout Figures) {
        messages.storedResponses.addFigures(to: &figures)
        messages.passedCodings.addFigures(to: &figures)
        background.addFigures(to: &figures)
    }

    /// Adds this API's counters to the shard's past counts when the API ends.
    func leaveCounts() {
        addCounts(to: &records.past.figures)
        records.past.figures.add(upstream.counters)
        records.past.tokensLooked.merge(keys.maker.tokenFigures.looked, uniquingKeysWith: +)
    }

    // MARK: Counting

    /// Counts an exchange for its API.
    func countOfAPI(_ record: borrowing ExchangeRecord) {
        records.apis[Int(shared.place)].figures.recordOfAPI(record)
    }

    func count(_ record: borrowing ExchangeRecord, _ head: RequestHead) {
        records.figures.labelled.record(record)
        if let age = record.age { records.oldestAges.note(age, record.result, at: record.wall) }
        let figures = routeFigures?.figures(of: record.route)
        figures?.figures.recordOfRoute(record)
        if head.contains(.traceparent) || head.span.isRecorded { noteExemplar(record, figures, head) }
    }

    /// Records the exchange's trace as an exemplar, if it is sampled.
    @inline(never)
    private func noteExemplar(_ record: borrowing ExchangeRecord, _ figures: RouteFigures?, _ head: RequestHead) {
        var trace = head.span.isRecorded ? head.span.trace : nil
        if trace == nil, let parent = TraceParent(head.fields), parent.isSampled { trace = parent.trace }
        guard let trace else { return }
        let exemplar = Exemplar(
            high: trace.high, low: trace.low, value: record.durationMicroseconds, wall: loop.batchWallMilliseconds)
        records.figures.labelled.note(exemplar, of: .requestDuration, record.result.rawValue)
        figures?.figures.note(exemplar, of: .routeDuration)
    }

    /// Counts targets that fail, are rescued, or are not stored.
    @inline(never)
    func tally(_ record: borrowing ExchangeRecord, _ target: ArraySlice<UInt8>) {
        let now = loop.batchMilliseconds
        if record.isServerError {
            records.targets.failed.count(target, ofAPI: record.api, now: now)
        } else if record.result == .rescued {
            records.targets.rescued.count(target, ofAPI: record.api, now: now)
        } else {
            records.targets.forwarded.count(target, ofAPI: record.api, now: now)
        }
    }

    /// Counts a response of the upstream, whatever caused its request.
    func countResponse(_ head: ResponseHead, _ times: TransferTimes) {
        let firstByte = times.sent < 0 || times.firstByte < times.sent ? nil : Int64(times.firstByte - times.sent)
        let place = Int(shared.place)
        records.apis[place].figures.count(.upstreamResponses, StatusClass.index(of: head.status.rawValue))
        if let firstByte { records.apis[place].figures.observe(.firstByte, 0, firstByte) }
        // A response with Age was generated earlier.
        guard let firstByte, let text = head.fields.first(.date), !head.fields.contains(.age) else { return }
        let received = loop.batchWallMilliseconds
        guard let date = HTTPDate.parse(text, now: received / 1_000) else { return }
        records.apis[place].noteDate(date * 1_000, received: received, duration: firstByte / 1_000 + 1, now: loop.batchMilliseconds)
    }

    func countResponseBytes(_ count: Int) {
        records.apis[Int(shared.place)].figures.count(.upstreamResponseBytes, by: UInt64(count))
    }

    func countConnection(_ times: TransferTimes) {
        let place = Int(shared.place)
        records.apis[place].figures.observe(.connecting, 0, Int64(times.connected))
        if times.secured > 0 { records.apis[place].figures.observe(.securing, 0, Int64(max(0, times.secured - times.connected))) }
    }

    func countRepeated() { records.figures[.repeatedHits] += 1 }

    func countIgnoredDirectives() { records.figures[.clientDirectivesIgnored] += 1 }

    /// Records a refused request to the admin interface, for example one with a wrong token.
    public func noteAdminRefusal(of client: RequestClient) {
        records.figures[.adminRefused] += 1
        guard let earlier = process.adminRefusals.note(now: loop.time.monotonicMilliseconds) else { return }
        let address = client.address == nil ? "an unknown address" : String(decoding: client.text, as: UTF8.self)
        let more = earlier == 0 ? "" : "; \(earlier) more were refused since the last such line"
        process.logger.warning(
            "a request to the administrator's interface from \(address) was refused: wrong or missing token, or not allowed\(more)")
    }

    func countCarriedGrant() { records.figures[.carriedGrants] += 1 }

    func countCompressed() { records.figures[.compressedWhole] += 1 }

    func countRefused(_ refusal: AccessRefusal) {
        if let place = MetricNames.place(of: refusal) { records.figures.labelled.count(.refused, place) }
    }

    func countStored() { records.figures[.stored] += 1 }

    func countUnwrittenMarks() { records.figures[.writesBeforeMarks] += 1 }

    func countExaminedBeside() { records.figures[.examinedBeside] += 1 }

    /// Counts a request for an own page. Such requests are not in the access log.
    public func countOwnPage(_ method: MethodLabel, _ status: Status) {
        var record = ExchangeRecord(.own, method, status: status.rawValue)
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - loop.batchMicroseconds
        records.figures.labelled.record(record)
    }

    func countRequestBytes(_ count: Int) { records.figures[.requestBytes] += count }

    func countContent(_ outcome: ContentOutcome) { records.figures.labelled.count(.contents, of: outcome) }

    func countUpstreamError(_ error: UpstreamError) { records.figures.labelled.count(.upstreamErrors, of: error.kind) }
}

extension CacheResult {
    /// Whether results of this kind are counted by target.
    var isTallied: Bool {
        switch self {
        case .rescued, .miss, .bypass: true
        case .hit, .revalidated, .stale, .collapsed, .error, .own: false
        }
    }
}

extension PastCounts {
    func add(to snapshot: inout MetricsSnapshot) {
        snapshot.figures.add(figures)
        snapshot.tokens.looked.merge(tokensLooked, uniquingKeysWith: +)
    }
}

extension MethodLabel {
    public init(_ method: Method) {
        self =
            switch method {
            case .get: .get
            case .head: .head
            case .post: .post
            case .put: .put
            case .patch: .patch
            case .delete: .delete
            case .options: .options
            case .query: .query
            case .connect, .trace, .other: .other
            }
    }
}
