// The state of an upstream over real sockets. In each outage the gauge, the page, `/-/upstream`, `/-/stats` and the log agree. Only
// attempts change the state.

import Downstream
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Reporting the state of the upstream", .play)
struct UpstreamReportTests {
    private static let unavailable = "503 Service Unavailable"

    /// A play, and its outputs.
    private struct Scene {
        let origin: ScriptedOrigin
        let play: ProxyPlay
        let said = CapturedLines()

        init(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws {
            origin = ScriptedOrigin { _ in [.json("1")] }
            play = try ProxyPlay(origin, log: said) { settings in
                settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
                configure(&settings)
            }
        }

        /// Stores responses and advances the clock.
        func warm(_ fields: [(String, String)] = []) throws {
            for number in 1...6 { _ = try play.get("/\(number)", fields) }
            play.time.advance(by: .seconds(20))
        }

        /// One request every four seconds, each with its background work.
        func ask(_ targets: [String], times: Int = 1, _ fields: [(String, String)] = []) throws {
            for _ in 0..<times {
                for target in targets {
                    _ = try play.get(target, fields)
                    try pass(4)
                }
            }
        }

        /// Cistern's own pages have a separate address.
        func metric(_ name: String) throws -> Double? {
            let page = try #require(TestClient(port: play.adminPort).get("/metrics")).text
            let line = page.split(separator: "\n").first { $0.hasPrefix(name + " ") }
            return line.flatMap { Double($0.dropFirst(name.utf8.count + 1)) }
        }

        private func waitForRest() throws {
            for _ in 0..<2_000 where try metric("cistern_upstream_active_requests") == 0 { return }
            Issue.record("a request to the upstream does not end")
        }

        /// Advances the clock and waits for the resulting work.
        func pass(_ seconds: Int) throws {
            for _ in 0..<(seconds / 4) {
                try waitForRest()
                play.time.advance(by: .seconds(4))
            }
            try waitForRest()
        }

        /// The state in all outputs; an output that differs fails the test.
        func state(sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
            let upstream = JSONValue(try play.admin("GET", "/-/upstream").content)
            let stats = JSONValue(try play.admin("GET", "/-/stats").content)
            let state = upstream?["state"]?.string ?? ""
            let isDown = state == "down" || upstream?["was_down"] == true
            #expect(stats?["upstream"]?["state"]?.string == state, sourceLocation: sourceLocation)
            #expect(upstream?["up"] == .bool(!isDown) && stats?["upstream"]?["up"] == .bool(!isDown), sourceLocation: sourceLocation)
            for other in ["up", "failing", "down", "unknown"] {
                let expected = state == other ? 1.0 : 0
                #expect(try metric("cistern_upstream_state{state=\"\(other)\"}") == expected, sourceLocation: sourceLocation)
            }
            #expect(try metric("cistern_upstream_up") == (isDown ? 0 : 1), sourceLocation: sourceLocation)
            let since = try metric("cistern_upstream_state_since_seconds") ?? -1
            #expect((since > 0) == (upstream?["since"]?.string != nil) && since >= 0, sourceLocation: sourceLocation)
            let sentence = stats?["state"]?["sentence"]?.string ?? ""
            let page = try #require(TestClient(port: play.adminPort).get("/-/status")).text
            let words = isDown && state == "unknown" ? "unknown (last: down)" : state
            let (told, badge) =
                switch words {
                case "up": ("The upstream is up", "Up")
                case "failing": ("The upstream has been failing for", "Failing")
                case "down": ("The upstream has been down for", "Down")
                case "unknown": ("has received no request yet", "No request yet")
                default: ("The state of the upstream is unknown: it was down at the last request", "Unknown (last: down)")
                }
            #expect(sentence.contains(told), sourceLocation: sourceLocation)
            #expect(page.contains(sentence) && page.contains(badge), sourceLocation: sourceLocation)
            return words
        }
    }

    private static func treat(_ origin: ScriptedOrigin, _ kind: String) {
        switch kind {
        case "refused": origin.down()
        case "HTML": origin.react { _ in [.answer("<p>down</p>", type: "text/html")] }
        case "reset": origin.react { _ in [.close] }
        default: origin.react { _ in [.json("{}", status: Self.unavailable)] }
        }
    }

    @Test(
        "when everything fails, the state is down within a minute, with one log line per change",
        arguments: ["503", "HTML", "reset", "refused"])
    func outage(kind: String) throws {
        let scene = try Scene()
        try scene.warm()
        #expect(try scene.state() == "up")
        Self.treat(scene.origin, kind)
        try scene.ask(["/1", "/2", "/3"], times: 5)
        #expect(try scene.state() == "down")
        try scene.ask(["/1", "/2", "/3"], times: 5)
        #expect(try scene.state() == "down")
        #expect(scene.said.count(of: "the upstream is") == 1 && scene.said.count(of: "the upstream is down (") == 1)
        scene.origin.react { _ in [.json("2")] }
        if kind == "refused" { scene.origin.up() }
        try scene.pass(4)
        try scene.ask(["/new", "/1"])
        #expect(try scene.state() == "up")
        #expect(scene.said.count(of: "the upstream is") == 2 && scene.said.count(of: "the upstream is up again: it was down for") == 1)
    }

    @Test("an outage from the start is reported as down, also with writes only", arguments: ["GET", "POST"])
    func cold(method: String) throws {
        let scene = try Scene()
        #expect(try scene.state() == "unknown")
        Self.treat(scene.origin, "503")
        for number in 0..<15 {
            #expect(try scene.play.request(method, "/\(number)", content: method == "GET" ? nil : "{}").status == 503)
            try scene.pass(4)
        }
        #expect(try scene.state() == "down")
        #expect(scene.said.count(of: "the upstream is") == 1)
    }

