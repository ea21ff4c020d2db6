// Tests of requests that wait for an upstream connection: the effect of slow requests on others, and clients that disconnect while they
// wait.

import Addresses
import Downstream
import Reactor
import TestSupport
import Testing
import Upstream

@testable import ReverseProxy

private let active = "cistern_upstream_active_requests"
private let waiting = "cistern_upstream_waiting_requests"
private let left = "cistern_upstream_left_queue_total"

@Suite("Waiting for an upstream connection", .play)
struct WaitingForConnectionTests {
    private func origin(_ gate: Gate) -> ScriptedOrigin {
        ScriptedOrigin { request in
            let isHeld = request.target.contains("/poll") || request.target == "/held"
            return (isHeld ? [.pass(gate)] : []) + [.json("\"\(request.method) \(request.target)\"", ["Cache-Control: no-store"])]
        }
    }

    private func send(_ play: ProxyPlay, _ target: String, method: String = "GET") throws -> TestClient {
        let client = try play.client()
        client.send("\(method) \(target) HTTP/1.1\r\nHost: a\r\n" + (method == "POST" ? "Content-Length: 1\r\n\r\n1" : "\r\n"))
        return client
    }

    /// A proxy with one upstream connection, which is in use.
    private func busyPlay(_ gate: Gate) throws -> (play: ProxyPlay, held: TestClient) {
        let play = try ProxyPlay(origin(gate)) { $0.upstream.maximumConnections = 1 }
        let held = try send(play, "/held")
        #expect(try play.waitFor(active, 1))
        return (play, held)
    }

    @Test("healthy long polls do not keep other requests out, and receive their responses", arguments: [true, false])
    func longPolls(hasMemory: Bool) throws {
        let gate = Gate()
        let play = try ProxyPlay(origin(gate)) { ($0.upstream.maximumConnections, $0.upstream.failure.isOn) = (12, hasMemory) }
        let polls = try (0..<40).map { try send(play, "/\($0 % 2 == 0 ? "a" : "b")/poll/\($0)") }
        #expect(try play.waitFor(active, 40))
        for number in 0..<50 { #expect(try play.get("/c\(number % 3)/\(number)").status == 200) }
        gate.open()
        for poll in polls { #expect(poll.readResponse()?.status == 200) }
        #expect(try play.waitFor(waiting, 0))
    }

    @Test("slow requests of one client keep no other client's requests for the same paths waiting", arguments: [false, true])
    func slowRequestsOfOneClient(throughProxy: Bool) throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in
            (request.target.hasSuffix("?slow") ? [.pass(gate)] : []) + [.json("\"\(request.target)\"", ["Cache-Control: max-age=60"])]
        }
        let trusted = NetworkList([try IPNetwork("127.0.0.1")])
        let play = try ProxyPlay(origin) {
            $0.upstream.maximumConnections = 8
            if throughProxy { $0.downstream.trustedProxies = trusted }
        }
        let send = { (target: String) in
            let client = try play.client(from: throughProxy ? nil : "127.0.0.9")
            client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n" + (throughProxy ? "X-Forwarded-For: 192.0.2.9\r\n\r\n" : "\r\n"))
            return client
        }
        let slow = try (0..<6).map { try send("/a/\($0)?slow") }
        #expect(try play.waitFor(waiting, 2))
        #expect(try play.get("/a/own").status == 200)
        // A target for which the slow client's request waits.
        let next = try send("/a/next")
        #expect(try play.waitFor(waiting, 3))
        #expect(try play.get("/a/next").status == 200)
        #expect(try play.metric(waiting) == 3 && play.metric("cistern_upstream_client_limited_total") == 3)
        gate.open()
        for client in slow + [next] { #expect(client.readResponse()?.status == 200) }
    }

    @Test("slow requests of one client in many directories leave connections and space in the queue for others")
    func slowRequestsInManyDirectories() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in
            (request.target.hasSuffix("/slow") ? [.pass(gate)] : []) + [.json("1", ["Cache-Control: no-store"])]
        }
        let play = try ProxyPlay(origin) { ($0.upstream.maximumConnections, $0.upstream.queueLimit) = (8, 16) }
        let slow = try (0..<30).map { number in
            let client = try play.client(from: "127.0.0.9")
            client.send("GET /v1/\(number)/slow HTTP/1.1\r\nHost: a\r\n\r\n")
            return client
        }
        #expect(try play.waitFor("cistern_upstream_turned_away_total", 16))
        #expect(try play.metric(active) == 14 && play.metric(waiting) == 8)
        for target in ["/v1/items", "/v1/3/slower", "/u"] { #expect(try play.get(target).status == 200) }
        #expect(try play.request("POST", "/v1/items", content: "1").status == 200)
        gate.open()
        #expect(slow.count { $0.readResponse()?.status == 200 } == 14)
    }

