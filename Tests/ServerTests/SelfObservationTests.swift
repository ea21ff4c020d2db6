// Tests of Cistern's metrics about itself: limits and their use, clocks, stalls and build. Each value changes in a test. Also tests
// /metrics with gzip.

import Addresses
import Administration
import ContentCodings
import Downstream
import Glibc
import HTTPCore
import Reactor
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

/// A clock that stands still. After `stallOnce`, one reading takes several milliseconds, so the loop that reads it stalls.
private final class SlowClock: TimeSource {
    private let time = ManualTime()
    /// Reads until a read is slow. The loop's first read in a batch comes before the batch is timed.
    private let readsLeft = Mutex(0)
    static let microseconds: Int64 = 20_000

    func stallOnce() { readsLeft.withLock { $0 = 2 } }

    var wallMilliseconds: Int64 { time.wallMilliseconds }
    var monotonicMilliseconds: Int64 {
        let isSlow = readsLeft.withLock { left in
            guard left > 0 else { return false }
            left -= 1
            return left == 0
        }
        if isSlow {
            let end = SystemTime.monotonicMicroseconds + Self.microseconds
            while SystemTime.monotonicMicroseconds < end {}
        }
        return time.monotonicMilliseconds
    }
    func wait(until monotonic: Int64) -> Int64 { time.wait(until: monotonic) }
    var isSetByTests: Bool { true }
    func whenMoved(_ wake: @escaping @Sendable () -> Void) { time.whenMoved(wake) }
}

@Suite("Self-observation", .play)
struct SelfObservationTests {
    // MARK: Limits

    private static func ratio(_ play: ProxyPlay, _ limit: String) throws -> Double? {
        try play.metric("cistern_limit_used_ratio{limit=\"\(limit)\"}")
    }

