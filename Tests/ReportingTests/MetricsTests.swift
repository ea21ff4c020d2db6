// Tests of the metrics of requests, routes and upstreams, and that all metrics are documented.

import Addresses
import Administration
import CachePolicy
import Downstream
import Forwarding
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

@Suite("Metrics", .play)
struct MetricsTests {
    private static let content = "{\"a\":\"0123456789\"}"

    /// An origin that responds according to the target.
    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            switch request.target {
            case "/users/broken": [.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")]
            case "/users/none": [.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")]
            case "/users/secret": [.json(content, ["Cache-Control: no-store"])]
            default: [.json(content, ["Cache-Control: max-age=60"])]
            }
        }
    }

    private static func routes(_ settings: inout ProxySettings) {
        settings.routes = [("users", "/users/**"), ("orders", "/orders/*")].map { name, pattern in
            var route = Route()
            (route.name, route.pattern) = (name, RoutePattern(pattern))
            return route
        }
    }

    private static func openMetrics(_ play: ProxyPlay) throws -> String {
        try play.get("/metrics", [("Accept", "application/openmetrics-text")]).text
    }

    // MARK: The upstream

    @Test("upstream responses are counted by status and bytes, whichever client receives them", .upstreams)
    func responses() throws {
        let play = try ProxyPlay(Self.origin())
        for target in ["/users/broken", "/users/broken", "/users/none", "/a", "/a", "/a"] { _ = try play.get(target) }
        #expect(try play.metric(#"cistern_upstream_responses_total{status_class="5xx"}"#) == 2)
        #expect(try play.metric(#"cistern_upstream_responses_total{status_class="4xx"}"#) == 1)
        #expect(try play.metric(#"cistern_upstream_responses_total{status_class="2xx"}"#) == 1)
        #expect(try play.metric(#"cistern_upstream_responses_total{status_class="1xx"}"#) == 0)
        #expect(try play.metric("cistern_upstream_response_bytes_total") == Double(Self.content.utf8.count))
        #expect(try play.metric("cistern_upstream_first_byte_seconds_count") == 4)
        #expect(try play.metric("cistern_upstream_connect_seconds_count") == play.metric("cistern_upstream_connections_total"))
        #expect(try play.metric("cistern_upstream_tls_seconds_count") == 0)
    }

