// Tests of streamed responses: forwarded piece by piece, never stored, limited by the pause timeout and the share of connections only.

import CachePolicy
import Dispatch
import Downstream
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

private let open = "cistern_streams"

@Suite("Streaming responses", .play, .clientProtocols)
struct StreamTests {
    private static let events = "text/event-stream"

    private static func begin(_ type: String, _ pieces: String...) -> OriginStep {
        .send("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces.map(chunk).joined())
    }

    private static func chunk(_ text: String) -> String { String(text.utf8.count, radix: 16) + "\r\n" + text + "\r\n" }

    private static let end = OriginStep.send("0\r\n\r\n")

    /// Sends one event, waits for the gate, and ends.
    private func gated(_ gate: Gate, type: String = events) -> ScriptedOrigin {
        ScriptedOrigin { request in
            guard request.target.hasPrefix("/stream") else { return [.json("\"\(request.target)\"")] }
            return [Self.begin(type, "first\n"), .pass(gate), .send(Self.chunk("last\n")), Self.end]
        }
    }

    private func start(_ play: ProxyPlay, _ target: String = "/stream", method: String = "GET", _ lines: String = "") throws -> TestClient {
        return try play.client(sending: "\(method) \(target) HTTP/1.1\r\nHost: a\r\n\(lines)\r\n")
    }

    @Test(
        "each chunk is forwarded as it arrives, also for storable types",
        arguments: [
            (events, false), ("application/x-ndjson", false), ("application/jsonl", false), ("application/json-seq", false),
            ("application/stream+json", false), ("application/json;stream=watch", false),
            ("application/vnd.a+json; v=1; Stream=true", false),
            ("application/connect+json", false), ("application/grpc-web+json", false), ("application/json\r\nX-Accel-Buffering: no", false),
            ("application/json", true), ("application/vnd.items+json", true),
        ])
    func atOnce(type: String, onRoute: Bool) throws {
        let gate = Gate()
        let play = try ProxyPlay(gated(gate, type: type)) { settings in
            settings.policy.contentTypes = ContentTypes(["*"])
            guard onRoute else { return }
            var route = Route()
            (route.name, route.pattern, route.streams) = ("streams", RoutePattern("/stream/**"), true)
            settings.routes = [route]
        }
        let client = try start(play, "/stream/1")
        // The origin waits at the gate, so only the first piece has arrived.
        #expect(client.hasInput(within: 10_000))
        #expect(try play.metric(open) == 1)
        gate.open()
        let response = client.readResponse()
        #expect(response?.text == "first\nlast\n" && response?.isComplete == true)
        // The stream was not stored.
        #expect(try play.get("/stream/1").text == "first\nlast\n")
        #expect(play.origin.requests.count == 2)
        #expect(try play.waitFor(open, 0))
        #expect(try play.metric("cistern_streams_begun_total") == 2)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("stream") == true } == true)
    }

    @Test("a write may also receive a stream, and is sent once")
    func write() throws {
        let gate = Gate()
        let play = try ProxyPlay(gated(gate))
        let client = try start(play, method: "POST", "Content-Length: 0\r\n")
        #expect(try play.waitFor(open, 1))
        gate.open()
        #expect(client.readResponse()?.text == "first\nlast\n")
        #expect(play.origin.requests.count == 1)
    }

    @Test("concurrent requests for a stream are not collapsed, also if its head is slow")
    func alone() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), Self.begin(Self.events, "1"), Self.end] })
        let clients = try (0..<4).map { _ in try start(play, "/stream", "Accept: text/event-stream\r\n") }
        #expect(play.origin.waitForRequests(4))
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "1") }
    }

    @Test("a stream outlives other timeouts and ends by the stream timeout, which does not count as an upstream failure")
    func pauses() throws {
        let gate = Gate()
        let play = try ProxyPlay(gated(gate)) { settings in
            settings.upstream.totalTimeout = .seconds(60)
            settings.upstream.betweenBytesTimeout = .seconds(5)
            settings.upstream.streamTimeout = .seconds(300)
            settings.upstream.failure.threshold = 1
        }
        let client = try start(play)
        #expect(try play.waitFor(open, 1))
        for _ in 0..<4 {
            play.time.advance(by: .seconds(70))
            #expect(try play.get("/other").status == 200)
        }
        #expect(try play.metric(open) == 1)
        play.time.advance(by: .seconds(25))
        #expect(try play.waitFor(open, 0))
        #expect(client.readResponse()?.isComplete == false)
        let upstream = JSONValue(try play.admin("GET", "/-/upstream").content)
        #expect(upstream?["scopes"]?.array?.isEmpty ?? true, "\(upstream as Any)")
        // The next request reaches the upstream again.
        gate.open()
        #expect(try play.get("/stream").status == 200)
    }

    @Test("a long transfer outlives the total timeout while it progresses: a download, and an upload", arguments: ["GET", "POST"])
    func long(method: String) throws {
        let gate = Gate()
        let content = String(repeating: "x", count: 1 << 20)
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: \(content.utf8.count)\r\n\r\n"
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.json("\(request.content.count)")] }
            return [.send(head + "x"), .pass(gate), .send(String(content.dropFirst()))]
        }
        let play = try ProxyPlay(origin) { settings in
            settings.upstream.totalTimeout = .seconds(60)
            settings.upstream.betweenBytesTimeout = .seconds(1_000)
            settings.downstream.contentTimeout = .seconds(1_000)
        }
        let client = try play.client()
        let isUpload = method == "POST"
        client.send("\(method) /a HTTP/1.1\r\nHost: a\r\n" + (isUpload ? "Content-Length: \(content.utf8.count)\r\n\r\n" : "\r\n"))
        if isUpload { client.send(String(content.dropFirst())) }
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        if !isUpload { #expect(client.hasInput(within: 10_000)) }
        for _ in 0..<3 {
            play.time.advance(by: .seconds(50))
            #expect(try play.get("/healthz").status == 200)
        }
        gate.open()
        if isUpload { client.send("x") }
        let response = client.readResponse()
        #expect(response?.status == 200 && response?.isComplete == true)
        #expect(response?.text == (isUpload ? "\(content.utf8.count)" : content))
    }

    @Test("streams of one client keep no other client from its stream")
    func streamsOfOneClient() throws {
        let gate = Gate()
        let play = try ProxyPlay(gated(gate)) { $0.upstream.maximumConnections = 8 }
        let start = { (target: String, source: String) in
            return try play.client(from: source, sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        }
        let streams = try (0..<4).map { try start("/stream/\($0)/x", "127.0.0.9") }
        #expect(try play.waitFor(open, 4))
        let other = try start("/stream/4/x", "127.0.0.10")
        #expect(try play.waitFor(open, 5))
        gate.open()
        for client in streams + [other] { #expect(client.readResponse()?.isComplete == true) }
    }

    @Test("streams of one client use at most half of the connections; another gets 503 and other requests continue")
    func half() throws {
        let gate = Gate()
        let play = try ProxyPlay(gated(gate)) { $0.upstream.maximumConnections = 4 }
        let clients = try (0..<2).map { try start(play, "/stream/\($0)/x") }
        #expect(try play.waitFor(open, 2))
        let refused = try play.get("/stream/2/x", [("Accept", "text/plain")])
        #expect(refused.status == 503 && refused["Retry-After"] != nil && refused.text.contains("the limit on open streams is reached"))
        #expect(refused["Proxy-Status"]?.contains("connection_limit_reached") == true)
        #expect(try play.get("/other").status == 200)
        #expect(try play.metric("cistern_streams_turned_away_total") == 1)
        gate.open()
        for client in clients { #expect(client.readResponse()?.isComplete == true) }
        #expect(try play.waitFor(open, 0))
        #expect(try play.get("/stream/2/x").status == 200)
    }

    @Test("a stream in place of a stored response is forwarded without replacing it")
    func streamWithStoredResponse() throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["ETag: \"1\""])] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/stream").text == "1")
        origin.react { _ in [Self.begin(Self.events, "event"), Self.end] }
        #expect(try play.get("/stream").text == "event")
        origin.down()
        #expect(try play.get("/stream").text == "1")
    }

    @Test("during shutdown other responses finish first; a stream may end in time or is cut")
    func drain() throws {
        let (gates, asked) = (["/stream/ends": Gate(), "/stream/goes-on": Gate()], Gate())
        let other = Gate()
        let origin = ScriptedOrigin { request in
            guard let gate = gates[request.target] else { return [.open(asked), .pass(other), .json("1")] }
            return [Self.begin(Self.events, "first\n"), .pass(gate), .send(Self.chunk("last\n")), Self.end]
        }
        let play = try ProxyPlay(origin)
        let (ending, lasting, plain) = (try start(play, "/stream/ends"), try start(play, "/stream/goes-on"), try start(play, "/other"))
        #expect(try play.waitFor(open, 2))
        asked.pass()
        let idle = try play.client()
        #expect(idle.get("/healthz")?.status == 200)
        let stopped = DispatchSemaphore(value: 0)
        let server = StoppedPlay(play)
        TestThread.start {
            server.play.stop(deadline: .seconds(10))
            stopped.signal()
        }
        // The drain's deadline counts from here.
        while let response = idle.get("/healthz"), response["Connection"] != "close" {}
        other.open()
        #expect(plain.readResponse()?.text == "1")
        gates["/stream/ends"]?.open()
        let whole = ending.readResponse()
        #expect(whole?.isComplete == true && whole?.text == "first\nlast\n")
        #expect(stopped.wait(timeout: .now()) == .timedOut)
        play.time.advance(by: .seconds(11))
        #expect(stopped.wait(timeout: .now() + 20) == .success)
        #expect(lasting.readResponse()?.isComplete == false)
        gates["/stream/goes-on"]?.open()
    }
}

/// `@unchecked Sendable` because the test does not touch the play's server until the thread that stops it has ended.
final class StoppedPlay: @unchecked Sendable {
    let play: ProxyPlay
    init(_ play: ProxyPlay) { self.play = play }
}
