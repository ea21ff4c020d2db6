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
    let api: APIState
    /// Number of the API in records and counters.
    let apiIndex: Int
    private let isAlone: Bool
    private let shard: Int
    /// nil if no routes are configured, and before the start.
    private(set) var routeFigures: RouteRecords?
    /// Host and port of each upstream address.
    private let upstreamAddresses: [String]
    /// Data about this API in spans.
    let spanSubject: SpanSubject

    init(_ api: APIState, on shard: Shard) {
        (loop, records, self.shard, self.api) = (shard.loop, shard.records, shard.number, api)
        (apiIndex, isAlone) = (Int(api.index), api.name.isEmpty)
        upstreamAddresses = api.settings.upstream.atEachAddress.map(\.authority)
        spanSubject = SpanSubject(api, shard: shard.number)
    }

    /// Must be called on the shard's event loop before the first request.
    func start() {
        records.count(ofAPI: apiIndex)
        routeFigures = RouteRecords(api.routes, ofAPI: api.name, in: records)
    }

    /// nil if no recording is active.
    var recorder: (any ExchangeRecorder)? { api.process.recorder }

    func follow(_ leader: SpanContext, of span: SpanContext) { records.tracer?.follow(leader, of: span) }

    /// Number of the next record.
    func nextNumber() -> UInt64 { records.why.nextNumber() }

    /// Completes an exchange. Every exchange ends here, once.
    /// - Parameter client: the client before the response was sent, because the connection's next request may have begun since.
    func finish(_ record: inout ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ began: Int64) {
        loop.assertOnLoop()
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        (record.wall, record.client, record.version) = (loop.batchWallMilliseconds, client.address, head.version)
        count(record, head)
        if !isAlone {
            if record.reasons.refusal?.isOfNoAPI == true { record.api = ExchangeRecord.noAPI }
            if record.api != ExchangeRecord.noAPI { record.api = api.index }
            if record.api != ExchangeRecord.noAPI { countOfAPI(record) }
        }
        records.why.append(&record, target: head.pathAndQuery)
        if record.isServerError || record.result.isTallied { tally(record, head.pathAndQuery) }
        if head.span.isRecorded { noteSpan(record, head, client, began) }
        if let log = records.accessLog { log.append(accessLine(record, head, client, log)) }
        if let lines = records.requestLines { show(record, head, on: lines) }
    }

    /// Shows a completed exchange on the terminal.
    @inline(never)
    private func show(_ record: borrowing ExchangeRecord, _ head: RequestHead, on lines: RequestLines) {
        guard record.result != .own, lines.reserve() else { return }
        let name = record.api == ExchangeRecord.noAPI ? "" : api.name
        lines.append(RequestLine.text(record, head, api: name, isColoured: lines.isColoured))
    }

    /// Access log line of a completed exchange.
    @inline(never)
    func accessLine(
        _ record: borrowing ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ log: AccessLog
    ) -> [UInt8] {
        var line = AccessLogLine(head)
        line.client = AccessLogLine.Client(client.text, subject: client.subject, tls: client.tls)
        line.name = log.namesRequests ? records.name(of: head) : nil
        if record.api != ExchangeRecord.noAPI { line.api = api.name }
        if record.route != ExchangeRecord.noRoute { line.route = api.routes.all[Int(record.route)].name }
        if record.upstream.status > 0 { line.upstreamAddress = upstreamAddresses[Int(record.upstream.address)] }
        return line.make(record, log.format, log.fields)
    }

    // MARK: Explanations

    /// Whether the response must carry its explanation.
    @inline(__always)
    func explains(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) && api.settings.ownFields.allowsWhy }

    /// The line of the Cistern-Why field.
    func whyField(_ record: ExchangeRecord, _ head: RequestHead) -> [UInt8] {
        let target = Array(head.pathAndQuery)
        let hasNoAPI = record.api == ExchangeRecord.noAPI
        return WhyExplanation(
            WhyRecord(exchange: record, shard: shard, target: target),
            route: hasNoAPI ? ExplainedRoute.none : api.routes.explained(target), api: hasNoAPI ? "" : api.name,
            unknownField: hasNoAPI ? nil : api.cache?.unknownFields.name(ofField: record.found.unknownField)
        ).field
    }

    /// The cache key for Cache-Status, without secrets. nil if it was not requested, is not permitted, or does not exist.
    @inline(__always)
    func shownKey(_ key: @autoclosure () -> [UInt8]?, _ head: RequestHead) -> String? {
        guard head.contains(.cisternKey), api.settings.ownFields.allowsKey else { return nil }
        return key().flatMap { StoredKey($0)?.readableTarget }
    }
}