    @Test("upstream connections, requests and waiters are shown with their limits, also after a reload", .upstreams)
    func upstreamConnections() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("{}", ["Cache-Control: no-store"])] }) { settings in
            settings.upstream.maximumConnections = 4
            settings.upstream.queueLimit = 4
        }
        #expect(try play.metric("cistern_upstream_open_connections") == 0)
        #expect(try play.metric("cistern_upstream_connections_limit") == 4)
        #expect(try Self.ratio(play, "upstream.connections") == 0)
        let clients = try (0..<3).map { number in
            return try play.client(getting: "/\(number)")
        }
        // One client may use half of the connections.
        #expect(try play.waitFor("cistern_upstream_waiting_requests", 1))
        #expect(try Self.ratio(play, "upstream.connections") == 0.5)
        #expect(try Self.ratio(play, "upstream.queue") == 0.25)
        #expect(try play.metric("cistern_upstream_open_connections") ?? 0 >= 1)
        gate.open()
        for client in clients { #expect(client.readResponse()?.status == 200) }
        #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"upstream.connections\"}", 0))
        #expect(try Self.ratio(play, "upstream.queue") == 0)
        #expect(play.reload { $0.settings.upstream.maximumConnections = 5 }?.label == "applied")
        // The former connections end at a timer, which the shard may set after any advance.
        #expect(try play.waitFor("cistern_upstream_connections_limit", 5, advancing: .seconds(1)))
        #expect(try play.waitFor("cistern_upstream_open_connections", 0, advancing: .seconds(1)))
    }

    @Test("limits are summed over shards and addresses; the ratio is that of the fullest one")
    func shards() throws {
        let (asked, gate) = (Gate(), Gate())
        let play = try ProxyPlay(ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}")] }) { settings in
            settings.shards = 3
            settings.upstream.maximumConnections = 4
            settings.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: 1, basePath: "")]
        }
        #expect(try play.metric("cistern_upstream_connections_limit") == 3 * 4 * 2)
        let client = try play.client(getting: "/a")
        asked.pass()
        #expect(try Self.ratio(play, "upstream.connections") == 0.25)
        #expect(try play.metric("cistern_upstream_open_connections") == 1)
        gate.open()
        #expect(client.readResponse()?.status == 200)
    }

    @Test("client connections and descriptors are shown as ratios of their limits", .clientProtocols)
    func clients() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.downstream.maximumConnections = 8 }
        #expect(try Self.ratio(play, "limits.connections") == 0.125)
        let others = try (0..<3).map { _ in try play.client() }
        #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"limits.connections\"}", 0.5))
        withExtendedLifetime(others) {}
        let page = try play.get("/metrics").text
        let (open, limit) = (Self.value("process_open_fds", in: page), Self.value("process_max_fds", in: page))
        let ratio = try #require(Self.value("cistern_limit_used_ratio{limit=\"descriptors\"}", in: page))
        #expect(ratio > 0 && abs(ratio - (open ?? 0) / (limit ?? 0)) < 1e-6)
    }

    private static func value(_ name: String, in page: String) -> Double? {
        page.split(separator: "\n").first { $0.hasPrefix(name + " ") }.flatMap { Double($0.dropFirst(name.utf8.count + 1)) }
    }

    @Test("buffered request content is shown as a ratio of its budget, which a reload changes")
    func content() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { settings in
            settings.downstream.requestBufferBytes = 1_000
            settings.downstream.requestBuffersBytes = 4_000
        }
        #expect(try play.metric("cistern_request_content_limit_bytes") == 4_000)
        #expect(try Self.ratio(play, "request_content") == 0)
        let client = try play.client()
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 800\r\n\r\n" + String(repeating: "a", count: 400))
        #expect(try play.waitFor("cistern_request_content_held_bytes", 400))
        #expect(try Self.ratio(play, "request_content") == 0.1)
        #expect(play.reload { $0.settings.downstream.requestBuffersBytes = 8_000 }?.label == "applied")
        #expect(try Self.ratio(play, "request_content") == 0.05)
        client.send(String(repeating: "a", count: 400))
        #expect(client.readResponse()?.status == 200)
        #expect(try Self.ratio(play, "request_content") == 0)
    }

    @Test("unsent responses are shown as a ratio of their budget")
    func unsent() throws {
        let long = String(repeating: "a", count: 6 << 20)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer(long, type: "text/plain", ["Cache-Control: no-store"])] }) {
            $0.downstream.unsentLimitBytes = 64 << 20
        }
        #expect(try play.metric("cistern_unsent_limit_bytes") == Double(64 << 20))
        do {
            let client = try play.client(getting: "/a")
            #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"unsent_responses\"}", atLeast: 0.001))
            client.endsWithReset()
        }
        #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"unsent_responses\"}", 0))
    }

    @Test("running TLS handshakes are shown as a ratio of their limit")
    func handshakes() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clientProtocol: .tls) { $0.listening.tls.handshakeLimit = 10 }
        #expect(try Self.ratio(play, "handshakes") == 0)
        let half = try TestClient(port: play.port)
        half.send([0x16, 3, 1, 2, 0, 1])
        #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"handshakes\"}", 0.1))
    }

    @Test("background fetches are shown as a ratio of their limit")
    func background() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=1, stale-while-revalidate=60"])] }
        let play = try ProxyPlay(origin) { $0.background.limit = 4 }
        _ = try play.get("/a")
        origin.react { _ in [.open(asked), .pass(gate), .json("{}")] }
        play.time.advance(by: .seconds(10))
        _ = try play.get("/a")
        asked.pass()
        #expect(try Self.ratio(play, "background_fetches") == 0.25)
        gate.open()
        #expect(try play.waitFor("cistern_limit_used_ratio{limit=\"background_fetches\"}", 0))
    }

    // MARK: Clocks

    struct DateRow: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Seconds by which the Date field is ahead of the test's clock; nil for no Date field.
        let ahead: Int64?
        var fields: [String] = []
        /// nil if the metric has no sample.
        let expected: Double?
    }

    @Test(
        "the upstream's clock difference is computed from its Date field",
        .upstreams,
        arguments: [
            DateRow(testDescription: "no Date", ahead: nil, expected: nil),
            DateRow(testDescription: "the same second", ahead: 0, expected: 0),
            DateRow(testDescription: "ahead", ahead: 100, expected: 100),
            DateRow(testDescription: "an hour behind", ahead: -3_600, expected: -3_600),
            DateRow(testDescription: "a response generated earlier", ahead: -3_600, fields: ["Age: 3600"], expected: nil),
        ])
    func dates(_ row: DateRow) throws {
        let clock = ManualTime()
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                let date = row.ahead.map { HTTPDate.format(clock.wallMilliseconds / 1_000 + $0) }
                return [.json("{}", row.fields + (date.map { ["Date: " + String(decoding: $0, as: UTF8.self)] } ?? []))]
            }, clock: clock
        ) { $0.shards = 2 }
        for number in 0..<6 { #expect(try play.client().get("/\(number)")?.status == 200) }
        let shown = try play.metric("cistern_upstream_clock_skew_seconds")
        guard let expected = row.expected else {
            #expect(shown == nil)
            return
        }
        // Date has a resolution of a second, and a request takes some time.
        #expect(abs((shown ?? .infinity) - expected) < 5)
        #expect(expected != 0 || shown == 0)
        clock.advance(by: .seconds(420))
        #expect(try play.metric("cistern_upstream_clock_skew_seconds") == nil)
    }

    @Test("with several APIs each has its own clock difference")
    func datesOfAPIs() throws {
        let clock = ManualTime()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let ahead: Int64 = request.target.hasPrefix("/users") ? 500 : 0
                let date = HTTPDate.format(clock.wallMilliseconds / 1_000 + ahead)
                return [.json("{}", ["Date: " + String(decoding: date, as: UTF8.self)])]
            }, clock: clock
        ) { settings in
            var apis = [settings, settings]
            (apis[0].apiName, apis[1].apiName) = ("users", "orders")
            apis[0].scope.path = Array("/users".utf8)
            settings.apis = apis
        }
        for target in ["/users/1", "/orders/1"] { _ = try play.get(target) }
        #expect(try play.metric(#"cistern_upstream_clock_skew_seconds{api="users"}"#) ?? 0 > 495)
        #expect(try play.metric(#"cistern_upstream_clock_skew_seconds{api="orders"}"#) == 0)
    }

    @Test("steps of the machine's clock are counted by direction")
    func steps() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        func steps(_ direction: String) throws -> Double? { try play.metric("cistern_clock_steps_total{direction=\"\(direction)\"}") }
        play.time.advance(by: .seconds(6))
        #expect(try steps("forward") == 0 && steps("back") == 0)
        for (step, forward, back) in [(-3_600, 0, 1), (60, 1, 1), (0, 1, 1), (2, 2, 1)] {
            play.time.set(by: .seconds(step))
            play.time.advance(by: .seconds(6))
            #expect(try play.waitFor("cistern_clock_steps_total{direction=\"forward\"}", Double(forward)))
            #expect(try play.waitFor("cistern_clock_steps_total{direction=\"back\"}", Double(back)))
        }
        #expect(play.reload { $0.settings.records = 7 }?.label == "applied")
        #expect(try steps("forward") == 2 && steps("back") == 1)
    }

    // MARK: The loop and the program

    @Test("an event batch that blocks the loop is counted as a stall and is the longest wait")
    func stalls() throws {
        let clock = SlowClock()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clock: clock) { $0.shards = 1 }
        let before = try play.metric("cistern_loop_stalls_total{shard=\"0\"}") ?? 0
        // Another thread than the loop's may read the slow clock, and the loop's own clock is coarse.
        for _ in 0..<200 {
            clock.stallOnce()
            _ = try play.get("/a")
            let stalls = try play.metric("cistern_loop_stalls_total{shard=\"0\"}") ?? 0
            let longest = try play.metric("cistern_loop_longest_wait_seconds{shard=\"0\"}") ?? 0
            if stalls > before, longest >= Double(SlowClock.microseconds) * 0.5e-6 { return }
        }
        Issue.record("no batch of events was stalled")
    }

    @Test("cistern_build_info includes the library versions")
    func build() throws {
        let page = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }).get("/metrics").text
        let line = try #require(page.split(separator: "\n").first { $0.hasPrefix("cistern_build_info{") })
        let labels = line.dropFirst("cistern_build_info{".utf8.count).prefix { $0 != "}" }.split(separator: ",").map {
            $0.split(separator: "\"").map(String.init)
        }
        #expect(labels.map(\.first) == ["version=", "swift=", "libcurl=", "openssl="])
        for label in labels.dropFirst() { #expect(label.last?.split(separator: ".").count ?? 0 >= 2, "\(label)") }
        #expect(line.hasSuffix("} 1"))
    }
}

