// Tests of the log lines and metrics about a failing collector.

import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Tracing

@Suite("Span exporter", .play)
struct SpanExporterTests {
    @Test("a collector failure and its recovery are each logged once")
    func loggedOnce() {
        let asked = Counter()
        let collector = SpanCollector { _ in
            let number = asked.next()
            return [1, 2, 4].contains(number) ? [.json("{}", status: "503 Busy")] : [.json("{}")]
        }
        var settings = TracingSettings()
        settings.endpoint = collector.endpoint
        (settings.intervalMilliseconds, settings.pauseMilliseconds) = (1, 1)
        let (events, counts) = (Mutex<[SpanExporter.Event]>([]), SpanCounts())
        let exporter = SpanExporter(settings, SpanSource(service: "a", version: "1", instance: "i"), counts) { event in
            events.withLock { $0.append(event) }
        }
        for posts in [3, 5] {
            exporter.append(DeliveryTests.span(UInt64(posts)))
            #expect(collector.origin.waitForRequests(posts))
        }
        exporter.finish()
        let failed = SpanExporter.Event.failed("the response has status 503")
        #expect(events.withLock { $0 } == [failed, .recovered, failed, .recovered])
        #expect(counts.figures[.spansExported] == 2 && counts.figures[.spanExportFailures] == 3 && counts.figures.sum(.spansDropped) == 0)
    }
}
