// Tests of queued spans, and of responses to sent ones (OpenTelemetry protocol, "OTLP/HTTP Response").

import CachePolicy
import Figures
import HTTPCore
import OwnRequests
import Testing

@testable import Tracing

@Suite("Span delivery")
struct DeliveryTests {
    private static let subject = SpanSubject(
        api: "", routes: [], upstreams: [SpanSubject.Upstream(url: "http://a", host: "a", port: 80)], shard: 0)

    static func span(_ number: UInt64) -> TraceSpan {
        TraceSpan(
            SpanContext(trace: TraceID(high: 1, low: 2), span: number), parent: 0, link: nil, start: 0, duration: 0, subject,
            .client(TraceSpan.Client(TraceSpan.Head(.get, Array("/".utf8)[...], .http11))))
    }

    @Test("batches hold 512 spans, the queue holds 2,048, and new spans are dropped when it is full")
    func queue() {
        var queue = SpanQueue()
        let places = (1...2_049).map { queue.append(Self.span($0)) }
        #expect(places.enumerated().filter { $0.element == .completesBatch }.map { $0.offset + 1 } == [512, 1_024, 1_536, 2_048])
        #expect(places.last == .dropped && queue.count == 2_048)
        let first = queue.take()
        #expect(first.count == 512 && first.first?.context.span == 1 && first.last?.context.span == 512)
        #expect(queue.append(Self.span(9)) == .queued && queue.count == 1_537)
        for expected in [512, 512, 512, 1, 0] { #expect(queue.take().count == expected) }
    }

    struct Row: Sendable {
        let result: OwnRequest.Outcome
        var attempt = 1
        let next: Delivery

        init(_ result: OwnRequest.Outcome, attempt: Int = 1, _ next: Delivery) {
            (self.result, self.attempt, self.next) = (result, attempt, next)
        }
    }

    private static func answered(_ status: Int, retryAfter: Int? = nil, rejected: Int? = nil) -> OwnRequest.Outcome {
        let content = rejected.map { "{\"partialSuccess\":{\"rejectedSpans\":\($0)}}" } ?? "{}"
        return .answered(status: status, retryAfter: retryAfter, content: Array(content.utf8))
    }

    @Test(
        "a batch is resent only for retryable statuses, after the given delay, at most five times",
        arguments: [
            Row(answered(200), .done(rejected: 0)),
            Row(answered(204, retryAfter: 5), .done(rejected: 0)),
            Row(answered(200, rejected: 3), .done(rejected: 3)),
            // More than were sent, or a negative number.
            Row(answered(200, rejected: 30), .done(rejected: 10)),
            Row(answered(200, rejected: -1), .done(rejected: 0)),
            Row(answered(400, retryAfter: 1), .lost(.rejected)), Row(answered(404), .lost(.rejected)),
            Row(answered(500, retryAfter: 1), .lost(.rejected)), Row(answered(301), .lost(.rejected)),
            Row(answered(429), .again(afterMilliseconds: 1_000)),
            Row(answered(502), attempt: 2, .again(afterMilliseconds: 2_000)),
            Row(answered(503, retryAfter: 7), attempt: 2, .again(afterMilliseconds: 7_000)),
            Row(answered(504), attempt: 4, .again(afterMilliseconds: 8_000)),
            Row(answered(503, retryAfter: 1_000_000), .again(afterMilliseconds: 60_000)),
            // Extreme numbers.
            Row(answered(503, retryAfter: .max), .again(afterMilliseconds: 60_000)),
            Row(answered(503, retryAfter: .min), .again(afterMilliseconds: 0)),
            Row(answered(503, retryAfter: 7), attempt: 5, .lost(.undelivered)),
            Row(.failed("refused"), .again(afterMilliseconds: 1_000)), Row(.failed("refused"), attempt: 5, .lost(.undelivered)),
        ])
    func delivery(row: Row) { #expect(Delivery(row.result, attempt: row.attempt, pause: 1_000, of: 10) == row.next) }

    @Test(
        "the number of rejected spans is read from a partial success",
        arguments: [
            ("{}", 0), ("", 0), ("{\"partialSuccess\":{}}", 0), ("{\"partialSuccess\":{\"rejectedSpans\":\"7\"}}", 7),
            ("{\"partialSuccess\":{\"rejectedSpans\":7,\"errorMessage\":\"x\"}}", 7), ("{\"partialSuccess\":null}", 0), ("junk", 0),
        ])
    func rejected(content: String, count: Int) { #expect(Delivery.rejected(in: Array(content.utf8)) == count) }

    @Test("the clock offset is kept until the wall clock is set")
    func clock() {
        var clock = SpanClock()
        let first = clock.offset(wall: 1_000_000, monotonic: 5_000)
        #expect(first == 999_995_000)
        // A difference of one millisecond is rounding.
        #expect(clock.offset(wall: 1_000_001, monotonic: 5_100) == first)
        #expect(clock.offset(wall: 2_000_000, monotonic: 6_000) == 1_999_994_000)
        #expect(clock.offset(wall: 1_000_000, monotonic: 7_000) == 999_993_000)
    }
}
