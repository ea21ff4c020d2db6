// Tests of the failure memory: known failures are answered from the store at once, and other requests are not affected.

import Addresses
import CachePolicy
import Downstream
import HTTPCore
import JSON
import Reactor
import TestSupport
import Testing
import Upstream

@testable import ReverseProxy

@Suite("Scopes of upstream failures", .play)
struct FailureScopeTests {
    private static let unavailable = "503 Service Unavailable"

    /// Trusts the client addresses in X-Forwarded-For.
    private static func believing() throws -> NetworkList { NetworkList([try IPNetwork("127.0.0.0/8")], hasLocal: true) }

    /// Sends a request that hangs at the upstream, and lets the soft deadline pass.
    private func softDeadline(_ play: ProxyPlay, _ target: String) throws -> TestResponse {
        let before = play.origin.requests.count
        let client = try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(play.origin.waitForRequests(before + 1))
        play.time.advance(by: .milliseconds(1_500))
        return try #require(client.readResponse())
    }

    private func detail(_ response: TestResponse) -> String? { response["Cache-Status"]?.split(separator: "=").last.map(String.init) }

    private func open(_ play: ProxyPlay, _ kind: FailureScopeKind) throws -> Double? {
        try play.metric("cistern_failure_scopes{scope=\"\(kind.rawValue)\"}")
    }

    // MARK: The address

