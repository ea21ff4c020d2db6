// Tests of spans in OTLP's JSON encoding.

import CachePolicy
import Decisions
import Explanation
import Figures
import HTTPCore
import JSON
import TestSupport
import Testing
import Upstream

@testable import Tracing

@Suite("OTLP JSON spans")
struct SpanTextTests {
    private static let subject = SpanSubject(
        api: "users", routes: [SpanSubject.Route(name: "one", pattern: "/users/*")],
        upstreams: [
            SpanSubject.Upstream(url: "http://a.test:81/v2", host: "a.test", port: 81),
            SpanSubject.Upstream(url: "https://b.test", host: "b.test", port: 443),
        ], shard: 3)
    private static let context = SpanContext(trace: TraceID(high: 0x0102, low: 0xabcd), span: 0x1f)
    private static let source = SpanSource(service: "edge", version: "1.2", instance: "i1")

    private static func written(_ span: TraceSpan) throws -> (span: SpanCollector.Span, all: JSONValue) {
        let content = SpanText.request([span], from: source)
        #expect(OTLPSchema.problems(content) == [])
        let all = try #require(JSONValue(content))
        let spans = try #require(all["resourceSpans"]?.array?.first?["scopeSpans"]?.array?.first?["spans"]?.array)
        return (SpanCollector.Span(try #require(spans.first)), all)
    }

    private static func server(
        _ change: (inout ExchangeRecord) -> Void, method: HTTPCore.Method = .get, parent: UInt64 = 0,
        link: SpanContext? = nil
    ) throws -> SpanCollector.Span {
        var record = ExchangeRecord(.hit, .get, status: 200)
        (record.number, record.route) = (7, 0)
        change(&record)
        let head = TraceSpan.Head(method, Array("/users/1?token=s3cret".utf8)[...], .http2)
        let work = TraceSpan.Server(head, isSecure: true, client: Array("192.0.2.1".utf8), record)
        return try written(
            TraceSpan(context, parent: parent, link: link, start: 1_700_000_000_000_001, duration: 2_500, subject, .server(work))
        ).span
    }

    private static func client(_ change: (inout TraceSpan.Client) -> Void, link: SpanContext? = nil) throws -> SpanCollector.Span {
        var work = TraceSpan.Client(TraceSpan.Head(.post, Array("/users?q=s3cret".utf8)[...], .http11))
        change(&work)
        return try written(TraceSpan(context, parent: 5, link: link, start: 1_000_000, duration: 9_000, subject, .client(work))).span
    }

    @Test("ids, times and kinds follow OTLP JSON, and the resource describes the service")
    func frame() throws {
        let work = TraceSpan.Client(TraceSpan.Head(.get, Array("/".utf8)[...], .http11))
        let (span, all) = try Self.written(
            TraceSpan(Self.context, parent: 0, link: nil, start: 1_700_000_000_000_001, duration: 2_500, Self.subject, .client(work)))
        #expect(span.trace == "0000000000000102000000000000abcd" && span.id == "000000000000001f" && span.parent == nil)
        #expect(span.value["startTimeUnixNano"] == "1700000000000001000" && span.value["endTimeUnixNano"] == "1700000000002501000")
        #expect(span.isClient && span.name == "GET" && span.value["events"] == nil && span.value["links"] == nil)
        let resource = all["resourceSpans"]?.array?.first
        #expect(
            OTLPSchema.attributes(resource?["resource"]?["attributes"])
                == ["service.name": "edge", "service.version": "1.2", "service.instance.id": "i1"])
        #expect(resource?["scopeSpans"]?.array?.first?["scope"] == ["name": "cistern", "version": "1.2"])
    }

    @Test("a server span describes the request, the response and the cache result")
    func request() throws {
        let span = try Self.server(
            { record in
                (record.age, record.bodyBytes, record.durationMicroseconds) = (12, 34, 2_500)
                record.partition = 1
            }, parent: 0xab)
        #expect(span.isServer && span.name == "GET /users/*" && span.parent == "00000000000000ab" && !span.isFailed)
        #expect(span.value["flags"] == .integer(0x301))
        #expect(
            span.attributes == [
                "http.request.method": "GET", "url.scheme": "https", "url.path": "/users/1", "http.route": "/users/*",
                "http.response.status_code": "200", "http.response.body.size": "34", "network.protocol.name": "http",
                "network.protocol.version": "2", "client.address": "192.0.2.1", "cistern.result": "hit", "cistern.reason": "fresh",
                "cistern.age": "12",
                "cistern.partitioned": true, "cistern.api": "users", "cistern.route": "one", "cistern.exchange": "3-7",
            ])
    }