    @Test("uploads of several clients that send hardly anything end, the oldest first, while other uploads wait", .upstreams)
    func slowUploads() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) {
            $0.upstream.maximumConnections = 8
            $0.upstream.connectTimeout = .seconds(60)
            $0.downstream.requestBufferBytes = 0
        }
        let upload = { (address: String, number: Int) in
            let client = try play.client(from: address)
            client.send("POST /\(number)/a HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n")
            return client
        }
        // All clients' uploads hold six connections.
        let slow = try (0..<6).map { try upload("127.0.0.\(8 + $0 / 3)", $0) }
        #expect(try play.waitFor(active, 6))
        let steady = try upload("127.0.0.20", 6)
        #expect(try play.waitFor(waiting, 1))
        for client in slow[1...] { client.send(String(repeating: "1", count: 20_000)) }
        #expect(try play.waitFor("cistern_upstream_slow_given_up_total", 1, advancing: .seconds(1)))
        #expect(try play.waitFor(waiting, 0) && play.metric(active) == 6)
        steady.send(String(repeating: "1", count: 40_000))
        #expect(steady.readResponse()?.status == 200)
        #expect(slow[0].readResponse()?.status == 503)
        for client in slow[1...] {
            client.send(String(repeating: "1", count: 20_000))
            #expect(client.readResponse()?.status == 200)
        }
    }

    @Test("a half-closed client still gets its second response over the same connection")
    func halfClosedClient() throws {
        let (came, gate) = (Gate(), Gate())
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                (request.target == "/first" ? [.open(came), .pass(gate)] : [])
                    + [.json("\"\(request.target)\"", ["Cache-Control: no-store"])]
            })
        #expect(try play.get("/warm").status == 200)
        let client = try play.client(sending: "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        client.finishSending()
        came.pass()
        // The proxy has read the client's end by now.
        #expect(try play.get("/other").status == 200)
        gate.open()
        #expect(client.readResponse()?.text == "\"/first\"")
        #expect(client.readResponse()?.text == "\"/second\"")
        #expect(try play.metric(left) == 0)
    }

    @Test("a read whose client has disconnected leaves the queue at once", arguments: [false, true])
    func clientGone(byReset: Bool) throws {
        let gate = Gate()
        let (play, held) = try busyPlay(gate)
        do {
            let client = try send(play, "/left")
            #expect(try play.waitFor(waiting, 1))
            if byReset { client.endsWithReset() }
        }
        #expect(try play.waitFor(active, 1))
        #expect(try play.metric(left) == 1 && play.metric(waiting) == 0)
        gate.open()
        #expect(held.readResponse()?.status == 200)
        #expect(play.origin.requests.map(\.target) == ["/held"])
    }

    @Test("a half-closed client that would have to wait gets 503 at once")
    func halfClosed() throws {
        let gate = Gate()
        let (play, held) = try busyPlay(gate)
        let client = try send(play, "/half")
        client.finishSending()
        let answer = client.readResponse()
        #expect(answer?.status == 503 && answer?["Retry-After"] != nil)
        gate.open()
        #expect(held.readResponse()?.status == 200)
        // When a connection is free, a half-closed client gets its response.
        let other = try send(play, "/half")
        other.finishSending()
        #expect(other.readResponse()?.status == 200)
    }

    @Test("a write with complete content continues without its client")
    func write() throws {
        let gate = Gate()
        let (play, held) = try busyPlay(gate)
        do {
            let client = try send(play, "/written", method: "POST")
            #expect(try play.waitFor(waiting, 1))
            client.endsWithReset()
        }
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"POST\",status_class=\"4xx\"}", 1))
        gate.open()
        #expect(held.readResponse()?.status == 200)
        #expect(play.origin.waitForRequests(2))
        #expect(try play.waitFor(active, 0))
        #expect(try play.metric(left) == 0)
    }

    @Test("a read with followers continues without its first client")
    func followed() throws {
        let gate = Gate()
        let (play, held) = try busyPlay(gate)
        let follower: TestClient
        do {
            let first = try send(play, "/same")
            #expect(try play.waitFor(waiting, 1))
            follower = try send(play, "/same")
            #expect(try play.waitFor("cistern_collapsed_waiting", 1))
            first.endsWithReset()
        }
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
        #expect(try play.metric(left) == 0)
        gate.open()
        #expect(held.readResponse()?.status == 200)
        #expect(follower.readResponse()?.status == 200)
    }

    @Test("background fetches wait behind requests of clients")
    func background() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in
            let steps: [OriginStep] = request.target == "/held" ? [.pass(gate)] : []
            return steps + [.json("1", ["Cache-Control: max-age=1, stale-while-revalidate=60"])]
        }
        let play = try ProxyPlay(origin) { $0.upstream.maximumConnections = 1 }
        _ = try play.get("/stale")
        play.time.advance(by: .seconds(2))
        let held = try send(play, "/held")
        #expect(origin.waitForRequests(2))
        #expect(try play.get("/stale").status == 200)
        #expect(try play.waitFor(waiting, 1))
        let client = try send(play, "/new")
        #expect(try play.waitFor(waiting, 2))
        gate.open()
        #expect(held.readResponse()?.status == 200 && client.readResponse()?.status == 200)
        #expect(origin.waitForRequests(4))
        #expect(origin.requests.map(\.target) == ["/stale", "/held", "/new", "/stale"])
    }
}