    @Test("each of several APIs has its own counters, which continue after a reload")
    func severalAPIs() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            var apis = [settings, settings]
            (apis[0].apiName, apis[1].apiName) = ("users", "orders")
            apis[0].scope.path = Array("/users".utf8)
            Self.routes(&apis[0])
            settings.apis = apis
        }
        for target in ["/users/broken", "/users/1", "/orders/1"] { _ = try play.get(target) }
        #expect(play.reload { $0.settings.apis[1].forwarding.name = "other" }?.label == "applied")
        _ = try play.get("/orders/2")
        #expect(try play.metric(#"cistern_upstream_responses_total{api="users",status_class="5xx"}"#) == 1)
        #expect(try play.metric(#"cistern_upstream_responses_total{api="users",status_class="2xx"}"#) == 1)
        #expect(try play.metric(#"cistern_upstream_responses_total{api="orders",status_class="2xx"}"#) == 2)
        #expect(try play.metric(#"cistern_upstream_first_byte_seconds_count{api="orders"}"#) == 2)
        #expect(try play.metric(#"cistern_route_requests_total{route="users/users",result="miss",status_class="2xx"}"#) == 1)
        #expect(try !play.get("/metrics").text.contains("route=\"orders/"))
    }

    @Test("TLS time is reported separately from connection time")
    func securing() throws {
        let certificates = try TestCertificates()
        var setup = WebServer.Setup()
        (setup.listens, setup.certificate) = ("ssl", try certificates.make("server"))
        let server = try WebServer(setup)
        let play = try ProxyPlay(Self.origin()) { settings in
            settings.upstream = UpstreamSettings(host: "127.0.0.1", port: server.port)
            settings.upstream.isTLS = true
            settings.upstream.caFile = certificates.authority
        }
        #expect(try play.get("/a").status == 200)
        #expect(try play.metric("cistern_upstream_tls_seconds_count") == 1)
        let page = try play.get("/metrics").text
        let connecting = try #require(Self.value("cistern_upstream_connect_seconds_sum", in: page))
        let securing = try #require(Self.value("cistern_upstream_tls_seconds_sum", in: page))
        #expect(connecting > 0 && securing > 0)
    }

    private static func value(_ name: String, in page: String) -> Double? {
        page.split(separator: "\n").first { $0.hasPrefix(name + " ") }.flatMap { Double($0.dropFirst(name.utf8.count + 1)) }
    }

    // MARK: Clients

    @Test("requests are in flight until their response is sent; the metrics request itself is not counted")
    func inFlight() throws {
        let (asked, gate) = (Gate(), Gate())
        let play = try ProxyPlay(ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}")] }) {
            $0.listening.listeners[0].takesClearHTTP2 = true
        }
        #expect(try play.metric("cistern_requests_in_flight") == 0)
        let client = try play.client(getting: "/a")
        asked.pass()
        #expect(try play.metric("cistern_requests_in_flight") == 1)
        let other = try play.http2Client()
        let stream = try #require(other.begin("GET", "/b"))
        #expect(try play.waitFor("cistern_requests_in_flight", 2))
        other.reset(stream)
        #expect(try play.waitFor("cistern_requests_in_flight", 1))
        gate.open()
        #expect(client.readResponse()?.status == 200)
        #expect(try play.waitFor("cistern_requests_in_flight", 0))
    }

    @Test("a request is no longer in flight after its client disconnects")
    func left() throws {
        let asked = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.open(asked), .hang] })
        do {
            let client = try play.client(getting: "/slow")
            asked.pass()
            #expect(try play.metric("cistern_requests_in_flight") == 1)
            client.endsWithReset()
        }
        #expect(try play.waitFor("cistern_requests_in_flight", 0))
    }

    @Test("saved bytes are counted by result, and the oldest served age is reported for five minutes")
    func saved() throws {
        let play = try ProxyPlay(Self.origin())
        let bytes = Double(Self.content.utf8.count)
        for _ in 0..<3 { _ = try play.get("/a") }
        #expect(try play.metric(#"cistern_saved_bytes_total{result="hit"}"#) == 2 * bytes)
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="hit"}"#) == 0)
        play.time.advance(by: .seconds(50))
        _ = try play.get("/a")
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="hit"}"#) == 50)
        play.origin.down()
        play.time.advance(by: .seconds(1_000))
        #expect(try play.get("/a").status == 200)
        #expect(try play.metric(#"cistern_saved_bytes_total{result="rescued"}"#) == bytes)
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="rescued"}"#) == 1_050)
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="hit"}"#) == 0)
        play.time.advance(by: .seconds(270))
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="rescued"}"#) == 1_050)
        play.time.advance(by: .seconds(70))
        #expect(try play.metric(#"cistern_served_age_oldest_seconds{result="rescued"}"#) == 0)
    }

    // MARK: Routes

    @Test("each route has its own counters, including repeated hits, and so do paths without a route", .clientProtocols)
    func ofRoutes() throws {
        let play = try ProxyPlay(Self.origin(), Self.routes)
        func count(_ labels: String) throws -> Double? { try play.metric("cistern_route_requests_total{\(labels)}") }
        for _ in 0..<6 { _ = try play.get("/users/1") }
        #expect(try play.metric("cistern_repeated_hits_total") ?? 0 > 0)
        for target in ["/users/secret", "/users/broken", "/orders/1", "/orders/1?x=1", "/orders/1/2", "/other"] { _ = try play.get(target) }
        #expect(try count(#"route="users",result="hit",status_class="2xx""#) == 5)
        #expect(try count(#"route="users",result="miss",status_class="2xx""#) == 2)
        #expect(try count(#"route="orders",result="miss",status_class="2xx""#) == 2)
        #expect(try count(#"route="*",result="miss",status_class="2xx""#) == 2)
        #expect(try play.metric(#"cistern_route_request_duration_seconds_count{route="users"}"#) == 8)
        #expect(try play.metric(#"cistern_route_not_stored_total{route="users",reason="no_store"}"#) == 1)
        play.origin.down()
        play.time.advance(by: .seconds(100))
        #expect(try play.get("/users/1").status == 200)
        #expect(try play.metric(#"cistern_route_rescued_requests_total{route="users",cause="connection_refused"}"#) == 1)
    }

    @Test("route counters continue after a reload, also if the routes are reordered")
    func reloadedRoutes() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            settings.shards = 2
            Self.routes(&settings)
        }
        func count(_ route: String, _ result: String) throws -> Double? {
            try play.metric("cistern_route_requests_total{route=\"\(route)\",result=\"\(result)\",status_class=\"2xx\"}")
        }
        for target in ["/users/1", "/orders/1"] { _ = try play.get(target) }
        #expect(play.reload { $0.settings.routes.reverse() }?.label == "applied")
        for target in ["/users/1", "/orders/1", "/orders/1"] { _ = try play.get(target) }
        #expect(try count("users", "miss") == 1)
        #expect(try count("users", "hit") == 1)
        #expect(try count("orders", "miss") == 1)
        #expect(try count("orders", "hit") == 2)
    }

    @Test("without routes there are no route metrics")
    func noRoutes() throws {
        let play = try ProxyPlay(Self.origin())
        _ = try play.get("/users/1")
        #expect(try !play.get("/metrics").text.contains("cistern_route_requests"))
    }

    // MARK: Traces

    @Test("OpenMetrics output contains exemplars of sampled traces only", .clientProtocols)
    func exemplars() throws {
        let play = try ProxyPlay(Self.origin(), Self.routes)
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        func ask(_ value: String) throws { _ = try play.get("/users/1", [("traceparent", value)]) }
        try ask("00-\(trace)-00f067aa0ba902b7-00")
        try ask("00-\(trace)-00f067aa0ba902b7-0x")
        #expect(try !Self.openMetrics(play).contains("trace_id"))
        try ask("00-\(trace)-00f067aa0ba902b7-01")
        let page = try Self.openMetrics(play)
        let lines = page.split(separator: "\n").filter { $0.contains(" # {trace_id=\"\(trace)\"} ") }
        #expect(lines.count == 2)
        #expect(lines[0].hasPrefix("cistern_request_duration_seconds_bucket{result=\"hit\",le="))
        #expect(lines[1].hasPrefix("cistern_route_request_duration_seconds_bucket{route=\"users\",le="))
        #expect(try !play.get("/metrics").text.contains("trace_id"))
    }

    @Test("requests that differ only in request ID or trace context share a repeated hit", .clientProtocols)
    func sameButForNames() throws {
        let play = try ProxyPlay(Self.origin())
        for number in 0..<6 {
            let digits = "\(number)"
            let fields = [
                ("X-Request-Id", "id-\(digits)"), ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e473\(digits)-00f067aa0ba902b7-00"),
                ("X-Correlation-ID", digits), ("X-Amzn-Trace-Id", "Root=\(digits)"), ("b3", digits), ("baggage", "a=\(digits)"),
            ]
            _ = try play.get("/a", fields)
        }
        #expect(try play.metric("cistern_repeated_hits_total") ?? 0 >= 3)
        #expect(play.origin.requests.count == 1)

        let varying = try ProxyPlay(
            ScriptedOrigin { request in
                [.json("\"\(request["X-Request-Id"] ?? "")\"", ["Cache-Control: max-age=60", "Vary: X-Request-Id"])]
            })
        for number in 0..<12 { #expect(try varying.get("/a", [("X-Request-Id", "\(number % 3)")]).text == "\"\(number % 3)\"") }
        #expect(varying.origin.requests.count == 3)
    }
}
