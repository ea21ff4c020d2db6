// What one API reports on a shard: counters, records for explanations, the access log, and spans.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Logging
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

    /// Completes an exchange. Every exchange ends here, once.
    /// - Parameter client: the client before the response was sent, because the connection's next request may have begun since.
    func finish(_ record: inout ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ began: Int64) {
        loop.assertOnLoop()
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        (record.wall, record.client, record.version) = (loop.batchWallMilliseconds, client.address, head.version)
        if !isAlone {
            if record.reasons.refusal?.isOfNoAPI == true { record.api = ExchangeRecord.noAPI }
            if record.hasAPI { record.api = api.index }
            if record.hasAPI { records.apis[apiIndex].figures.recordOfAPI(record) }
        }
        if record.isServerError || record.result.isTallied { tally(record, head.pathAndQuery) }
        records.figures.labelled.record(record)
        if let age = record.age { records.oldestAges.note(age, record.result, at: record.wall) }
        let routeFigures = routeFigures?.figures(of: record.route)
        routeFigures?.figures.recordOfRoute(record)
        if head.contains(.traceparent) || head.span.isRecorded { noteExemplar(record, routeFigures, head) }
        records.why.append(&record, target: head.pathAndQuery)
        if head.span.isRecorded { noteSpan(record, head, client, began) }
        if let log = records.accessLog { log.append(accessLine(record, head, client, log)) }
        if let lines = records.requestLines { show(record, head, on: lines) }
    }

    /// Shows a completed exchange on the terminal.
    @inline(never)
    private func show(_ record: borrowing ExchangeRecord, _ head: RequestHead, on lines: RequestLines) {
        guard record.result != .own, lines.reserve() else { return }
        let name = record.hasAPI ? api.name : ""
        lines.append(RequestLine.text(record, head, api: name, isColoured: lines.isColoured))
    }

    /// Access log line of a completed exchange.
    @inline(never)
    func accessLine(
        _ record: borrowing ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ log: AccessLog
    ) -> [UInt8] {
        var line = AccessLogLine(head)
        line.client = AccessLogLine.Client(client.text, subject: client.subject, tls: client.tls)
        line.name = log.namesRequests ? records.ids.name(of: head) : nil
        if record.hasAPI { line.api = api.name }
        if record.route != ExchangeRecord.noRoute { line.route = api.routes.all[Int(record.route)].name }
        if record.upstream.status > 0 { line.upstreamAddress = upstreamAddresses[Int(record.upstream.address)] }
        return line.make(record, log.format, log.fields)
    }

    // MARK: Explanations

    /// Adds the explanation, if the client requests it and may see it.
    @inline(__always)
    func appendWhy(_ record: ExchangeRecord, _ head: RequestHead, to lines: inout [UInt8]) {
        if head.contains(.cisternWhy), api.settings.ownFields.allowsWhy { lines += whyField(record, head) }
    }

    private func whyField(_ record: ExchangeRecord, _ head: RequestHead) -> [UInt8] {
        let target = Array(head.pathAndQuery)
        return WhyExplanation(
            WhyRecord(exchange: record, shard: shard, target: target),
            route: record.hasAPI ? api.routes.explained(target) : ExplainedRoute.none, api: record.hasAPI ? api.name : "",
            unknownField: record.hasAPI ? api.cache?.unknownFields.name(ofField: record.found.unknownField) : nil
        ).field
    }

    /// The requested cache key for Cache-Status, without secrets. nil if it is not permitted, or does not exist.
    func shownKey(_ key: [UInt8]?) -> String? {
        api.settings.ownFields.allowsKey ? key.flatMap { StoredKey($0)?.readableTarget } : nil
    }
}

extension Reporting {
    // MARK: Counters

    func count(_ figure: Figure, by number: Int = 1) { records.figures[figure] += number }

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
        records.apis[apiIndex].clockSkew.note(
            date: date * 1_000, received: received, duration: firstByte / 1_000 + 1, now: loop.batchMilliseconds)
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

extension Reporting {
    // MARK: Spans (`tracing`)

