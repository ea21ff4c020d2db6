// Tests of spans of requests and fetches, from a client's traceparent to a collector.

import CachePolicy
import Forwarding
import JSON
import ReverseProxy
import TestSupport
import Testing
import Tracing

@testable import Figures

@Suite("Traces", .play, .clientProtocols)
struct TracePlayTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let caller = "00f067aa0ba902b7"
    private static func parent(_ flags: String = "01", _ trace: String = trace) -> [(String, String)] {
        [("traceparent", "00-\(trace)-\(caller)-\(flags)")]
    }

    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }
    }

    /// Records every sampled request, and exports spans at once.
    private static func play(
        _ origin: ScriptedOrigin = origin(), to collector: SpanCollector, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(origin, accessLog: AccessField.allCases) { settings in
            settings.tracing.endpoint = collector.endpoint
            settings.tracing.samplePerMillion = 0
            (settings.tracing.intervalMilliseconds, settings.tracing.pauseMilliseconds) = (5, 1)
            configure(&settings)
        }
    }

    private static func one(_ spans: [SpanCollector.Span], _ isWanted: (SpanCollector.Span) -> Bool) throws -> SpanCollector.Span {
        let found = spans.filter(isWanted)
        try #require(found.count == 1)
        return found[0]
    }

    @Test("a miss creates two spans in the client's trace, and the second is sent to the upstream", .upstreams)
    func miss() throws {
        let collector = SpanCollector()
        let play = try Self.play(to: collector) { settings in
            var route = Route()
            (route.name, route.pattern) = ("users", RoutePattern("/users/**"))
            settings.routes = [route]
            settings.tracing.serviceName = "edge"
        }
        _ = try play.get("/users/1?token=s3cret&q=hidden", Self.parent() + [("tracestate", "a=1,b=2"), ("Authorization", "Bearer s3cret")])
        let spans = collector.wait(for: 2)
        let server = try Self.one(spans, \.isServer)
        let client = try Self.one(spans, \.isClient)
        #expect(collector.problems == [])
        #expect(server.name == "GET /users/**" && server.trace == Self.trace && server.parent == Self.caller)
        #expect(client.name == "GET" && client.trace == Self.trace && client.parent == server.id && client.id != server.id)
        #expect(server["cistern.result"] == "miss" && server["cistern.partitioned"] == "true" && server["cistern.route"] == "users")
        #expect(
            server["url.path"] == "/users/1" && server["url.scheme"] == ProxyPlay.clientProtocol.scheme
                && server["client.address"] == "127.0.0.1")
        #expect(server["network.protocol.version"] == (ProxyPlay.clientProtocol.speaksHTTP2 ? "2" : "1.1"))
        #expect(client["url.full"] == "http://127.0.0.1:\(play.origin.port)/users/1" && client["server.port"] == "\(play.origin.port)")
        #expect(client["http.response.status_code"] == "200" && client.events.suffix(3) == ["connected", "request sent", "first byte"])
        #expect(server.start <= client.start && client.start < client.end && server.start < server.end)
        #expect(server.resource["service.name"] == "edge" && server.resource["service.instance.id"]?.string?.isEmpty == false)
        let asked = try #require(play.origin.requests.first)
        #expect(asked["traceparent"] == "00-\(Self.trace)-\(client.id)-01" && asked["tracestate"] == "a=1,b=2")
        let sent = collector.origin.requests.map { String(decoding: $0.content, as: UTF8.self) }.joined()
        #expect(!sent.contains("s3cret") && !sent.contains("hidden"))
    }

    @Test("repeated hits are recorded individually and remain otherwise identical")
    func repeated() throws {
        let collector = SpanCollector()
        let play = try Self.play(to: collector)
        for _ in 0..<4 { _ = try play.get("/a", Self.parent()) }
        // Repeated hits with unsampled traces, and without a trace.
        for number in 0..<4 { _ = try play.get("/a", Self.parent("00", Self.trace.replacing("4", with: "\(number)"))) }
        for _ in 0..<4 { _ = try play.get("/a") }
        let spans = collector.wait(for: 5)
        let hits = spans.filter { $0["cistern.result"] == "hit" }
        #expect(hits.count == 3 && Set(spans.map(\.id)).count == 5 && spans.allSatisfy { $0.trace == Self.trace })
        #expect(hits.allSatisfy { $0.parent == Self.caller && $0["cistern.age"] == "0" && $0.name == "GET" })
        #expect(try play.metric("cistern_repeated_hits_total") ?? 0 >= 8)
        #expect(play.origin.requests.count == 1)
        #expect(try play.waitFor("cistern_trace_spans_exported_total", 5))
        #expect(collector.spans.count == 5 && collector.problems == [])
    }

    @Test(
        "without traceparent the sampling ratio decides whether a trace starts; otherwise none is sent to the upstream")
    func begun() throws {
        let collector = SpanCollector()
        let play = try Self.play(to: collector) { $0.tracing.samplePerMillion = 1_000_000 }
        _ = try play.get("/a", [("tracestate", "a=1")])
        let spans = collector.wait(for: 2)
        let (server, client) = (try Self.one(spans, \.isServer), try Self.one(spans, \.isClient))
        #expect(server.parent == nil && client.trace == server.trace && client.parent == server.id)
        let asked = play.origin.requests
        #expect(asked[0]["traceparent"] == "00-\(server.trace)-\(client.id)-03" && asked[0]["tracestate"] == nil)
        let page = try play.get("/metrics", [("Accept", "application/openmetrics-text")]).text
        #expect(page.contains("trace_id=\"\(server.trace)\""))
        #expect(try play.accessLines().first?["trace_id"]?.string == server.trace)

        let other = try Self.play(to: SpanCollector())
        _ = try other.get("/a")
        _ = try other.get("/b", Self.parent("00") + [("tracestate", "a=1")])
        #expect(other.origin.requests.map { $0["traceparent"] } == [nil, Self.parent("00")[0].1])
        #expect(other.origin.requests[1]["tracestate"] == "a=1")
    }

    @Test("a malformed traceparent is replaced by a new trace without tracestate")
    func malformed() throws {
        for share in [0, 1_000_000] {
            let collector = SpanCollector()
            let play = try Self.play(to: collector) { $0.tracing.samplePerMillion = share }
            _ = try play.get("/a", [("traceparent", "00-xyz-1-01"), ("tracestate", "a=1")])
            let asked = try #require(play.origin.requests.first)
            let sent = try #require(asked["traceparent"])
            #expect(asked["tracestate"] == nil && sent.hasSuffix(share == 0 ? "-02" : "-03") && sent.utf8.count == 55)
            if share > 0 {
                let server = try Self.one(collector.wait(for: 2), \.isServer)
                #expect(sent.contains(server.trace) && server.parent == nil)
            }
        }
    }

    @Test("with tracing off, trace fields are forwarded unchanged", arguments: ["00-xyz-1-01", "00-\(trace)-\(caller)-01"])
    func off(value: String) throws {
        let play = try ProxyPlay(Self.origin())
        _ = try play.get("/a", [("traceparent", value), ("tracestate", "a=1")])
        let asked = try #require(play.origin.requests.first)
        #expect(asked["traceparent"] == value && asked["tracestate"] == "a=1")
        #expect(try !play.get("/metrics").text.contains("cistern_trace_"))
    }

    @Test("the client's sampling decision is followed up to the limit; beyond it traceparent is forwarded unchanged")
    func limited() throws {
        let collector = SpanCollector()
        let play = try Self.play(to: collector) { $0.tracing.limit = 2 }
        for target in ["/a", "/b", "/c", "/d"] { _ = try play.get(target, Self.parent()) }
        #expect(try play.metric("cistern_trace_requests_over_limit_total") == 2)
        let sent = play.origin.requests.map { $0["traceparent"] }
        #expect(sent.suffix(2) == [Self.parent()[0].1, Self.parent()[0].1] && !sent.prefix(2).contains(Self.parent()[0].1))
        play.time.advance(by: .seconds(1))
        _ = try play.get("/e", Self.parent())
        #expect(collector.wait(for: 6).filter(\.isServer).map { $0["url.path"] } == ["/a", "/b", "/e"])
    }

    @Test("a follower links to the span of the leader's fetch in another trace")
    func collapsed() throws {
        let (collector, gate) = (SpanCollector(), Gate())
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", ["Cache-Control: max-age=60"])] }
        let play = try Self.play(origin, to: collector)
        func ask(_ trace: String) throws -> TestClient {
            return try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\ntraceparent: \(Self.parent("01", trace)[0].1)\r\n\r\n")
        }
        let leader = try ask(Self.trace)
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        let other = String(Self.trace.reversed())
        let follower = try ask(other)
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(leader.readResponse()?.status == 200 && follower.readResponse()?.status == 200)
        let spans = collector.wait(for: 3)
        let first = try Self.one(spans) { $0.isServer && $0.trace == Self.trace }
        let second = try Self.one(spans) { $0.isServer && $0.trace == other }
        #expect(second["cistern.result"] == "collapsed" && second.links.count == 1 && first.links.isEmpty)
        #expect(second.links.first?["traceId"]?.string == Self.trace && second.links.first?["spanId"]?.string == first.id)
        let fetch = try Self.one(spans, \.isClient)
        #expect(fetch.parent == first.id && origin.requests.map { $0["traceparent"] } == ["00-\(Self.trace)-\(fetch.id)-01"])
        #expect(collector.problems == [])
    }

    @Test("a background fetch carries the trace context of the request that caused it and links to it")
    func behind() throws {
        let collector = SpanCollector()
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=10, stale-while-revalidate=90"])] }
        let play = try Self.play(origin, to: collector)
        _ = try play.get("/a")
        play.time.advance(by: .seconds(15))
        _ = try play.get("/a", Self.parent())
        let spans = collector.wait(for: 2)
        let (server, fetch) = (try Self.one(spans, \.isServer), try Self.one(spans, \.isClient))
        #expect(server["cistern.result"] == "stale" && server["cistern.age"] == "15")
        #expect(fetch.parent == server.id && fetch["cistern.background"] == "stale_while_revalidate")
        #expect(fetch.links.first?["spanId"]?.string == server.id && fetch.links.first?["traceId"]?.string == Self.trace)
        #expect(origin.requests.map { $0["traceparent"] } == [nil, "00-\(Self.trace)-\(fetch.id)-01"])
    }

    @Test("in an outage the fetch span has the error, and the request span the rescue with its age")
    func outage() throws {
        let collector = SpanCollector()
        let play = try Self.play(to: collector)
        _ = try play.get("/a")
        play.origin.down()
        play.time.advance(by: .seconds(100))
        _ = try play.get("/a", Self.parent())
        let server = try #require(collector.waitForServer { $0["url.path"] == "/a" })
        let fetch = try Self.one(collector.spans) { $0.isClient && $0.parent == server.id && $0["cistern.background"] == nil }
        #expect(server["cistern.result"] == "rescued" && server["cistern.age"] == "100" && !server.isFailed)
        let reason = try #require(server["cistern.reason"])
        #expect(fetch.isFailed && fetch["error.type"] == reason && fetch["http.response.status_code"] == nil)
        #expect(try play.get("/none", Self.parent()).status == 502)
        let failed = try #require(collector.waitForServer { $0["url.path"] == "/none" })
        #expect(failed.isFailed && failed["error.type"] != nil && failed["cistern.result"] == "error")
    }

    @Test("the first recheck belongs to the request's trace, later ones to none, so traces stay bounded in an outage")
    func rechecks() throws {
        let collector = SpanCollector()
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try Self.play(origin, to: collector) { settings in
            settings.forwarding.requestID = .send
        }
        _ = try play.get("/a")
        origin.react { _ in [.json("{}", status: "503 No")] }
        _ = try play.get("/a")
        _ = try play.get("/a", Self.parent() + [("X-Request-Id", "alice")])
        for count in 4...6 {
            // A check that has not ended delays the next one.
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            play.time.advance(by: .seconds(1))
            #expect(origin.waitForRequests(count))
        }
        let looks = origin.requests.dropFirst(3)
        #expect(looks.map { $0["traceparent"]?.contains(Self.trace) } == [true, nil, nil])
        #expect(looks.map { $0["x-request-id"] } == ["alice", nil, nil])
        #expect(collector.wait(for: 3).count { $0.isClient } == 2)
    }

    @Test("a write and a disconnected client each produce spans that record it", .clientProtocol(.clear))
    func writes() throws {
        let (collector, gate) = (SpanCollector(), Gate())
        let origin = ScriptedOrigin { request in
            request.method == "POST" ? [.json("1")] : [.open(gate), .hang]
        }
        let play = try Self.play(origin, to: collector)
        _ = try play.request("POST", "/a", Self.parent(), content: "x")
        let write = collector.wait(for: 2)
        #expect(write.allSatisfy { $0["http.request.method"] == "POST" && !$0.isFailed })
        #expect(try Self.one(write, \.isServer)["cistern.result"] == "bypass")
        var client: TestClient? = try play.client()
        client?.send("GET /b HTTP/1.1\r\nHost: a\r\nCache-Control: no-store\r\ntraceparent: \(Self.parent()[0].1)\r\n\r\n")
        gate.pass()
        client?.endsWithReset()
        client = nil
        let left = try #require(collector.waitForServer { $0["url.path"] == "/b" })
        #expect(left["http.response.status_code"] == "499")
        play.stop()
        #expect(collector.problems == [])
    }
}