    @Test("unreachable upstream: stored responses are served, reads get 503, a connection attempt per recheck detects the return")
    func address() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        for number in 1...8 { _ = try play.get("/\(number)") }
        origin.down()
        for number in 1...5 { #expect(try play.get("/\(number)").text == "1") }
        #expect(try play.metric("cistern_upstream_state{state=\"down\"}") == 1)
        #expect(try play.metric("cistern_upstream_up") == 0)
        let before = try play.metric("cistern_upstream_requests_total")
        for number in 1...8 { #expect(detail(try play.get("/\(number)")) == "destination_unavailable") }
        let refused = try play.get("/new")
        #expect(refused.status == 503)
        #expect(refused["Proxy-Status"] == "cistern; error=destination_unavailable; details=\"connection_refused\"")
        #expect(refused["Retry-After"] == "1")
        #expect(try play.request("POST", "/new", content: "{}").status == 503)
        #expect(try play.metric("cistern_upstream_requests_total") == before)

        for _ in 1...3 {
            let tried = try play.metric("cistern_connection_attempts_total") ?? 0
            play.time.advance(by: .seconds(1))
            #expect(try play.waitFor("cistern_connection_attempts_total", tried + 1))
        }
        origin.react { _ in [.json("2")] }
        origin.up()
        play.time.advance(by: .seconds(1))
        #expect(try play.waitFor("cistern_upstream_state{state=\"up\"}", 1))
        #expect(try play.request("POST", "/new", content: "{}").status == 200)
        #expect(try play.get("/1").text == "2")
        #expect(try play.get("/new").text == "2")
    }

    @Test("unreachable upstream: a write is still tried, unless an attempt has just failed")
    func writes() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) { $0.upstream.failure.recheck = 3_600_000 }
        origin.down()
        var failures = 0
        while try play.get("/a").status == 502 { failures += 1 }
        #expect(failures <= 5)
        #expect(try play.request("POST", "/a", content: "{}").status == 503)
        origin.up()
        play.time.advance(by: .seconds(3_600))
        #expect(try play.request("POST", "/a", content: "{}").status == 200)
        #expect(try play.get("/a").status == 200)
    }

    // MARK: A user's pause

    @Test("Retry-After for one user and path affects only that user's stored responses and refuses no request")
    func pause() throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: private"])] }
        let play = try ProxyPlay(origin)
        let (one, other) = ([("Authorization", "Bearer a")], [("Authorization", "Bearer b")])
        for user in [one, other] { _ = try play.get("/login", user) }
        origin.react { request in
            let isPaused = request["Authorization"] == "Bearer a" && request.target == "/login"
            return isPaused ? [.json("{}", status: "429 Slow Down", ["Retry-After: 300"])] : [.json("2", ["Cache-Control: private"])]
        }
        let write = try play.request("POST", "/login", one, content: "{}")
        #expect(write.status == 429 && write["Retry-After"] == "300")
        #expect(detail(try play.get("/login", one)) == "paused")
        #expect(try play.get("/login", other).text == "2")
        #expect(try play.get("/new", one).text == "2")
        #expect(try play.get("/new").text == "2")
        for (user, status) in [(one, 429), (other, 200), ([], 200)] {
            #expect(try play.request("POST", "/login", user, content: "{}").status == status)
        }
        let scope = JSONValue(try play.admin("GET", "/-/upstream").content)?["scopes"]?.array?.first
        #expect(scope?["scope"] == "pause:/login" && scope?["cause"] == "status_429" && scope?["setting"] == "failure.retry_after_limit")
        #expect(scope?["partition"]?.string?.count == 8)
        play.time.advance(by: .seconds(300))
        origin.react { _ in [.json("3", ["Cache-Control: private"])] }
        #expect(try play.get("/login", one).text == "3")
    }

    @Test("Retry-After is honored if a response is stored; otherwise the upstream's answer is passed on", arguments: [429, 503])
    func retryAfter(status: Int) throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in [.json("{}", status: "\(status) No", ["Retry-After: 20"])] }
        #expect(try play.get("/a").text == "1")
        let before = origin.requests.count
        play.time.advance(by: .seconds(19))
        #expect(try play.get("/a").text == "1")
        #expect(origin.requests.count == before)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["reason"] == "paused" && why?["advice"]?.array?.first?["setting"] == "failure.retry_after_limit")
        let passed = try play.get("/new")
        #expect(passed.status == status && passed["Retry-After"] == "20")
        origin.react { _ in [.json("2")] }
        play.time.advance(by: .seconds(1))
        #expect(try play.get("/a").text == "2")
    }

    @Test("a pause by 503 ends with any upstream success, a pause by 429 does not", arguments: [429, 503])
    func retryAfterEnds(status: Int) throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { $0.target == "/a" ? [.json("{}", status: "\(status) No", ["Retry-After: 200"])] : [.json("1")] }
        #expect(try play.get("/a").text == "1")
        #expect(detail(try play.get("/a")) == "paused")
        origin.react { _ in [.json("2")] }
        play.time.advance(by: .seconds(10))
        #expect(detail(try play.get("/a")) == "paused")
        #expect(try play.get("/b").text == "2")
        #expect(try play.get("/a").text == (status == 503 ? "2" : "1"))
    }

    // MARK: Paths

    @Test("after two failures in a row a target's stored response is served at once; other targets are unaffected")
    func key() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        for target in ["/bad", "/bad?well", "/well"] { _ = try play.get(target) }
        origin.react { $0.target == "/bad" ? [.json("{}", status: Self.unavailable)] : [.json("2")] }
        for _ in 1...2 { #expect(try play.get("/bad").text == "1") }
        let before = try play.metric("cistern_upstream_requests_total")
        #expect(detail(try play.get("/bad")) == "key_failing")
        #expect(try play.metric("cistern_upstream_requests_total") == before)
        let why = JSONValue(try play.admin("GET", "/-/why?path=/bad&last=1").content)?["exchanges"]?.array?.first
        #expect(why?["reason"] == "key_failing" && why?["advice"]?.array?.first?["setting"] == "failure.recheck")
        #expect(try play.get("/bad?well").text == "2" && play.get("/well").text == "2" && play.get("/new").text == "2")
        #expect(try play.request("POST", "/well", content: "{}").status == 200)
        // The recovery is detected without a client's request.
        origin.react { _ in [.json("3")] }
        play.time.advance(by: .seconds(1))
        #expect(try play.waitFor("cistern_failure_scopes{scope=\"key\"}", 0))
        #expect(try play.get("/bad").text == "3")
    }

    @Test("if everything hangs at a low request rate, repeated requests detect it and stored responses are served at once")
    func rareRequestsToHang() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        let targets = ["/a", "/b", "/c"]
        for target in targets { _ = try play.get(target) }
        origin.react { _ in [.hang] }
        var details: [String?] = []
        // The loop determines the order of checks and timeouts, so it may take some more turns.
        for turn in 0..<150 where details.suffix(8).count(where: { $0 == "upstream_failing" }) < 6 {
            let client = try play.client(sending: "GET \(targets[turn % 3]) HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in 0..<4 where !client.hasInput(within: 20) { play.time.advance(by: .milliseconds(500)) }
            details.append(detail(try #require(client.readResponse())))
            for _ in 0..<8 { play.time.advance(by: .milliseconds(500)) }
        }
        #expect(details.first == "slow" && details.count < 150, "\(details)")
    }

    @Test("a hanging request is not a failure before its timeout, and its client sends only few more until then")
    func hang() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/bad")
        origin.react { $0.target == "/bad" ? [.hang] : [.json("2")] }
        for _ in 1...8 {
            let client = try play.client(getting: "/bad")
            for _ in 0..<4 where !client.hasInput(within: 20) { play.time.advance(by: .milliseconds(500)) }
            let response = try #require(client.readResponse())
            #expect(response.text == "1" && detail(response) == "slow")
        }
        #expect(try open(play, .key) == 0)
        #expect((3...4).contains(play.origin.requests.count { $0.target == "/bad" }))
        // The first two requests have reached the upstream's response timeout.
        play.time.advance(by: .seconds(50))
        #expect(try play.waitFor("cistern_failure_scopes{scope=\"key\"}", 1))
        #expect(detail(try play.get("/bad")) == "key_failing")
    }

    @Test("a client whose query arguments cause 503 does not affect other targets, even of the same path")
    func attacker() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let networks = try Self.believing()
        let play = try ProxyPlay(origin) { $0.downstream.trustedProxies = networks }
        let honest = [("X-Forwarded-For", "192.0.2.1")]
        for target in ["/data", "/data?evil=1", "/other"] { _ = try play.get(target, honest) }
        origin.react { $0.target.contains("evil") ? [.json("{}", status: Self.unavailable)] : [.json("2")] }
        for second in 0..<20 {
            for number in 0..<5 {
                _ = try play.get("/data?evil=\(number)", [("X-Forwarded-For", "198.51.100.9"), ("Authorization", "Bearer \(second)")])
            }
            for target in ["/data", "/other"] {
                let before = origin.requests.count { $0["X-Forwarded-For"]?.hasPrefix("192.0.2.1") == true }
                let response = try play.get(target, honest)
                let sent = origin.requests.count { $0["X-Forwarded-For"]?.hasPrefix("192.0.2.1") == true } - before
                #expect(response["Cache-Status"]?.contains("hit") != true && sent == 1)
                #expect(response.text == "2")
            }
            play.time.advance(by: .seconds(1))
        }
        #expect(try open(play, .upstream) == 0)
        // Other clients' requests for the attacker's failing target reach the upstream.
        let before = origin.requests.count
        _ = try play.get("/data?evil=1", honest)
        #expect(origin.requests.count == before + 1)
    }

    @Test("if only one client has seen failures, other clients' requests are still sent")
    func secondClient() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let networks = try Self.believing()
        let play = try ProxyPlay(origin) { $0.downstream.trustedProxies = networks }
        let clients = (1...3).map { [("X-Forwarded-For", "192.0.2.\($0)")] }
        for number in 1...6 { _ = try play.get("/\(number)", clients[0]) }
        play.time.advance(by: .seconds(11))
        origin.react { _ in [.json("{}", status: Self.unavailable)] }
        for number in 1...5 { _ = try play.get("/\(number)", clients[0]) }
        #expect(detail(try play.get("/6", clients[0])) == "upstream_failing")
        #expect(detail(try play.get("/6", clients[1])) == "server_error")
        for client in clients { #expect(detail(try play.get("/6", client)) == "upstream_failing") }
    }

    @Test(
        "credentials that only got a refusal or another error do not make one address count as several clients",
        arguments: [
            ("200 OK", "upstream_failing"), ("401 Unauthorized", "server_error"), ("403 Forbidden", "server_error"),
            ("302 Found", "server_error"),
        ])
    func refusedUsers(status: String, detail: String) throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let networks = try Self.believing()
        let play = try ProxyPlay(origin) { $0.downstream.trustedProxies = networks }
        // Cistern repeats requests without credentials as health checks, and a failed check is evidence. So this request has some.
        let honest = [("X-Forwarded-For", "192.0.2.1"), ("Authorization", "Bearer honest")]
        _ = try play.get("/6", honest)
        origin.react { _ in [.json("{}", status: status)] }
        let invented = (1...2).map { [("X-Forwarded-For", "198.51.100.9"), ("Authorization", "Bearer \($0)")] }
        for user in invented { _ = try play.get("/login", user) }
        play.time.advance(by: .seconds(11))
        origin.react { _ in [.json("{}", status: Self.unavailable)] }
        for number in 1...6 { _ = try play.get("/\(number)", invented[number % 2]) }
        let seen = self.detail(try play.get("/6", honest))
        #expect(seen == detail)
    }

    @Test("a usually slow request gets twice its usual time, and why reports it")
    func longPoll() throws {
        let gates = (0..<25).map { _ in Gate() }
        let served = Counter()
        let origin = ScriptedOrigin { _ in [.pass(gates[served.next() - 1]), .json("1")] }
        let play = try ProxyPlay(origin)
        func poll(_ number: Int, seconds: Int) throws -> TestResponse {
            let client = try play.client(getting: "/poll")
            #expect(origin.waitForRequests(number + 1))
            play.time.advance(by: .milliseconds(1_400))
            play.time.advance(by: .milliseconds(seconds * 1_000 - 1_400))
            if seconds <= 8 { gates[number].open() }
            let response = try #require(client.readResponse())
            gates[number].open()
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            return response
        }
        for number in 0..<20 { _ = try poll(number, seconds: 4) }
        let response = try poll(20, seconds: 4)
        #expect(response["Cache-Status"]?.contains("slow") != true)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("are usually slow") == true } == true)
        #expect(detail(try poll(21, seconds: 9)) == "slow")
    }

    @Test("when a route fails, its stored responses are served at once, other routes are fetched, and recovery takes a second")
    func route() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) {
            var bad = Route()
            bad.name = "bad"
            bad.pattern = RoutePattern("/bad/**")
            $0.routes = [bad]
        }
        for number in 1...6 { _ = try play.get("/bad/\(number)/x") }
        play.time.advance(by: .seconds(11))
        origin.react { $0.target.hasPrefix("/bad") ? [.json("{}", status: Self.unavailable)] : [.json("1")] }
        for number in 1...5 {
            #expect(try play.get("/good").text == "1")
            #expect(detail(try play.get("/bad/\(number)/x")) == "server_error")
        }
        #expect(detail(try play.get("/bad/6/x")) == "route_failing")
        #expect(try play.get("/bad/new").status == 503)
        #expect(try play.request("PUT", "/bad/1/x", content: "{}").status == 503)
        #expect(origin.requests.last?.method == "PUT")
        #expect(try play.metric("cistern_route_state{route=\"bad\",state=\"open\"}") == 1)
        #expect(try play.metric("cistern_upstream_state{state=\"failing\"}") == 1)

        // The recovery is detected without a client's request.
        origin.react { _ in [.json("2")] }
        play.time.advance(by: .seconds(1))
        #expect(try play.waitFor("cistern_route_state{route=\"bad\",state=\"closed\"}", 1))
        #expect(try play.get("/bad/3/x").text == "2")
    }

    @Test("when everything fails, stored responses are served at once, and one check per recheck interval detects the return")
    func upstream() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        for number in 1...6 { _ = try play.get("/\(number)/x") }
        play.time.advance(by: .seconds(11))
        origin.react { _ in [.json("{}", status: Self.unavailable)] }
        for number in 1...5 { #expect(detail(try play.get("/\(number)/x")) == "server_error") }
        #expect(detail(try play.get("/6/x")) == "upstream_failing")
        #expect(try play.metric("cistern_upstream_state{state=\"down\"}") == 0)
        let before = origin.requests.count
        for _ in 1...3 {
            // The previous check has ended: only one check runs at a time.
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            let now = origin.requests.count
            play.time.advance(by: .seconds(1))
            #expect(origin.waitForRequests(now + 1))
        }
        #expect(origin.requests.count == before + 3)
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        origin.react { _ in [.json("2")] }
        play.time.advance(by: .seconds(1))
        #expect(try play.waitFor("cistern_failure_scopes{scope=\"upstream\"}", 0))
        for number in 1...6 { #expect(try play.get("/\(number)/x").text == "2") }
    }

    @Test("a 429 for one client is not remembered; a 500 and a login redirect count as failures")
    func causes() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        for target in ["/a", "/b", "/c"] { _ = try play.get(target) }
        origin.react { _ in [.json("{}", status: "429 No")] }
        for _ in 1...20 { #expect(try play.get("/a").text == "1") }
        #expect(origin.requests.count == 23)
        origin.react { _ in [.json("{}", status: "500 No")] }
        for _ in 1...2 { #expect(try play.get("/b").text == "1") }
        #expect(detail(try play.get("/b")) == "key_failing")
        origin.react { _ in [.send("HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nContent-Length: 0\r\n\r\n")] }
        for _ in 1...2 { #expect(try play.get("/c").text == "1") }
        #expect(detail(try play.get("/c")) == "key_failing")
    }

    @Test("other 5xx statuses are rescued if a response is stored, else passed on", arguments: [507, 508, 509, 520, 525, 530, 598, 599])
    func trouble(status: Int) throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in [.json("{}", status: "\(status) No")] }
        #expect(try play.get("/a").text == "1")
        #expect(try play.get("/b").status == status)
    }

    @Test("with the failure memory disabled every request is sent")
    func off() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin) { $0.upstream.failure.isOn = false }
        _ = try play.get("/a")
        origin.react { _ in [.json("{}", status: Self.unavailable, ["Retry-After: 100"])] }
        for _ in 1...20 { #expect(try play.get("/a").text == "1") }
        #expect(origin.requests.count == 21)
        #expect(JSONValue(try play.admin("GET", "/-/upstream").content)?["memory"] == false)
    }

    @Test("followers of an unshareable failure receive the upstream's response, not a proxy error")
    func followers() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("{\"busy\":1}", status: Self.unavailable, ["Retry-After: 7"])] }
        let play = try ProxyPlay(origin)
        let clients = try (0..<8).map { _ in
            return try play.client(getting: "/a")
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 7))
        gate.open()
        for client in clients {
            let response = try #require(client.readResponse())
            #expect(response.status == 503 && response.text == "{\"busy\":1}" && response["Retry-After"] == "7")
        }
    }

    @Test("an active probe affects only the failure scope of its own path")
    func activeProbe() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", status: "404 Not Found")] }
        let play = try ProxyPlay(origin) {
            $0.background.probe.path = "/health"
        }
        #expect(try play.waitFor("cistern_upstream_responses_total{status_class=\"4xx\"}", 1))
        play.time.advance(by: .seconds(10))
        #expect(try play.waitFor("cistern_failure_scopes{scope=\"key\"}", 1))
        #expect(origin.requests.allSatisfy { $0.target == "/health" })
        origin.react { _ in [.json("{}")] }
        #expect(try play.get("/a").status == 200)
    }

    // MARK: Listing and resetting

    @Test("a failure scope is listed with cause and setting, and requests resume after its reset")
    func reset() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.react { _ in [.json("{}", status: Self.unavailable)] }
        for _ in 1...2 { _ = try play.get("/a") }
        #expect(try open(play, .key) == 1)
        #expect(try play.metric("cistern_failure_scopes_opened_total{scope=\"key\"}") == 1)
        let scope = try #require(JSONValue(try play.admin("GET", "/-/upstream").content)?["scopes"]?.array?.first)
        #expect(scope["scope"] == "key:/a" && scope["kind"] == "key")
        #expect(scope["cause"] == "status_503" && scope["setting"] == "failure.recheck")
        #expect(scope["effect"]?.string?.hasPrefix("the stored response for this request is served at once") == true)
        let stats = JSONValue(try play.admin("GET", "/-/stats").content)?["upstream"]
        #expect(stats?["failing"]?["key"] == 1 && stats?["state"] == "up" && stats?["up"] == true)

        let unknown = try play.admin("POST", "/-/upstream/reset?scope=key:/b")
        #expect(unknown.status == 404 && unknown.text.contains("key:/a"))
        #expect(JSONValue(try play.admin("POST", "/-/upstream/reset?scope=pause").content)?["reset"] == 0)
        #expect(JSONValue(try play.admin("POST", "/-/upstream/reset?scope=key:/a").content)?["reset"] == 1)
        origin.react { _ in [.json("2")] }
        #expect(try play.get("/a").text == "2")
    }
}
