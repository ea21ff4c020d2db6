// Spans of requests and fetches (`tracing`).

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import Tracing
import Upstream

extension Reporting {
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
