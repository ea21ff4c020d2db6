// Requests that wait for the fetch of another client: a failure of that fetch counts for that client only.

import Downstream
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Fetches of other clients", .play)
struct OtherClientsFetchTests {
    /// A response for the client "bad" after the gate opens, and a good response for others.
    private func origin(_ gate: Gate, _ bad: [OriginStep]) -> ScriptedOrigin {
        ScriptedOrigin { request in request["User-Agent"] == "bad" ? [.pass(gate)] + bad : [.json("\(request["User-Agent"] ?? "")")] }
    }

    /// Clients with different addresses, which send one request each.
    private func ask(_ play: ProxyPlay, _ clients: [(address: Int, agent: String)]) throws -> [TestClient] {
        try clients.map { address, agent in
            let client = try TestClient(port: play.port, from: "127.0.9.\(address)")
            client.send("GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: \(agent)\r\n\r\n")
            return client
        }
    }

    @Test(
        "when one client's fetch fails, one follower fetches again and the others wait for it",
        arguments: ["429 Too Many Requests", "503 Service Unavailable", "500 Internal Server Error"])
    func failureOfAnother(status: String) throws {
        let gate = Gate()
        let origin = origin(gate, [.json("{}", status: status)])
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a", [("User-Agent", "1")]).text == "1")
        let leader = try ask(play, [(1, "bad")])
        #expect(origin.waitForRequests(2))
        let others = try ask(play, [(2, "2"), (1, "bad"), (1, "bad"), (3, "3")])
        #expect(try play.waitFor("cistern_collapsed_waiting", 4))
        gate.open()
        #expect(leader[0].readResponse()?.text == "1")
        // Neither of the two other clients gets the earlier stored response, in any order.
        let texts = others.map { $0.readResponse()?.text }
        #expect(texts[0] == texts[3] && (texts[0] == "2" || texts[0] == "3"), "\(texts)")
        #expect(origin.requests.count == 3)
    }

    @Test("when one client's fetch hangs, one follower fetches again and all others receive its response", arguments: [true, false])
    func hangOfAnother(hasCopy: Bool) throws {
        let gate = Gate()
        let origin = origin(gate, [.json("0")])
        let play = try ProxyPlay(origin)
        #expect(try play.get(hasCopy ? "/a" : "/other", [("User-Agent", "1")]).text == "1")
        _ = try ask(play, [(1, "bad")])
        #expect(origin.waitForRequests(2))
        let others = try ask(play, [(2, "2"), (3, "2"), (1, "2")])
        #expect(try play.waitFor("cistern_collapsed_waiting", 3))
        play.time.advance(by: .milliseconds(hasCopy ? 750 : 1_000))
        #expect(others.compactMap { $0.readResponse()?.text } == ["2", "2", "2"])
        #expect(origin.requests.count == 3)
        gate.open()
    }

    @Test("while a target is slow, repeated requests of a client cause two fetches")
    func slowTarget() throws {
        let (play, gate) = try repeatDuringSlowness("GET", "") { play, round in
            let name = round > 2 ? "cistern_collapsed_waiting" : "cistern_upstream_active_requests"
            return try play.waitFor(name, round == 2 ? 2 : 1)
        }
        #expect(play.origin.requests.count == 3)
        gate.open()
    }

    private static let fields = [
        "Cache-Control: no-store", "Cache-Control: no-cache", "Pragma: no-cache", "Cache-Control: max-age=0", "Cache-Control: min-fresh=5",
        "Range: bytes=0-0",
    ]

    @Test("of the fetches that no other request can use, two continue after their clients got a rescue", arguments: fields)
    func unusable(field: String) throws { try fetchUnusably("GET", field) }

    @Test("of the HEAD requests for a slow target, two continue after their clients got a rescue")
    func head() throws { try fetchUnusably("HEAD", "") }