@Suite("Gzip of the metrics page (RFC 9110 §12.5.3)", .play, .clientProtocols)
struct CompressedMetricsTests {
    private static func decoded(_ response: TestResponse) -> String? {
        guard response["Content-Encoding"] == "gzip" else { return response["Content-Encoding"] == nil ? response.text : nil }
        return (try? ContentDecoder.decode(response.content, .gzip, limit: 16 << 20)).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "only clients that accept gzip by name receive it, and Vary is always present",
        arguments: [
            (nil, false), ("gzip", true), ("GZIP", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("gzip; q=0.000", false),
            ("identity", false), ("br, zstd", false), ("", false), ("*;q=0", false), ("gzip;q=0, *", false),
        ] as [(String?, Bool)])
    func negotiated(accepted: String?, isCoded: Bool) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        for accept in ["text/plain", "application/openmetrics-text"] {
            let fields = [("Accept", accept)] + (accepted.map { [("Accept-Encoding", $0)] } ?? [])
            let response = try play.get("/metrics", fields)
            #expect(response.status == 200 && (response["Content-Encoding"] == "gzip") == isCoded)
            #expect(response["Vary"] == "Accept, Accept-Encoding")
            #expect(response["Content-Length"] == "\(response.content.count)")
            let page = try #require(Self.decoded(response))
            #expect(page.contains("\ncistern_ready 1\n") && page.hasSuffix("# EOF\n") == (accept != "text/plain"))
            #expect(!isCoded || response.content.count * 3 < page.utf8.count)
        }
    }

    @Test("HEAD receives the fields without content")
    func head() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let response = try play.request("HEAD", "/metrics", [("Accept-Encoding", "gzip")])
        #expect(response.status == 200 && response["Content-Encoding"] == "gzip" && response.content.isEmpty)
        #expect(Int(response["Content-Length"] ?? "") ?? 0 > 1_000)
        #expect(try play.get("/healthz").text == "ok\n")
    }

    @Test("concurrent clients each receive the coding they accept, also on admin addresses")
    func many() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.shards = 2 }
        let clients = try (0..<20).map { number in
            let client = try number % 4 < 2 ? play.client() : TestClient(.unix(path: play.adminSocket))
            client.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\(number % 2 == 0 ? "Accept-Encoding: gzip\r\n" : "")\r\n")
            return client
        }
        for (number, client) in clients.enumerated() {
            let response = try #require(client.readResponse())
            #expect((response["Content-Encoding"] == "gzip") == (number % 2 == 0))
            #expect(Self.decoded(response)?.contains("\ncistern_ready 1\n") == true)
        }
    }
}
