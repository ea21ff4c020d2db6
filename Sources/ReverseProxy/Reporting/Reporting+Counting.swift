// The counters of one API on a shard.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Logging
import Reactor
import Upstream

extension Reporting {
    func count(_ figure: Figure, by number: Int = 1) { records.figures[figure] += number }

    /// Counts an exchange for its API.
    func countOfAPI(_ record: borrowing ExchangeRecord) {
        records.apis[apiIndex].figures.recordOfAPI(record)
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

    /// Counts a response of the upstream, whether for a client or in the background.
    func countResponse(_ head: ResponseHead, _ times: TransferTimes) {
        let firstByte = times.sent < 0 || times.firstByte < times.sent ? nil : Int64(times.firstByte - times.sent)
        records.apis[apiIndex].figures.count(.upstreamResponses, StatusClass.index(of: head.status.rawValue))
        if let firstByte { records.apis[apiIndex].figures.observe(.firstByte, 0, firstByte) }
        // A response with Age was generated earlier.
        guard let firstByte, let text = head.fields.first(.date), !head.fields.contains(.age) else { return }
        let received = loop.batchWallMilliseconds
        guard let date = HTTPDate.parse(text, now: received / 1_000) else { return }
        records.apis[apiIndex].noteDate(date * 1_000, received: received, duration: firstByte / 1_000 + 1, now: loop.batchMilliseconds)
    }

    func countResponseBytes(_ count: Int) {
        records.apis[apiIndex].figures.count(.upstreamResponseBytes, by: UInt64(count))
    }

    func countConnection(_ times: TransferTimes) {
        records.apis[apiIndex].figures.observe(.connecting, 0, Int64(times.connected))
        if times.secured > 0 { records.apis[apiIndex].figures.observe(.securing, 0, Int64(max(0, times.secured - times.connected))) }
    }

    /// Records a refused request to the admin interface, for example one with a wrong token.
    public func noteAdminRefusal(of client: RequestClient) {
        records.figures[.adminRefused] += 1
        guard let earlier = api.process.adminRefusals.note(now: loop.time.monotonicMilliseconds) else { return }
        let address = client.address == nil ? "an unknown address" : String(decoding: client.text, as: UTF8.self)
        let more = earlier == 0 ? "" : "; \(earlier) similar refusals since the last such line"
        api.process.logger.warning(
            "refused a request to the admin interface from \(address): wrong or missing token, or not permitted\(more)")
    }

    func countRefused(_ refusal: AccessRefusal) {
        if let index = MetricNames.index(of: refusal) { records.figures.labelled.count(.refused, index) }
    }

    /// Counts a request for an own page. Such requests are not in the access log.
    public func countOwnPage(_ method: MethodLabel, _ status: Status) {
        var record = ExchangeRecord(.own, method, status: status.rawValue)
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - loop.batchMicroseconds
        records.figures.labelled.record(record)
    }

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