    /// Exports the span of a completed exchange.
    @inline(never)
    func noteSpan(_ record: borrowing ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ began: Int64) {
        guard let tracer = records.tracer else { return }
        let parent = TraceParent(head.fields)
        let work = TraceSpan.Server(
            TraceSpan.Head(head.method, head.pathAndQuery, head.version), isSecure: client.isSecure, client: client.text, record)
        let span = TraceSpan(
            head.span, parent: parent?.trace == head.span.trace ? parent?.span ?? 0 : 0, link: tracer.leader(of: head.span),
            start: began + tracer.offset(loop), duration: record.durationMicroseconds, spanSubject, .server(work))
        tracer.exporter.append(span)
    }

    /// - Parameter cause: cause of a background fetch; nil if a client waits.
    /// - Returns: nil if the fetch is not recorded.
    func beginSpan(_ request: inout UpstreamRequest, for subject: DecidedRequest, _ cause: BackgroundCause?) -> FetchSpan? {
        guard let tracer = records.tracer else { return nil }
        let head = subject.head
        guard let context = tracer.begin(&request.fields, for: head) else { return nil }
        var work = TraceSpan.Client(TraceSpan.Head(request.method, request.target, .http11))
        work.background = cause
        return FetchSpan(context, parent: head.span, work)
    }

    func endSpan(_ span: FetchSpan) {
        guard let tracer = records.tracer else { return }
        let offset = tracer.offset(loop)
        span.work.asked = span.asked + offset
        let duration = SystemTime.monotonicMicroseconds - span.began
        tracer.exporter.append(
            TraceSpan(
                span.context, parent: span.parent.span, link: span.work.background == nil ? nil : span.parent, start: span.began + offset,
                duration: duration, spanSubject, .client(span.work)))
    }
}

extension SpanSubject {
    convenience init(_ apiState: APIState, shard: Int) {
        self.init(
            api: apiState.name,
            // The last route, for all other paths, has no name.
            routes: apiState.routes.all.dropLast().map { SpanSubject.Route(name: $0.name, pattern: $0.pattern.text) },
            upstreams: apiState.settings.upstream.atEachAddress.map {
                SpanSubject.Upstream(url: $0.origin + $0.basePath, host: $0.host, port: $0.port)
            }, shard: shard)
    }
}

/// Counters of an API's routes on one shard, and the routes of recent paths. For plain hits, the route is determined only for these
/// counters. Used on its shard's loop only.
final class RouteRecords {
    private let routes: Routes
    /// By the index of the route.
    private let figures: [RouteFigures]
    /// By a part of the path's hash: the last path with it, and the index of its route.
    private var latest: [(hash: UInt64, route: UInt16)]

    /// Number of remembered paths; a power of two. Other paths are matched against the routes.
    private static let remembered = 4_096

    /// Returns nil if no routes are configured.
    init?(_ routes: Routes, ofAPI api: String, in records: ShardRecords) {
        guard routes.all.count > 1, routes.all.count <= ExchangeRecord.noRoute else { return nil }
        self.routes = routes
        // No route can have this name, because route names are words.
        let names = routes.all.map { $0.name.isEmpty ? "*" : $0.name }
        figures = names.map { records.figures(ofRoute: api.isEmpty ? $0 : "\(api)/\($0)") }
        latest = Array(repeating: (0, UInt16(routes.all.count - 1)), count: Self.remembered)
    }

    /// Returns nil for `ExchangeRecord.noRoute`.
    func figures(of route: UInt16) -> RouteFigures? { route == ExchangeRecord.noRoute ? nil : figures[Int(route)] }

    /// Index of the target's route.
    func index(of target: ArraySlice<UInt8>) -> UInt16 {
        let path = target.withoutQuery
        let hash = ContentHash.number(of: path.span)
        let slot = Int(truncatingIfNeeded: hash) & (Self.remembered - 1)
        if latest[slot].hash == hash { return latest[slot].route }
        let index = UInt16(routes.index(of: path))
        latest[slot] = (hash, index)
        return index
    }
}