    @Test("a server span states the error and why a response was rescued or not stored")
    func reasons() throws {
        let failed = try Self.server({ record in
            (record.result, record.status) = (.error, 502)
            record.upstream.failure = .transfer(.connectionRefused)
        })
        #expect(failed.isFailed && failed["error.type"] == "connection_refused" && failed["cistern.reason"] == "connection_refused")
        // A failure response of the upstream itself.
        let passed = try Self.server({ record in (record.result, record.status) = (.miss, 503) })
        #expect(passed.isFailed && passed["error.type"] == "503" && passed["cistern.reason"] == "no_store")
        let rescued = try Self.server({ record in
            (record.result, record.upstream.failure) = (.rescued, .slow)
        })
        #expect(!rescued.isFailed && rescued["cistern.result"] == "rescued" && rescued["cistern.reason"] == "slow")
        let notStored = try Self.server({ record in (record.result, record.reasons.notStored) = (.miss, .noStore) })
        #expect(notStored["cistern.reason"] == NotStoredReason.noStore.rawValue && notStored["error.type"] == nil)
        // The reason comes from `why` if the access log has no word for it.
        let missed = try Self.server({ record in (record.result, record.found.kind) = (.miss, .nothing) })
        #expect(missed["cistern.reason"] == "nothing_stored")
        // A client error is not a failure of the server.
        #expect(try !Self.server({ record in record.status = 404 }).isFailed)
    }

    @Test("span names have low cardinality for unknown methods and unmatched paths")
    func names() throws {
        let odd = try Self.server({ record in record.route = ExchangeRecord.noRoute }, method: .other(Array("BREW".utf8)))
        #expect(odd.name == "HTTP" && odd["http.request.method"] == "_OTHER" && odd["http.request.method_original"] == "BREW")
        #expect(odd["http.route"] == nil && odd["cistern.route"] == nil)
        // The last route stands for all other paths.
        #expect(try Self.server({ record in record.route = 1 }).name == "GET")
        let none = try Self.server({ record in record.api = ExchangeRecord.noAPI })
        #expect(none["cistern.api"] == nil)
    }

    @Test("a client span describes the address, the response and the end of each phase")
    func fetch() throws {
        let span = try Self.client { work in
            (work.upstream.status, work.upstream.spoken, work.upstream.address, work.asked) = (200, .http2, 1, 1_000_100)
            (work.upstream.times.resolved, work.upstream.times.connected, work.upstream.times.secured) = (10, 20, 30)
            (work.upstream.times.sent, work.upstream.times.firstByte) = (40, 9_999)
        }
        #expect(span.isClient && span.name == "POST" && span.parent == "0000000000000005" && span.value["flags"] == .integer(0x101))
        #expect(
            span.attributes == [
                "http.request.method": "POST", "url.full": "https://b.test/users", "server.address": "b.test", "server.port": "443",
                "http.response.status_code": "200", "network.protocol.name": "http", "network.protocol.version": "2",
                "cistern.connection.reused": false, "cistern.api": "users",
            ])
        #expect(span.events == ["name resolved", "connected", "tls agreed", "request sent", "first byte"])
        // No event is later than the end of the span.
        #expect(
            span.value["events"]?.array?.map { $0["timeUnixNano"]?.string }
                == ["1000110000", "1000120000", "1000130000", "1000140000", "1009000000"])
        let kept = try Self.client { work in
            (work.upstream.times.resolved, work.upstream.times.connected, work.upstream.times.secured, work.upstream.times.sent) = (
                0, 0, 0, 3
            )
        }
        #expect(
            kept.events == ["request sent"] && kept["cistern.connection.reused"] == "true"
                && kept["url.full"] == "http://a.test:81/v2/users")
    }

    @Test("failed, abandoned and background fetches are marked in their spans")
    func fetchEnds() throws {
        let failed = try Self.client { $0.upstream.failure = .slow }
        #expect(failed.isFailed && failed["error.type"] == "slow" && failed["cistern.connection.reused"] == nil)
        let left = try Self.client { $0.isAbandoned = true }
        #expect(left.isFailed && left["error.type"] == "abandoned")
        let missing = try Self.client { $0.upstream.status = 404 }
        #expect(missing.isFailed && missing["error.type"] == "404")
        let other = SpanContext(trace: TraceID(high: 1, low: 1), span: 2)
        let behind = try Self.client({ $0.background = .staleWhileRevalidate }, link: other)
        #expect(behind["cistern.background"] == "stale_while_revalidate")
        let link = try #require(behind.links.first)
        #expect(link["traceId"]?.string == other.trace.text && link["spanId"]?.string == "0000000000000002")
        #expect(OTLPSchema.attributes(link["attributes"]) == ["cistern.link": "stale_while_revalidate"])
    }

    @Test("invalid client bytes give valid JSON")
    func hostile() throws {
        let path = Array("/\"\\\u{1}\u{7f}<".utf8) + [0xff, 0xc3]
        let work = TraceSpan.Client(TraceSpan.Head(.get, path[...], .http11))
        let (span, _) = try Self.written(TraceSpan(Self.context, parent: 1, link: nil, start: 1, duration: -5, Self.subject, .client(work)))
        #expect(span["url.full"]?.hasPrefix("http://a.test:81/v2/\"\\\u{1}\u{7f}<") == true && span.end == span.start)
        let long = TraceSpan.Head(.get, Array(repeating: UInt8(ascii: "a"), count: 9_000)[...], .http11)
        #expect(long.path.count == 1_024)
    }
}
