// Traces of one shard: decides which requests are recorded, assigns span IDs, and links spans.

import Figures
import HTTPCore
import Reactor
import Tracing

/// Used on its shard's loop only.
final class ShardTracer {
    let exporter: SpanExporter
    private var chances = Chances()
    private var clock = SpanClock()
    /// The leader's span for each request that waits, or waited, for another fetch. Removed at the request's end.
    private var leaders: [UInt64: SpanContext] = [:]
    /// Second in which the process-wide limit was reached, so that the limit is checked once a second instead of for each request.
    private var fullSecond: Int64 = .min

    init(_ exporter: SpanExporter) { self.exporter = exporter }

    // MARK: Requests

    /// The span of a new request; `none` if it is not recorded.
    /// - Parameter now: milliseconds since 1970.
    func context(for head: RequestHead, now: Int64) -> SpanContext {
        let parent = head.contains(.traceparent) ? TraceParent(head.fields) : nil
        guard Sampling.wants(parent, exporter.settings, &chances) else { return .none }
        return hasCapacity(now: now / 1_000) ? SpanNumbers.span(in: parent?.trace) : .none
    }

    /// Returns the request with its own span. A request from the memo may have the span of an earlier one.
    func recorded(_ head: RequestHead, now: Int64) -> RequestHead {
        let context = context(for: head, now: now)
        return context.isRecorded || head.span.isRecorded ? head.recorded(as: context) : head
    }

    private func hasCapacity(now second: Int64) -> Bool {
        if second != fullSecond, exporter.takeRoom(now: second) { return true }
        fullSecond = second
        exporter.countOverLimit()
        return false
    }

    func noteLeader(_ leader: SpanContext, of span: SpanContext) { leaders[span.span] = leader }

    /// Returns the span of the fetch for which a request waited; nil if it waited for none. Can be called once for each span, at its end.
    func leader(of span: SpanContext) -> SpanContext? { leaders.isEmpty ? nil : leaders.removeValue(forKey: span.span) }

    // MARK: Fetches

    /// Sets the trace fields of an upstream request.
    /// - Returns: the span of the fetch; nil if it is not recorded.
    func begin(_ fields: inout Fields, for head: RequestHead) -> SpanContext? {
        guard head.span.isRecorded else {
            TraceContext.pass(&fields)
            return nil
        }
        let context = SpanNumbers.span(in: head.span.trace)
        TraceContext.set(context, in: &fields)
        return context
    }

    /// Microseconds to add to the monotonic clock to get the time since 1970.
    func offset(_ loop: EventLoop) -> Int64 { clock.offset(wall: loop.batchWallMilliseconds, monotonic: loop.batchMicroseconds) }
}

/// The span of an active fetch. Used on its shard's loop only.
final class FetchSpan {
    let context: SpanContext
    /// Span of the request that caused the fetch.
    let parent: SpanContext
    var work: TraceSpan.Client
    /// Times in microseconds of the monotonic clock: the start, and the last sending of the request.
    let began: Int64
    var asked: Int64

    init(_ context: SpanContext, parent: SpanContext, _ work: TraceSpan.Client) {
        (self.context, self.parent, self.work) = (context, parent, work)
        began = SystemTime.monotonicMicroseconds
        asked = began
    }
}