    @Test("down and without requests, the upstream stays down until the health check after a minute succeeds")
    func silence() throws {
        let scene = try Scene()
        try scene.warm()
        Self.treat(scene.origin, "503")
        for _ in 0..<12 { for number in 1...6 { _ = try scene.play.get("/\(number)") } }
        try scene.pass(12)
        for number in 1...6 { _ = try scene.play.get("/\(number)") }
        try scene.pass(12)
        #expect(try scene.state() == "down")
        let before = scene.origin.requests.count
        try scene.pass(60)
        #expect(try scene.state() == "down")
        try scene.pass(600)
        #expect(try scene.state() == "down", "every health check fails")
        #expect((5...25).contains(scene.origin.requests.count - before))
        scene.origin.react { _ in [.json("2")] }
        try scene.pass(80)
        #expect(try scene.state() == "up")
        #expect(scene.said.count(of: "the upstream is") == 2)
    }

    @Test("without a request for a health check the state is unknown after five minutes, and counts as down until the next attempt")
    func noRequestForCheck() throws {
        let scene = try Scene()
        let fields = [("Authorization", "Bearer a")]
        try scene.warm(fields)
        Self.treat(scene.origin, "503")
        try scene.ask(["/1", "/2", "/3"], times: 5, fields)
        #expect(try scene.state() == "down")
        try scene.pass(320)
        #expect(try scene.state() == "unknown (last: down)")
        #expect(scene.said.count(of: "the upstream is in an unknown state") == 1)
        scene.origin.react { _ in [.json("2")] }
        try scene.ask(["/1"], fields)
        #expect(try scene.state() == "up")
    }

    @Test("a failing probe keeps the state down, and a successful one ends it, without clients")
    func probe() throws {
        let scene = try Scene { $0.background.probe.path = "/probe" }
        try scene.warm()
        Self.treat(scene.origin, "503")
        try scene.pass(400)
        #expect(try scene.state() == "down")
        scene.origin.react { _ in [.json("2")] }
        try scene.pass(12)
        #expect(try scene.state() == "up")
    }

    @Test("with one failing path of three the state is failing, and up again after enough successes")
    func path() throws {
        let scene = try Scene()
        try scene.warm()
        let good: @Sendable (OriginRequest) -> [OriginStep] = { _ in [.json("1", ["Cache-Control: no-store"])] }
        scene.origin.react { $0.target.hasPrefix("/bad") ? [.json("{}", status: Self.unavailable)] : good($0) }
        try scene.ask(["/a", "/bad", "/b"], times: 10)
        #expect(try scene.state() == "failing")
        #expect(scene.said.count(of: "the upstream is") == 1)
        scene.origin.react(good)
        try scene.ask(["/a", "/bad", "/b"], times: 20)
        #expect(try scene.state() == "up")
        #expect(scene.said.count(of: "the upstream is") == 2)
    }

    @Test("if only one client's requests fail, a health check with another request keeps the state from being down")
    func singleClientFails() throws {
        let scene = try Scene()
        try scene.warm()
        scene.origin.react { $0.target.contains("odd") ? [.json("{}", status: Self.unavailable)] : [.json("1")] }
        for number in 0..<40 {
            for more in 0..<5 { _ = try scene.play.get("/1?odd=\(number)\(more)") }
            try scene.pass(4)
        }
        #expect(try scene.state() == "failing")
        #expect(scene.said.count(of: "is down") == 0)
    }

    @Test("a health check does not restore a response purged since its request was recorded")
    func purged() throws {
        let confirmed = OriginStep.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
        let scene = try Scene()
        scene.origin.react { $0["If-None-Match"] == nil ? [.json("1", ["Cache-Control: no-cache", "ETag: \"a\""])] : [confirmed] }
        try scene.ask(["/1"], times: 2)
        #expect(JSONValue(try scene.play.admin("POST", "/-/purge?all=true").content)?["purged"] == 1)
        scene.origin.react { $0["If-None-Match"] == nil ? [.json("{}", status: Self.unavailable)] : [confirmed] }
        for number in 0..<15 { try scene.ask(["/other/\(number)"]) }
        try scene.pass(120)
        #expect(scene.origin.requests.filter { $0.target == "/1" }.count > 2, "no health check was sent")
        #expect(try scene.play.get("/1", [("Cache-Control", "only-if-cached")]).status == 504)
        #expect(try scene.state() == "down")
    }

    @Test("one client with many targets does not alone determine the health check requests")
    func manyTargetsOfOneClient() throws {
        let scene = try Scene()
        let other = { try TestClient(port: scene.play.port, from: "127.0.0.9") }
        #expect(try other().get("/honest")?.status == 200)
        for number in 0..<20 { try scene.ask(["/odd/\(number)"], times: 3) }
        scene.origin.react { $0.target.hasPrefix("/odd") ? [.json("{}", status: Self.unavailable)] : [.json("1")] }
        for number in 0..<40 {
            for more in 0..<5 { _ = try scene.play.get("/odd/\(number % 20)?\(more)=\(number)") }
            try scene.pass(4)
        }
        #expect(scene.said.count(of: "is down") == 0, "\(scene.said.all)")
        #expect(try scene.state() == "failing")
    }

    @Test("an idle upstream that is up is reported with the age of its last response")
    func quiet() throws {
        let scene = try Scene()
        try scene.warm()
        scene.play.time.advance(by: .seconds(7_200))
        #expect(try scene.state() == "up")
        let stats = JSONValue(try scene.play.admin("GET", "/-/stats").content)
        #expect(stats?["state"]?["sentence"] == "The upstream is up (last response 2 h ago).")
    }
}