    private func fetchUnusably(_ method: String, _ field: String) throws {
        let (play, gate) = try repeatDuringSlowness(method, field) { play, round in
            try play.waitFor("cistern_upstream_active_requests", Double(min(round, 3)))
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        gate.open()
    }

    /// A client repeats a request whenever it has got a rescue. The upstream does not respond.
    /// - Parameter isUnderWay: waits until the request of a round waits.
    private func repeatDuringSlowness(
        _ method: String, _ field: String, isUnderWay: (ProxyPlay, Int) throws -> Bool
    ) throws -> (ProxyPlay, Gate) {
        let (gate, isSlow) = (Gate(), Mutex(false))
        let play = try ProxyPlay(ScriptedOrigin { _ in isSlow.withLock { $0 } ? [.pass(gate), .json("2")] : [.json("1")] })
        #expect(try play.get("/a").text == "1")
        isSlow.withLock { $0 = true }
        for round in 1...5 {
            let client = try play.client()
            client.send("\(method) /a HTTP/1.1\r\nHost: a\r\n\(field.isEmpty ? "" : field + "\r\n")\r\n")
            #expect(try isUnderWay(play, round))
            play.time.advance(by: .milliseconds(1_500))
            #expect(client.readResponseHead()?["Cistern-Stale"] != nil)
        }
        return (play, gate)
    }

    @Test("of the fetches of a disconnected client, two continue, and those that another client waits for", arguments: [true, false])
    func disconnected(hasReset: Bool) throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("1")] })
        var clients = try (0..<6).map { try play.client(getting: "/\($0)") }
        #expect(play.origin.waitForRequests(6))
        let follower = try TestClient(port: play.port, from: "127.0.9.2")
        follower.send("GET /5 HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        // The fetch that is shared is abandoned last.
        while !clients.isEmpty {
            if hasReset { clients[0].endsWithReset() }
            clients.removeFirst()
            let left = clients.count
            #expect(try play.waitFor("cistern_upstream_active_requests", Double(left > 0 ? left + min(2, 6 - left) : 3)))
        }
        // The requests that were cancelled, and the first two: the one that is shared is still under way.
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", hasReset ? 6 : 3))
        gate.open()
        #expect(follower.readResponse()?.text == "1")
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        #expect(try play.metric("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"5xx\"}") ?? 0 == 0)
        play.origin.down()
        #expect(try (0..<6).map { try play.get("/\($0)").status } == [200, 200, 502, 502, 502, 200])
    }

    @Test("of the fetches that a client cancels over HTTP/2, two continue", arguments: ["GET", "POST"])
    func cancelled(method: String) throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("1")] }) { $0.listening.listeners[0].takesClearHTTP2 = true }
        let client = try play.http2Client()
        let streams = try (0..<6).map { try #require(client.begin(method, "/\($0)", content: method == "POST" ? "{}" : nil)) }
        #expect(play.origin.waitForRequests(6))
        for stream in streams { client.reset(stream) }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        gate.open()
    }

    @Test("of the writes of a disconnected client, two continue, and each cancelled one invalidates its target", arguments: [true, false])
    func disconnectedWrites(hasReset: Bool) throws {
        let gate = Gate()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request.method == "GET" ? [.json("1", ["Cache-Control: max-age=600"])] : [.pass(gate), .json("2")]
            })
        for path in 0..<4 { #expect(try play.get("/\(path)").text == "1") }
        var clients = try (0..<4).map { path in
            let client = try play.client()
            client.send("POST /\(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
            return client
        }
        #expect(play.origin.waitForRequests(8))
        for client in clients { if hasReset { client.endsWithReset() } else { client.finishSending() } }
        if hasReset { clients = [] }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        let isHit = try (0..<4).map { try play.get("/\($0)")["Cache-Status"]?.contains("; hit") ?? false }
        #expect(isHit.count { $0 } == 2)
        // The responses that were stored meanwhile may be from before the writes.
        #expect(try (0..<4).allSatisfy { try play.get("/\($0)")["Cache-Status"]?.contains("; hit") ?? false })
        play.time.advance(by: .seconds(30))
        #expect(try !isHit.indices.allSatisfy { try play.get("/\($0)")["Cache-Status"]?.contains("; hit") ?? false })
        gate.open()
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        withExtendedLifetime(clients) {}
    }

    @Test("when the fetches of two clients hang, one of a third is sent after twice the time")
    func hangOfTwo() throws {
        let gate = Gate()
        let origin = origin(gate, [.json("0")])
        let play = try ProxyPlay(origin)
        _ = try ask(play, [(1, "bad")])
        #expect(origin.waitForRequests(1))
        _ = try ask(play, [(2, "bad")])
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        play.time.advance(by: .milliseconds(500))
        let others = try ask(play, [(3, "3"), (4, "3")])
        #expect(try play.waitFor("cistern_collapsed_waiting", 3))
        play.time.advance(by: .milliseconds(500))
        #expect(origin.waitForRequests(2))
        play.time.advance(by: .milliseconds(500))
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        play.time.advance(by: .milliseconds(1_000))
        #expect(others.compactMap { $0.readResponse()?.text } == ["3", "3"])
        #expect(origin.requests.count == 3)
        gate.open()
    }
}
