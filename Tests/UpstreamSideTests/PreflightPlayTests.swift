// Tests of preflights: stored for their max-age, and served when the upstream fails.

import CachePolicy
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Preflights, end to end", .play, .clientProtocols)
struct PreflightPlayTests {
    private static let app = "https://app.test"

    /// Permits every request.
    private func origin(_ lines: [String] = ["Access-Control-Max-Age: 60"], status: String = "204 No Content") -> ScriptedOrigin {
        ScriptedOrigin { request in
            guard request.method == "OPTIONS" else { return [.json("1")] }
            let fields = [
                "Access-Control-Allow-Origin: \(request["Origin"] ?? "")", "Access-Control-Allow-Methods: GET, PUT, DELETE",
                "Access-Control-Allow-Headers: \(request["Access-Control-Request-Headers"] ?? "")",
            ]
            return [.send((["HTTP/1.1 \(status)"] + fields + lines).joined(separator: "\r\n") + "\r\n\r\n")]
        }
    }

    private func ask(
        _ play: ProxyPlay, _ target: String = "/users/1?a=1", origin: String = app, method: String = "PUT",
        fields: String = "authorization",
        more: [(String, String)] = []
    ) throws -> TestResponse {
        let lines = [("Origin", origin), ("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", fields)]
        return try play.request("OPTIONS", target, lines + more)
    }

    @Test("a preflight response is reused during its lifetime, with the remaining Access-Control-Max-Age")
    func kept() throws {
        let play = try ProxyPlay(origin())
        let first = try ask(play)
        #expect(first.status == 204 && first["Access-Control-Max-Age"] == "60")
        play.time.advance(by: .seconds(50))
        for _ in 0..<3 {
            let kept = try ask(play)
            #expect(kept.status == 204 && kept["Access-Control-Max-Age"] == "10" && kept["Age"] == "50")
            #expect(kept["Access-Control-Allow-Origin"] == Self.app && kept["Access-Control-Allow-Methods"] == "GET, PUT, DELETE")
            #expect(kept["Cache-Status"] == "cistern; hit; ttl=10" && kept.all("Access-Control-Allow-Origin").count == 1)
        }
        #expect(play.origin.requests.count == 1)
        play.time.advance(by: .seconds(10))
        #expect(try ask(play)["Access-Control-Max-Age"] == "60" && play.origin.requests.count == 2)
        #expect(try play.metric("cistern_requests_total{result=\"hit\",method=\"OPTIONS\",status_class=\"2xx\"}") == 3)
    }

    @Test("without a lifetime a preflight response is stored for five seconds")
    func noLifetime() throws {
        let play = try ProxyPlay(origin([], status: "200 OK\r\nContent-Type: application/json\r\nContent-Length: 0"))
        for _ in 0..<2 { #expect(try ask(play).status == 200) }
        #expect(play.origin.requests.count == 1)
        play.time.advance(by: .seconds(5))
        #expect(try ask(play).status == 200 && play.origin.requests.count == 2)
    }

    @Test("a preflight response is not reused for another target, origin, method, fields or credentials")
    func others() throws {
        let play = try ProxyPlay(origin())
        _ = try ask(play)
        _ = try ask(play, "/users/1?a=2")
        _ = try ask(play, origin: "https://evil.test")
        _ = try ask(play, method: "DELETE")
        _ = try ask(play, fields: "authorization,x-more")
        _ = try ask(play, more: [("Authorization", "Bearer x")])
        _ = try play.request("OPTIONS", "/users/1?a=1", [("Origin", Self.app)])
        _ = try play.request("OPTIONS", "/users/1?a=1")
        #expect(play.origin.requests.count == 8)
        #expect(try ask(play, origin: "https://evil.test")["Access-Control-Allow-Origin"] == "https://evil.test")
        #expect(try ask(play, fields: "Authorization")["Access-Control-Allow-Origin"] == Self.app)
        #expect(play.origin.requests.count == 8)
    }

    @Test("a stored preflight response rescues at any age, after writes and a restart, with a short lifetime")
    func rescued() throws {
        let play = try ProxyPlay(origin()) { $0.otherRoute.invalidatesCollection = true }
        _ = try ask(play)
        // Writes to the target and to its members do not invalidate the preflight.
        #expect(try play.request("PUT", "/users/1?a=1", content: "{}").status == 200)
        #expect(try play.request("PUT", "/users/1/2", content: "{}").status == 200)
        #expect(try JSONValue(play.admin("GET", "/-/entries").content)?["entries"]?.array?.count == 1)
        play.flushStore()
        try play.restart()
        play.time.advance(by: .seconds(1_000_000))
        play.origin.down()
        let rescued = try ask(play)
        #expect(rescued.status == 204 && rescued["Access-Control-Allow-Origin"] == Self.app)
        #expect(rescued["Access-Control-Max-Age"] == nil && rescued["Cache-Status"]?.contains("connection_refused") == true)
        #expect(try ask(play, method: "DELETE").status == 502 || ask(play, method: "DELETE").status == 503)
    }

    @Test(
        "a bad response does not replace a stored preflight", arguments: ["503 Service Unavailable", "429 Too Many Requests", "302 Found"])
    func trouble(status: String) throws {
        let play = try ProxyPlay(origin())
        _ = try ask(play)
        play.time.advance(by: .seconds(100))
        play.origin.react { _ in [.answer("<p>", type: "text/html", status: status, ["Location: /login"])] }
        #expect(try ask(play).status == 204)
    }

    @Test("a denied preflight is passed on and not stored, and keeps the last permission")
    func refused() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send("HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n")] })
        for _ in 0..<2 { #expect(try ask(play)["Access-Control-Allow-Origin"] == nil) }
        #expect(play.origin.requests.count == 2)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("does not permit scripts") == true } == true)
        #expect(try play.metric("cistern_not_stored_total{reason=\"not_allowed\"}") == 2)
    }

    @Test("no-store applies to preflights, and a request's no-cache forces a fetch")
    func directives() throws {
        let play = try ProxyPlay(origin(["Access-Control-Max-Age: 60", "Cache-Control: no-store"]))
        for _ in 0..<2 { _ = try ask(play) }
        #expect(play.origin.requests.count == 2)
        let other = try ProxyPlay(origin(["Access-Control-Max-Age: 60", "Cache-Control: no-cache, max-age=0"]))
        for _ in 0..<2 { _ = try ask(other) }
        #expect(other.origin.requests.count == 1)
        _ = try ask(other, more: [("Cache-Control", "no-cache")])
        #expect(other.origin.requests.count == 2)
    }

    @Test("concurrent preflights collapse; strict mode stores none (RFC 9110 §9.3.7)")
    func collapsedAndStrict() throws {
        let gate = Gate()
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [.pass(gate), .send("HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Max-Age: 9\r\n\r\n")]
            })
        let clients = try (0..<3).map { _ in
            let client = try play.client()
            client.send("OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: \(Self.app)\r\nAccess-Control-Request-Method: GET\r\n\r\n")
            return client
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        gate.open()
        for client in clients { #expect(client.readResponse()?["Access-Control-Max-Age"] == "9") }
        #expect(play.origin.requests.count == 1)
        let strict = try ProxyPlay(origin()) { $0.policy.strictness = .strict }
        for _ in 0..<2 { _ = try ask(strict) }
        #expect(strict.origin.requests.count == 2)
    }
}
