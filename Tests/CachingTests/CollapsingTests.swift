// Tests of concurrent requests with one cache key, and of background fetches.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Collapsing and background fetches", .play, .clientProtocols)
struct CollapsingTests {
    /// Sends a request on `count` connections.
    private func crowd(_ count: Int, _ play: ProxyPlay, _ target: String, _ fields: String = "") throws -> [TestClient] {
        try (0..<count).map { _ in
            return try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
        }
    }

    @Test("concurrent requests for an uncached key cause one upstream request, also across shards", arguments: [1, 2])
    func oneRequest(shards: Int) throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("{\"n\":1}")] }
        let play = try ProxyPlay(origin) { $0.shards = shards }
        let clients = try crowd(100, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 99))
        gate.open()
        for client in clients {
            let response = try #require(client.readResponse())
            #expect(response.text == "{\"n\":1}")
        }
        #expect(origin.requests.count == 1)
        #expect(try play.metric("cistern_requests_total{result=\"collapsed\",method=\"GET\",status_class=\"2xx\"}") == 99)
    }

    @Test(
        "followers do not share a response that sets a cookie",
        arguments: [
            ("", false), ("public", true), ("max-age=60", true), ("max-age=0", false), ("max-age=60, s-maxage=0", false),
            ("max-age=0, s-maxage=60", true), ("public, max-age=0", true),
        ])
    func cookies(control: String, isShared: Bool) throws {
        let gate = Gate()
        let count = Counter()
        let origin = ScriptedOrigin { _ in
            let number = count.next()
            return [.pass(gate), .json("\(number)", ["Set-Cookie: cart=\(number)", "Cache-Control: \(control)"])]
        }
        let play = try ProxyPlay(origin)
        let clients = try crowd(3, play, "/cart")
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        gate.open()
        let carts = clients.compactMap { $0.readResponse()?.text }.sorted()
        #expect(carts == (isShared ? ["1", "1", "1"] : ["1", "2", "3"]))
    }

    @Test(
        "a client that has written does not join an older fetch; a token sent only with writes does not matter",
        arguments: [
            [], [("Authorization", "Bearer a")], [("Authorization", "Bearer a"), ("X-CSRF-Token", "1")], [("X-XSRF-TOKEN", "1")],
            [("Cookie", "sid=1"), ("X-CSRFToken", "1")],
        ] as [[(String, String)]])
    func readYourWrites(fields: [(String, String)]) throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("\"before\"")] }
        let play = try ProxyPlay(origin) { $0.collapsing.wait = 60_000 }
        let user = fields.filter { !$0.0.hasPrefix("X-") }
        let other = try #require(try crowd(1, play, "/list", user.map { "\($0): \($1)\r\n" }.joined()).first)
        asked.pass()
        origin.react { _ in [.json("\"after\"")] }
        #expect(try play.request("PUT", "/list/1", fields, content: "{}").status == 200)
        #expect(try play.get("/list", user).text == "\"after\"")
        gate.open()
        #expect(other.readResponse()?.text == "\"before\"")
    }

    @Test("after a write overtakes a fetch, later requests still share a new fetch")
    func overtaken() throws {
        let (asked, first, second) = (Gate(), Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(first), .json("\"before\"")] }
        let play = try ProxyPlay(origin)
        let early = try crowd(3, play, "/list")
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        asked.pass()
        origin.react { $0.method == "PUT" ? [.json("{}")] : [.pass(second), .json("\"after\"")] }
        #expect(try play.request("PUT", "/list", content: "{}").status == 200)
        first.open()
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        let late = try crowd(3, play, "/list")
        #expect(try play.waitFor("cistern_collapsed_waiting", 4))
        second.open()
        let texts = (early + late).compactMap { $0.readResponse()?.text }.sorted()
        #expect(texts == Array(repeating: "\"after\"", count: 5) + ["\"before\""])
        #expect(origin.requests.count == 3)
    }

    @Test("Cache-Status marks a follower's response as collapsed")
    func status() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1")] }
        let play = try ProxyPlay(origin)
        let leader = try #require(try crowd(1, play, "/a").first)
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        let follower = try #require(try crowd(1, play, "/a").first)
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(leader.readResponse()?["Cache-Status"] == "cistern; fwd=uri-miss; stored")
        let response = follower.readResponse()
        #expect(response?["Cache-Status"] == "cistern; fwd=uri-miss; collapsed")
        #expect(response?["Age"] == "0")
    }

    @Test("followers stop waiting at the head of an unshareable response and do not wait again")
    func unshareable() throws {
        let head = Gate()
        let content = Gate()
        let origin = ScriptedOrigin { _ in
            [
                .pass(head),
                .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n"),
                .pass(content), .send("1"),
            ]
        }
        let play = try ProxyPlay(origin)
        let clients = try crowd(8, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 7))
        head.open()
        #expect(try play.waitFor("cistern_upstream_active_requests", 8))
        let later = try crowd(4, play, "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 12))
        content.open()
        for client in clients + later { #expect(client.readResponse()?.text == "1") }
        #expect(origin.requests.count == 12)
    }

    @Test(
        "a failed leader releases all followers at once; their later requests do not wait", arguments: [true, false])
    func leaderFails(hasResponse: Bool) throws {
        let (first, second) = (Gate(), Gate())
        let end: [OriginStep] = hasResponse ? [.json("{}", status: "503 Service Unavailable")] : [.send("HTTP/1.1 200 OK\r\n"), .close]
        let origin = ScriptedOrigin { _ in [.pass(first)] + end }
        let play = try ProxyPlay(origin)
        let clients = try crowd(4, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 3))
        #expect(origin.waitForRequests(1))
        origin.react { _ in [.pass(second)] + end }
        first.open()
        // If followers waited for each other, only one of them would be at the upstream.
        #expect(try play.waitFor("cistern_upstream_active_requests", 3))
        let later = try crowd(2, play, "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 5))
        second.open()
        for client in clients + later { #expect(client.readResponse()?.status == (hasResponse ? 503 : 502)) }
        #expect(origin.requests.count == 6)
    }

    @Test("followers that disconnect are removed at once, before the leader finishes")
    func followersLeave() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("1")] })
        let leader = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        var followers = try crowd(20, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 20))
        for follower in followers { follower.endsWithReset() }
        followers = []
        #expect(try play.waitFor("cistern_collapsed_waiting", 0))
        gate.open()
        #expect(leader.readResponse()?.text == "1")
    }

    @Test("a follower becomes the leader when the leader disconnects")
    func leaderLeaves() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1")] }
        let play = try ProxyPlay(origin)
        var leader: TestClient? = try crowd(1, play, "/a").first
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        let followers = try crowd(3, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 3))
        leader = nil
        gate.open()
        for client in followers { #expect(client.readResponse()?.text == "1") }
        #expect(leader == nil)
    }

    @Test("a response stored by another request in the meantime is served when a cache miss's fetch fails")
    func storedMeanwhile() throws {
        let gate = Gate()
        let counter = Counter()
        let cut = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[1,"
        let origin = ScriptedOrigin { _ in counter.next() == 1 ? [.pass(gate), .send(cut), .close] : [.json("2")] }
        let play = try ProxyPlay(origin)
        let failing = try play.client()
        // A request with no-transform does not share a fetch.
        failing.send("GET /a HTTP/1.1\r\nHost: a\r\nCache-Control: no-transform\r\n\r\n")
        #expect(origin.waitForRequests(1))
        #expect(try play.get("/a").text == "2")
        gate.open()
        let rescued = failing.readResponse()
        #expect(rescued?.status == 200 && rescued?.text == "2")
        #expect(rescued?["Cache-Status"] == "cistern; hit; ttl=0; detail=http_response_incomplete")
        #expect(origin.requests.count == 2)
    }

    @Test("a follower that has waited too long sends its own request")
    func waitTimeout() throws {
        let gate = Gate()
        let counter = Counter()
        let origin = ScriptedOrigin { _ in counter.next() == 1 ? [.pass(gate), .json("1")] : [.json("2")] }
        let play = try ProxyPlay(origin)
        let leader = try #require(try crowd(1, play, "/a").first)
        #expect(origin.waitForRequests(1))
        let follower = try #require(try crowd(1, play, "/a").first)
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        play.time.advance(by: .seconds(5))
        #expect(follower.readResponse()?.text == "2")
        gate.open()
        #expect(leader.readResponse()?.text == "1")
    }

    @Test("followers are released by the head of an unshareable response, even if a stored response could replace it")
    func unshareableWithStoredResponse() throws {
        let (head, content) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.json("0", ["Cache-Control: max-age=0"])] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").text == "0")
        let start = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n"
        origin.react { _ in [.pass(head), .send(start), .pass(content), .send("1")] }
        let clients = try crowd(3, play, "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        head.open()
        #expect(try play.waitFor("cistern_upstream_active_requests", 3))
        content.open()
        for client in clients { #expect(client.readResponse()?.text == "1") }
    }

    @Test("requests with different credentials, variants or methods are never collapsed")
    func neverCollapsed() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in
            [.pass(gate), .json("\"\(request["Authorization"] ?? request["X-Token"] ?? "")\"", ["Cache-Control: private"])]
        }
        let play = try ProxyPlay(origin)
        let first = try #require(try crowd(1, play, "/a", "Authorization: Basic a\r\n").first)
        let second = try #require(try crowd(1, play, "/a", "Authorization: Basic b\r\n").first)
        let write = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 3))
        gate.open()
        #expect(first.readResponse()?.text == "\"Basic a\"")
        #expect(second.readResponse()?.text == "\"Basic b\"")
        #expect(write.readResponse()?.status == 200)
    }

    // MARK: Background fetches

    @Test("stale-while-revalidate serves the stale response at once and validates it once in the background (RFC 5861 §3)")
    func staleWhileRevalidate() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in [.json("\(counter.next())", ["Cache-Control: max-age=10, stale-while-revalidate=30"])] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").text == "1")
        play.time.advance(by: .seconds(15))
        let stale = try play.get("/a")
        #expect(stale.text == "1")
        #expect(stale["Cache-Status"] == "cistern; hit; ttl=-5")
        #expect(try play.waitFor("cistern_stored_total", 2))
        #expect(try play.get("/a").text == "2")
        #expect(try play.metric("cistern_requests_total{result=\"stale\",method=\"GET\",status_class=\"2xx\"}") == 1)
        // Outside the stale-while-revalidate window the client waits.
        play.time.advance(by: .seconds(41))
        #expect(try play.get("/a").text == "3")
    }

    @Test("a bad response to a background fetch replaces nothing")
    func badBackground() throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=10, stale-while-revalidate=30"])] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in [.answer("<p>", type: "text/html")] }
        play.time.advance(by: .seconds(15))
        #expect(try play.get("/a").text == "1")
        #expect(try play.waitFor("cistern_background_fetches_started_total", 1))
        #expect(try play.waitFor("cistern_background_fetches", 0))
        origin.down()
        #expect(try play.get("/a").text == "1")
    }

    @Test("a frequently requested response is refreshed before it becomes stale")
    func refreshAhead() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in [.json("\(counter.next())", ["Cache-Control: max-age=100"])] }
        let play = try ProxyPlay(origin) {
            $0.otherRoute.refreshAhead = 20
            $0.otherRoute.refreshAheadHits = 3
        }
        for _ in 1...4 { #expect(try play.get("/a").text == "1") }
        _ = try play.get("/seldom")
        play.time.advance(by: .seconds(85))
        #expect(try play.get("/seldom").text == "2")
        #expect(try play.get("/a").text == "1")
        #expect(try play.waitFor("cistern_stored_total", 3))
        let fresh = try play.get("/a")
        #expect(fresh.text == "3")
        #expect(fresh["Cache-Status"] == "cistern; hit; ttl=100")
        #expect(try play.metric("cistern_background_fetches_started_total") == 1)
    }
}
