// What a shard records of requests for those who gather traces: which ones, by which numbers, and what each has to do with another.

import HTTPCore
import Reactor
import Telemetry
import Tracing

/// Touched on its shard's loop only.
final class ShardTracer {
    let exporter: SpanExporter
    private var chances = Chances()
    private var clock = SpanClock()
    /// Of requests that wait, or waited, for another's fetch: that one's span. They leave with their own.
    private var leaders: [UInt64: SpanPlace] = [:]
    /// In which there is no room for more: all shards are asked once, and not for each request that wants to be recorded.
    private var fullSecond: Int64 = .min

    init(_ exporter: SpanExporter) { self.exporter = exporter }

    // MARK: Requests

    /// The span of a request that has come; `none` where it is not recorded.
    /// - Parameter now: milliseconds since 1970.
    func place(for head: RequestHead, now: Int64) -> SpanPlace {
        let parent = head.contains(.traceparent) ? TraceParent(head.fields) : nil
        guard Sampling.wants(parent, exporter.settings, &chances) else { return .none }
        return hasRoom(now: now / 1_000) ? SpanNumbers.span(in: parent?.trace) : .none
    }

    /// The same request, with the span that it has from now on: also where it was remembered with another's.
    func recorded(_ head: RequestHead, now: Int64) -> RequestHead {
        let place = place(for: head, now: now)
        return place.isRecorded || head.span.isRecorded ? head.recorded(as: place) : head
    }

    private func hasRoom(now second: Int64) -> Bool {
        if second != fullSecond, exporter.takeRoom(now: second) { return true }
        fullSecond = second
        exporter.countOverLimit()
        return false
    }

    func follow(_ leader: SpanPlace, of span: SpanPlace) { leaders[span.span] = leader }

    /// The span whose fetch this one has waited for. Asked once, at its end.
    func leader(of span: SpanPlace) -> SpanPlace? { leaders.isEmpty ? nil : leaders.removeValue(forKey: span.span) }

    // MARK: Fetches

    /// What the upstream is told of it.
    /// - Returns: the span that stands for the fetch; nil where none is recorded.
    func begin(_ fields: inout Fields, for head: RequestHead) -> SpanPlace? {
        guard head.span.isRecorded else {
            TraceContext.pass(&fields)
            return nil
        }
        let place = SpanNumbers.span(in: head.span.trace)
        TraceContext.tell(place, in: &fields)
        return place
    }

    /// What is to be added to microseconds of the monotonic clock to have them since 1970.
    func offset(_ loop: EventLoop) -> Int64 { clock.offset(wall: loop.batchWallMilliseconds, monotonic: loop.batchMicroseconds) }
}

/// A fetch that is under way. Touched on its shard's loop only.
final class FetchSpan {
    let place: SpanPlace
    /// That of the request that it is made for.
    let parent: SpanPlace
    var work: TraceSpan.Client
    /// Microseconds of the monotonic clock: when it began, and when it asked last.
    let began: Int64
    var asked: Int64

    init(_ place: SpanPlace, parent: SpanPlace, _ work: TraceSpan.Client) {
        (self.place, self.parent, self.work) = (place, parent, work)
        began = SystemTime.monotonicMicroseconds
        asked = began
    }
}
