// Tests of spans when the collector fails, and when the process ends.

import Administration
import JSON
import Reactor
import ReverseProxy
import Server
import TestSupport
import Testing
import Tracing

@Suite("Delivery of spans to a collector", .play)
struct SpanDeliveryTests {
    private static let parent = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]

    private static func play(_ collector: SpanCollector, interval: Int = 5) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-store"])] }) { settings in
            settings.tracing.endpoint = collector.endpoint
            (settings.tracing.intervalMilliseconds, settings.tracing.pauseMilliseconds) = (interval, 1)
        }
    }

    private static func dropped(_ reason: String) -> String { "cistern_trace_spans_dropped_total{reason=\"\(reason)\"}" }

    @Test("after a retryable error the same batch is sent again", arguments: ["429 Too Many", "502 Bad", "503 Busy", "504 Late"])
    func retried(status: String) throws {
        let asked = Mutex(0)
        let collector = SpanCollector { _ in
            let number = asked.withLock { asked in
                asked += 1
                return asked
            }
            return number <= 2 ? [.json("{}", status: status)] : [.json("{}")]
        }
        let play = try Self.play(collector)
        _ = try play.get("/a", Self.parent)
        #expect(try play.waitFor("cistern_trace_spans_exported_total", 2))
        let contents = collector.origin.requests.map(\.content)
        #expect(contents.count >= 3 && contents[0] == contents[1] && contents[1] == contents[2])
        #expect(try play.metric("cistern_trace_export_failures_total") == 2)
        #expect(try play.metric(Self.dropped("undelivered")) == 0)
    }

    @Test("a batch that the collector rejects is not sent again", arguments: ["400 Bad Request", "401 No", "404 None", "500 Trouble"])
    func refused(status: String) throws {
        let collector = SpanCollector { _ in [.json("{}", status: status)] }
        let play = try Self.play(collector)
        _ = try play.get("/a", Self.parent)
        #expect(try play.waitFor(Self.dropped("rejected"), 2))
        let contents = collector.origin.requests.map(\.content)
        #expect(Set(contents).count == contents.count)
        #expect(try play.metric("cistern_trace_spans_exported_total") == 0)
    }

    @Test("partially accepted spans are counted accordingly")
    func partial() throws {
        let collector = SpanCollector { _ in [.json("{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"odd\"}}")] }
        let play = try Self.play(collector, interval: 60_000)
        _ = try play.get("/a", Self.parent)
        // The exporter is replaced, so that both spans are sent in one batch.
        #expect(play.reload { $0.settings.tracing.serviceName = "other" }?.label == "applied")
        #expect(try play.waitFor("cistern_trace_spans_exported_total", 1))
        #expect(try play.metric(Self.dropped("rejected")) == 1)
    }

    @Test("an unreachable collector is tried five times, and no request waits for it")
    func away() throws {
        let collector = SpanCollector()
        collector.origin.down()
        let play = try Self.play(collector)
        #expect(try play.get("/a", Self.parent).status == 200)
        #expect(try play.waitFor(Self.dropped("undelivered"), atLeast: 1))
        #expect(try play.metric("cistern_trace_export_failures_total") ?? 0 >= 5)
        collector.origin.up()
        _ = try play.get("/b", Self.parent)
        #expect(try play.waitFor("cistern_trace_spans_exported_total", atLeast: 1))
    }

    @Test("512 spans are sent at once, and the rest at shutdown", .slow)
    func batches() throws {
        let collector = SpanCollector()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }) { settings in
            settings.tracing.endpoint = collector.endpoint
            (settings.tracing.intervalMilliseconds, settings.tracing.limit) = (600_000, 10_000)
        }
        for _ in 0..<600 { _ = try play.get("/a", Self.parent) }
        #expect(collector.wait(for: 512).count == 512)
        play.stop()
        #expect(collector.wait(for: 601).count == 601 && collector.problems == [])
        let sizes = collector.origin.requests.map {
            JSONValue($0.content)?["resourceSpans"]?.array?.first?["scopeSpans"]?.array?.first?["spans"]?.array?.count
        }
        #expect(sizes == [512, 89])
    }

    @Test("an unresponsive collector delays shutdown by at most two seconds", .slow)
    func silent() throws {
        let collector = SpanCollector { _ in [.hang] }
        let play = try Self.play(collector)
        _ = try play.get("/a", Self.parent)
        #expect(collector.origin.waitForRequests(1))
        play.stop()
    }

    @Test("reloads can change, remove and restore the collector while counters continue")
    func reloaded() throws {
        let (first, second) = (SpanCollector(), SpanCollector())
        let play = try Self.play(first, interval: 60_000)
        _ = try play.get("/a", Self.parent)
        #expect(play.reload { $0.settings.tracing.endpoint = second.endpoint }?.label == "applied")
        // Pending spans were sent to the collector that was configured at their time.
        #expect(first.wait(for: 2).count == 2)
        _ = try play.get("/b", Self.parent)
        #expect(play.reload { $0.settings.tracing.endpoint = "" }?.label == "applied")
        #expect(second.wait(for: 2).count == 2)
        _ = try play.get("/c", Self.parent)
        #expect(play.origin.requests.last?["traceparent"] == Self.parent[0].1)
        #expect(try play.metric("cistern_trace_spans_exported_total") == 4)
    }
}
