// Tests of an upstream that is slow, down, recovering or asking for a pause, and of responses that the operator's rules reject.

import CachePolicy
import Downstream
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("An upstream in trouble", .play)
struct TroubleTests {
    /// Sends a request and moves the clock until there is a response.
    private func answer(_ play: ProxyPlay, _ target: String, step: Duration = .milliseconds(500)) throws -> TestResponse {
        let client = try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        while !client.hasInput(within: 10) { play.time.advance(by: step) }
        return try #require(client.readResponse())
    }

    // MARK: The soft deadline

    @Test("when the upstream is slow, the stored response is served and the fetch continues to fill the cache", arguments: [false, true])
    func softDeadline(inContent: Bool) throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.json("{\"n\":1}")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in
            let parts: [OriginStep] = [
                .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"n\""), .pass(gate), .send(":2}"),
            ]
            return inContent ? parts : [.pass(gate)] + parts
        }
        let rescued = try answer(play, "/a")
        #expect(rescued.text == "{\"n\":1}")
        #expect(rescued["Cache-Status"]?.hasSuffix("detail=slow") == true)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"slow\"}") == 1)
        gate.open()
        #expect(try play.waitFor("cistern_stored_total", 2))
        origin.down()
        #expect(try play.get("/a").text == "{\"n\":2}")
    }

    @Test("at shutdown unanswered requests get the stored response or 504")
    func stopping() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) { $0.otherRoute.rescueAfter = 0 }
        _ = try play.get("/a")
        origin.react { _ in [.pass(gate), .json("2")] }
        let clients = try ["GET /a", "GET /b", "POST /a"].map { line in
            return try play.client(sending: "\(line) HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 3))
        play.stop()
        gate.open()
        let answers = clients.map { $0.readResponse() }
        #expect(answers.map { $0?.status } == [200, 504, 504])
        #expect(answers[0]?.text == "1" && answers[0]?["Cache-Status"]?.hasSuffix("detail=slow") == true)
    }

    @Test(
        "a response purged during the fetch does not rescue; after a soft or unrelated purge it does",
        arguments: ["target=/a", "all=true", "target=/b", "target=/a&soft=true"])
    func purgedMeanwhile(purge: String) throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.json("{\"n\":1}")] }
        let play = try ProxyPlay(origin) { $0.otherRoute.rescueAfter = 0 }
        _ = try play.get("/a")
        origin.react { _ in [.open(asked), .pass(gate), .close] }
        let client = try play.client(getting: "/a")
        asked.pass()
        play.time.advance(by: .seconds(1))
        #expect(try play.admin("POST", "/-/purge?" + purge).status == 200)
        gate.open()
        let isGone = purge == "target=/a" || purge == "all=true"
        #expect(client.readResponse()?.status == (isGone ? 502 : 200))
    }

    @Test("a response arriving after the soft deadline is examined as usual")
    func softDeadlineThenJunk() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.json("{\"n\":1}")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in [.pass(gate), .answer("<html>", type: "text/html")] }
        #expect(try answer(play, "/a").text == "{\"n\":1}")
        gate.open()
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        origin.down()
        #expect(try play.get("/a").text == "{\"n\":1}")
    }

    @Test("a route can have its own soft deadline or none")
    func routeDeadline() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) {
            var patient = Route()
            patient.name = "patient"
            patient.pattern = RoutePattern("/reports/*")
            patient.rescueAfter = 0
            $0.routes = [patient]
        }
        _ = try play.get("/reports/1")
        origin.react { _ in [.pass(gate), .json("2")] }
        let client = try play.client(getting: "/reports/1")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        play.time.advance(by: .seconds(5))
        #expect(!client.hasInput(within: 50))
        gate.open()
        #expect(client.readResponse()?.text == "2")
    }

    // MARK: Long outages

    @Test("with an upstream that fails on and off for an hour, requests for stored paths never fail", .slow)
    func flapping() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        for number in 0..<10 { _ = try play.get("/\(number)") }
        var fresh = 0
        for half in 0..<1_800 {
            if half % 2 == 0 { origin.down() } else { origin.up() }
            for step in 0..<2 {
                let answer = try play.get("/\((half + step) % 10)")
                #expect(answer.status == 200 && answer.text == "1")
                if answer["Cache-Status"]?.contains("stored") == true { fresh += 1 }
                play.time.advance(by: .seconds(1))
            }
        }
        #expect(fresh > 100)
    }

    // MARK: Repeats

    @Test("a safe request without any response byte is retried once; a write never is")
    func retries() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in counter.next() % 2 == 1 ? [.close] : [.json("1")] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").text == "1")
        #expect(try play.metric("cistern_upstream_retries_total") == 1)
        #expect(try play.request("POST", "/a", content: "{}").status == 502)
        #expect(origin.requests.map(\.method) == ["GET", "GET", "POST"])
    }

    @Test("a request is not retried after its response began, or beyond the retry budget")
    func noRetries() throws {
        let origin = ScriptedOrigin { _ in [.send("HTTP/1.1 200 OK\r\n"), .close] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").status == 502)
        #expect(origin.requests.count == 1)
        origin.react { _ in [.close] }
        for _ in 1...30 { #expect(try play.get("/a").status == 502) }
        #expect(try play.metric("cistern_upstream_retries_total") == 12)
    }

    // MARK: Overload

    @Test("beyond the queue limit requests get the stored response, or 503 with Retry-After")
    func overload() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) {
            $0.upstream.maximumConnections = 1
            $0.upstream.queueLimit = 1
        }
        _ = try play.get("/stored")
        origin.react { _ in [.pass(gate), .json("2")] }
        let clients = try (1...2).map { _ in try play.client() }
        for (number, client) in clients.enumerated() { client.send("GET /slow/\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        let refused = try play.get("/third")
        #expect(refused.status == 503)
        #expect(refused["Retry-After"] == "1")
        #expect(refused["Proxy-Status"] == "cistern; error=connection_limit_reached")
        #expect(try play.get("/stored").text == "1")
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "2") }
    }

    @Test("connections per address are limited, and a closed one makes room")
    func connectionsPerAddress() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) { $0.downstream.connectionsPerAddress = 3 }
        _ = try play.get("/a")
        var clients = try (1...2).map { _ in try play.client() }
        for client in clients { #expect(client.get("/a")?.text == "1") }
        #expect(try play.client().isClosedByServer())
        clients.removeLast()
        #expect(try play.waitFor("cistern_connections", 2))
        #expect(try play.client().get("/a")?.text == "1")
        #expect(try play.metric("cistern_connections_turned_away_total") == 1)
    }

    // MARK: Rules for good responses

    @Test(
        "a response that fails the route's conditions is rescued, or passed on with the reason and not stored",
        arguments: [
            ("{\"error\":\"x\",\"data\":[1,2,3]}", "unwanted_value"), ("{\"date\":[1,2,3]}", "missing_value"), ("{\"data\":[]}", "shrunk"),
        ])
    func good(junk: String, reason: String) throws {
        let copy = "{\"data\":[1,2,3,4,5,6,7,8,9]}"
        let origin = ScriptedOrigin { _ in [.json(copy)] }
        let play = try ProxyPlay(origin) {
            $0.otherRoute.good.mustHave = [JSONPointer("/data")].compactMap { $0 }
            $0.otherRoute.good.mustNotHave = [JSONPointer("/error")].compactMap { $0 }
            $0.otherRoute.good.shrinkLimit = 50
        }
        _ = try play.get("/a")
        origin.react { _ in [.json(junk)] }
        let rescued = try play.get("/a")
        #expect(rescued.text == copy)
        #expect(rescued["Cache-Status"]?.hasSuffix("detail=\(reason)") == true)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"\(reason)\"}") == 1)
        let passed = try play.get("/b")
        #expect(passed.text == junk)
        let isNamed = passed["Proxy-Status"] == "cistern; details=\"\(reason)\""
        // Without a stored response, `shrunk` does not apply.
        #expect(isNamed != (reason == "shrunk"))
        origin.down()
        #expect(try play.get("/b").status == (reason == "shrunk" ? 200 : 502))
    }
}
