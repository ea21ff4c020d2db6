// What one API reports on a shard: counters, records for explanations, the access log, and spans. Other files add the counters and the
// spans.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Tracing
import Upstream

/// Used on its shard's loop only.
public final class Reporting {
    let loop: EventLoop
    let records: ShardRecords
    let api: SharedFlowState
    /// Number of the API in records and counters.
    let place: Int
    private let isAlone: Bool
    private let shard: Int
    /// nil if no routes are configured, and before the start.
    private(set) var routeFigures: RouteRecords?
    /// Host and port of each upstream address.
    private let upstreamAddresses: [String]
    /// Data about this API in spans.
    let spanSubject: SpanSubject

    init(_ api: SharedFlowState, on shard: Shard) {
        (loop, records, self.shard, self.api) = (shard.loop, shard.records, shard.number, api)
        (place, isAlone) = (Int(api.place), api.name.isEmpty)
        upstreamAddresses = api.settings.upstream.atEachAddress.map(\.authority)
        spanSubject = SpanSubject(api, shard: shard.number)
    }

    /// Must be called on the shard's event loop before the first request.
    func start() {
        records.count(ofAPI: place)
        routeFigures = RouteRecords(api.routes, ofAPI: api.name, in: records)
    }

    /// nil if no recording is active.
    var recorder: (any ExchangeRecorder)? { api.process.recorder }

    func follow(_ leader: SpanPlace, of span: SpanPlace) { records.tracer?.follow(leader, of: span) }

    /// Number of the next record.
    func nextNumber() -> UInt64 { records.why.nextNumber() }

    /// Completes an exchange. Every exchange ends here, once.
    /// - Parameter client: the client before the response was sent, because the connection's next request may have begun since.
    func finish(
        _ record: inout ExchangeRecord, _ trace: inout ExchangeTrace, _ head: RequestHead, _ client: RequestClient, _ began: Int64
    ) {
        loop.assertOnLoop()
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        count(record, trace.route, head)
        trace.complete(by: record, of: client.address, head.version, wall: loop.batchWallMilliseconds)
        if !isAlone {
            if trace.reasons.refusal?.isOfNoAPI == true { trace.api = ExchangeTrace.noAPI }
            if trace.api != ExchangeTrace.noAPI { trace.api = api.place }
            if trace.api != ExchangeTrace.noAPI { countOfAPI(record) }
        }
        records.why.append(&trace, target: head.pathAndQuery)
        if record.isServerError || record.result.isTallied { tally(record, trace.api, head.pathAndQuery) }
        if head.span.isRecorded { noteSpan(record, trace, head, client, began) }
        if let log = records.accessLog { log.append(accessLine(record, trace, head, client, log)) }
    }

    /// Access log line of a completed exchange.
    @inline(never)
    func accessLine(
        _ record: borrowing ExchangeRecord, _ trace: borrowing ExchangeTrace, _ head: RequestHead, _ client: RequestClient, _ log: AccessLog
    ) -> [UInt8] {
        var line = AccessLogLine(head, wall: loop.batchWallMilliseconds)
        line.client = AccessLogLine.Client(client.text, subject: client.subject, tls: client.tls)
        line.name = log.namesRequests ? records.name(of: head) : nil
        if trace.api != ExchangeTrace.noAPI { line.api = api.name }
        if trace.route != ExchangeTrace.noRoute { line.route = api.routes.all[Int(trace.route)].name }
        if trace.upstream.status > 0 { line.upstreamAddress = upstreamAddresses[Int(trace.upstream.address)] }
        return line.make(record, trace, log.format, log.fields)
    }

    // MARK: Explanations

    /// Whether the response must carry its explanation.
    @inline(__always)
    func explains(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) && api.settings.ownFields.allowsWhy }

    /// The line of the Cistern-Why field.
    func whyField(_ record: ExchangeRecord, _ trace: ExchangeTrace, _ head: RequestHead) -> [UInt8] {
        let target = Array(head.pathAndQuery)
        var trace = trace
        trace.complete(by: record, wall: loop.batchWallMilliseconds)
        let isNobodys = trace.api == ExchangeTrace.noAPI
        return WhyExplanation(
            WhyRecord(trace: trace, shard: shard, target: target),
            route: isNobodys ? ExplainedRoute.none : api.routes.explained(target), api: isNobodys ? "" : api.name,
            unknownField: isNobodys ? nil : api.cache?.unknownFields.name(ofField: trace.found.unknownField)
        ).field
    }

    /// The cache key for Cache-Status, without secrets. nil if it was not requested, is not permitted, or does not exist.
    @inline(__always)
    func shownKey(_ key: @autoclosure () -> [UInt8]?, _ head: RequestHead) -> String? {
        guard head.contains(.cisternKey), api.settings.ownFields.allowsKey else { return nil }
        return key().flatMap { StoredKey($0)?.readableTarget }
    }
}
