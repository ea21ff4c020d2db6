// Tests which requests are recorded, and the trace fields sent to the upstream (W3C Trace Context, level 2).

import HTTPCore
import Testing

@testable import Tracing

@Suite("Sampling and trace context")
struct SamplingTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    private static func fields(_ parents: [String], state: String? = "a=1") -> Fields {
        var fields = Fields()
        for parent in parents { fields.append(.traceparent, parent) }
        if let state { fields.append(.tracestate, state) }
        return fields
    }

    private static func parent(_ flags: String) -> String { "00-\(trace)-00f067aa0ba902b7-\(flags)" }

    struct Row: Sendable, CustomTestStringConvertible {
        let flags: String?
        let share: Int
        let chance: UInt64
        let isWanted: Bool

        init(_ flags: String?, _ share: Int, _ chance: UInt64, _ isWanted: Bool) {
            (self.flags, self.share, self.chance, self.isWanted) = (flags, share, chance, isWanted)
        }

        var testDescription: String { "\(flags ?? "no parent"), \(share) in a million, chance \(chance): \(isWanted)" }
    }

    @Test(
        "the client's sampling flag decides, and without one the sampling ratio",
        arguments: [
            Row("01", 0, 0, true), Row("03", 0, 0, true), Row("00", 1_000_000, 0, false), Row("02", 1_000_000, 0, false),
            Row(nil, 0, 0, false), Row(nil, 1_000_000, 999_999, true), Row(nil, 10_000, 9_999, true), Row(nil, 10_000, 10_000, false),
            Row(nil, 10_000, 5_009_999, true), Row(nil, 10_000, .max, false),
        ])
    func wanted(row: Row) {
        let parent = row.flags.flatMap { TraceParent(Self.fields([Self.parent($0)])) }
        #expect(Sampling.wants(parent, samplePerMillion: row.share, chance: row.chance) == row.isWanted)
    }

    @Test("the number of recorded requests per second is limited, also when the clock goes back")
    func limited() {
        var limit = SamplingLimit()
        #expect((0..<4).map { _ in limit.take(3, now: 7) } == [true, true, true, false])
        #expect(limit.take(3, now: 8) && limit.take(3, now: 5))
        // Loops may be in different seconds. A loop that is behind uses the budget of the current second.
        #expect(limit.take(2, now: 6) && limit.take(2, now: 5) && !limit.take(2, now: 5) && !limit.take(2, now: 6))
    }

    @Test("trace and span ids are unique and not zero")
    func numbers() {
        let made = (0..<10_000).map { _ in SpanNumbers.span() }
        #expect(Set(made.map(\.span)).count == made.count && Set(made.map(\.trace.text)).count == made.count)
        #expect(made.allSatisfy { $0.span != 0 && $0.trace.high != 0 && $0.trace.low != 0 })
        let within = SpanNumbers.span(in: made[0].trace)
        #expect(within.trace.text == made[0].trace.text && within.span != made[0].span)
    }

    struct Told: Sendable {
        let parents: [String]
        var state: String? = "a=1"
        var isRecorded = false
        /// Expected traceparent to the upstream; SPAN is our span, NEW is a new trace.
        let sent: String?
        let sentState: String?
    }

    @Test(
        "traceparent and tracestate are forwarded, replaced or removed",
        arguments: [
            // Recorded: our span becomes the parent, all else is unchanged.
            Told(parents: [parent("01")], isRecorded: true, sent: "00-\(trace)-SPAN-01", sentState: "a=1"),
            Told(parents: [parent("03")], isRecorded: true, sent: "00-\(trace)-SPAN-03", sentState: "a=1"),
            Told(parents: [parent("01")], state: nil, isRecorded: true, sent: "00-\(trace)-SPAN-01", sentState: nil),
            Told(parents: ["cc-\(trace)-00f067aa0ba902b7-ff-more"], isRecorded: true, sent: "00-\(trace)-SPAN-03", sentState: "a=1"),
            Told(parents: [], isRecorded: true, sent: "00-NEW-SPAN-03", sentState: nil),
            Told(parents: ["junk"], isRecorded: true, sent: "00-NEW-SPAN-03", sentState: nil),
            Told(parents: [parent("01"), parent("01")], isRecorded: true, sent: "00-NEW-SPAN-03", sentState: nil),
            // Not recorded: valid fields are unchanged, invalid ones are removed.
            Told(parents: [parent("01")], sent: parent("01"), sentState: "a=1"),
            Told(parents: [parent("00")], sent: parent("00"), sentState: "a=1"),
            Told(
                parents: ["cc-\(trace)-00f067aa0ba902b7-ff-more"], sent: "cc-\(trace)-00f067aa0ba902b7-ff-more", sentState: "a=1"),
            Told(parents: [], sent: nil, sentState: nil),
            Told(parents: ["junk"], sent: "00-NEW-ANY-02", sentState: nil),
            Told(parents: [parent("01"), parent("00")], sent: "00-NEW-ANY-02", sentState: nil),
        ])
    func propagated(row: Told) throws {
        var fields = Self.fields(row.parents, state: row.state)
        var span: SpanContext?
        if row.isRecorded {
            let context = SpanNumbers.span(in: TraceParent(fields)?.trace)
            TraceContext.set(context, in: &fields)
            span = context
        } else {
            TraceContext.pass(&fields)
        }
        let sent = fields.all(.traceparent).map { String(decoding: $0, as: UTF8.self) }
        #expect(fields.all(.tracestate).map { String(decoding: $0, as: UTF8.self) } == row.sentState.map { [$0] } ?? [])
        guard let wanted = row.sent else {
            #expect(sent.isEmpty)
            return
        }
        try #require(sent.count == 1)
        let told = TraceParent(fields)
        var expected = wanted.replacing("SPAN", with: span?.span.hexDigits ?? "")
        if wanted.contains("NEW") {
            #expect(told != nil && told?.trace.text != Self.trace)
            expected = expected.replacing("NEW", with: span?.trace.text ?? told?.trace.text ?? "")
            expected = expected.replacing("ANY", with: told?.span.hexDigits ?? "")
        }
        #expect(sent[0] == expected)
    }

    @Test(
        "an endpoint URL gets the default path, and an invalid one is rejected",
        arguments: [
            ("http://a:4318", "http://a:4318/v1/traces"), ("https://a.test/", "https://a.test/v1/traces"),
            ("HTTP://a/otlp/v1/traces", "HTTP://a/otlp/v1/traces"), ("http://u:p@a/x?y", "http://u:p@a/x?y"), ("a:4318", nil),
            ("ftp://a", nil), ("http://", nil), ("http:///x", nil), ("http://u@", nil), ("http://a b", nil), ("http://a/#x", nil),
            ("http://:80", nil), ("http://a?x", nil),
        ] as [(String, String?)])
    func endpoint(text: String, url: String?) { #expect(TracingSettings.endpoint(text) == url) }

    @Test("the logged endpoint contains no secrets")
    func shown() {
        var settings = TracingSettings()
        settings.endpoint = "https://user:pass@a.test:4318/v1/traces?token=abc&x=1"
        #expect(settings.shownEndpoint == "https://a.test:4318/v1/traces?token=REDACTED&x=1")
    }
}
