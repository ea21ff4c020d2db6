// Tests of what scripts of other origins can read: by the upstream's CORS fields, which also apply to generated responses, and by the
// operator's rules.

import CachePolicy
import Forwarding
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("CORS access", .play, .clientProtocols)
struct CrossOriginTests {
    private static let (app, other) = ("https://app.test", "https://other.test")

    private func from(_ origin: String, _ more: [(String, String)] = []) -> [(String, String)] { [("Origin", origin)] + more }

    /// Permits scripts of the app's origin only. `/late` sends CORS fields only to requests with Origin, and lacks Vary.
    private func upstream() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let isApp = request["Origin"] == Self.app
            let leave = isApp ? ["Access-Control-Allow-Origin: \(Self.app)", "Access-Control-Allow-Credentials: true"] : []
            switch request.target.dropFirst().prefix(4) {
            case "late": return [.json("1", ["ETag: \"1\""] + (request["Origin"] == nil ? [] : ["Access-Control-Allow-Origin: *"]))]
            case "stor": return [.json("1", leave + ["Cache-Control: no-store"])]
            default: return [.json("1", leave + ["Vary: Origin", "ETag: \"1\""])]
            }
        }
    }

    private func leaves(_ response: TestResponse) -> [String] { response.all("Access-Control-Allow-Origin") }

    // MARK: Permissions by the upstream

    @Test("an error without a stored response is readable by the origin that could read the path's last good response")
    func ownError() throws {
        let play = try ProxyPlay(upstream())
        _ = try play.get("/store/1?a=1", from(Self.app))
        _ = try play.get("/store/1?a=1", from(Self.other))
        play.origin.down()
        let error = try play.get("/store/1?a=2", from(Self.app))
        #expect(error.status >= 502 && leaves(error) == [Self.app] && error["Access-Control-Allow-Credentials"] == "true")
        #expect(error.all("Vary").contains("Origin") && error.text.contains("and no response is stored for this request."))
        #expect(try play.metric("cistern_carried_grants_total") == 1)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(
            why?["explanation"]?.array?.contains { $0.string?.hasPrefix("Scripts of the request's origin may read it") == true } == true)
        // Neither for another origin nor without one.
        #expect(try leaves(play.get("/store/1?a=1", from(Self.other))).isEmpty)
        #expect(try leaves(play.get("/store/1?a=1")).isEmpty)
        #expect(try leaves(play.get("/store/2", from(Self.app))).isEmpty)
    }

    @Test("CORS permission of one host does not apply to another host")
    func hosts() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let leave = request["Host"] == "a.test" ? ["Access-Control-Allow-Origin: \(Self.app)"] : []
                return [.json("1", leave + ["Vary: Origin", "Cache-Control: no-store"])]
            }
        ) { $0.forwarding.preserveHost = true }
        for host in ["b.test", "a.test"] { _ = try play.get("/a", from(Self.app, [("Host", host)])) }
        play.origin.down()
        #expect(try leaves(play.get("/a", from(Self.app, [("Host", "b.test")]))).isEmpty)
        #expect(try leaves(play.get("/a", from(Self.app, [("Host", "A.test")]))) == [Self.app])
    }

    @Test("CORS permission for all origins is given without credentials")
    func forAll() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [.json("1", ["Cache-Control: no-store", "Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true"])]
            })
        _ = try play.get("/a", from(Self.app))
        play.origin.down()
        let error = try play.get("/a", from(Self.app))
        #expect(leaves(error) == ["*"] && error["Access-Control-Allow-Credentials"] == nil)
    }

    @Test("a good response without CORS permission revokes it; a failed response does not")
    func takenBack() throws {
        let play = try ProxyPlay(upstream())
        _ = try play.get("/store", from(Self.app))
        play.origin.react { _ in [.json("1", status: "503 Service Unavailable")] }
        _ = try play.get("/store", from(Self.app))
        play.origin.down()
        #expect(try leaves(play.get("/store", from(Self.app))) == [Self.app])
        play.origin.up()
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [.json("1", ["Cache-Control: no-store"])] }
        _ = try play.get("/store", from(Self.app))
        play.origin.down()
        #expect(try leaves(play.get("/store", from(Self.app))).isEmpty)
    }

    @Test("rescues, confirmed responses and 304s carry the target's CORS permission, also if stored without it")
    func stored() throws {
        let play = try ProxyPlay(upstream())
        _ = try play.get("/late?a=1")
        // Nothing is stored, but the script's permission is remembered.
        #expect(try leaves(play.get("/late?a=1", from(Self.app, [("Cache-Control", "no-store")]))) == ["*"])
        play.origin.react { request in
            request["If-None-Match"] == nil ? [.json("1", ["ETag: \"1\""])] : [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")]
        }
        #expect(try leaves(play.get("/late?a=1", from(Self.app))) == ["*"])
        let condition = try play.get("/late?a=1", from(Self.app, [("If-None-Match", "\"1\"")]))
        #expect(condition.status == 304 && leaves(condition) == ["*"] && condition.all("Vary").contains("Origin"))
        play.origin.down()
        let rescue = try play.get("/late?a=1", from(Self.app))
        #expect(rescue.status == 200 && leaves(rescue) == ["*"] && rescue.all("Vary").contains("Origin"))
        // The upstream permitted neither this origin nor this target.
        #expect(try leaves(play.get("/late?a=1", from(Self.other))).isEmpty)
    }

    @Test("a stored CORS permission is sent once with Vary: Origin, also if the upstream omits Vary")
    func storedPermission() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let vary = request.target == "/told" ? ["Vary: Accept, Origin"] : []
                return [.json("1", ["Access-Control-Allow-Origin: \(request["Origin"] ?? "")"] + vary)]
            })
        for target in ["/told", "/untold"] { _ = try play.get(target, from(Self.app)) }
        play.origin.down()
        for (target, vary) in [("/told", "Accept, Origin"), ("/untold", "Origin")] {
            let rescue = try play.get(target, from(Self.app))
            #expect(rescue.status == 200 && leaves(rescue) == [Self.app] && rescue.all("Vary") == [vary])
            // Other origins cannot use the stored response.
            let other = try play.get(target, from(Self.other))
            #expect(other.status >= 502 && leaves(other).isEmpty)
        }
    }

    @Test("a 304 to a script's condition on a fresh response always carries the CORS permission")
    func freshCondition() throws {
        let origin = ScriptedOrigin { request in
            let leave = request["Origin"] == Self.app ? ["Access-Control-Allow-Origin: *"] : []
            return [.json("1", ["ETag: \"1\"", "Cache-Control: max-age=60"] + leave)]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        _ = try play.get("/a", from(Self.app, [("Cache-Control", "no-store, no-cache")]))
        for _ in 0..<4 {
            let condition = try play.get("/a", from(Self.app, [("If-None-Match", "\"1\"")]))
            #expect(condition.status == 304 && leaves(condition) == ["*"])
            #expect(try leaves(play.get("/a", from(Self.other, [("If-None-Match", "\"1\"")]))).isEmpty)
        }
    }

    /// Permits all origins, but sends CORS fields only to requests with Origin, as many frameworks do.
    private func shyUpstream(_ leave: @escaping @Sendable (String) -> [String]) -> ScriptedOrigin {
        ScriptedOrigin { request in
            let fields = ["ETag: \"1\"", "Cache-Control: max-age=60"] + (request["Origin"].map(leave) ?? [])
            return [.json("\"\(request["Origin"] ?? "none")\"", fields)]
        }
    }

    @Test("a fresh response stored without CORS fields is not a hit for an origin with unknown permission")
    func freshWithoutPermission() throws {
        let play = try ProxyPlay(shyUpstream { _ in ["Access-Control-Allow-Origin: *"] })
        #expect(try play.get("/a").text == "\"none\"")
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
        let first = try play.get("/a", from(Self.app))
        #expect(leaves(first) == ["*"] && first.text == "\"\(Self.app)\"")
        // The request was unconditional, because a 304 need not repeat CORS fields.
        #expect(play.origin.requests.last?["If-None-Match"] == nil)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("was sent for another Origin, or for none") == true } == true)
        // The new response is for all origins.
        for origin in [Self.app, Self.other] { #expect(try leaves(play.get("/a", from(origin))) == ["*"]) }
        #expect(try play.get("/a").text == "\"\(Self.app)\"" && play.origin.requests.count == 2)
    }

    @Test("a known CORS permission also applies to the next stored response; without permission hits are served")
    func knownPermission() throws {
        let play = try ProxyPlay(shyUpstream { $0 == Self.app ? ["Access-Control-Allow-Origin: *"] : [] })
        _ = try play.get("/a", from(Self.app))
        play.time.advance(by: .seconds(61))
        play.origin.react { _ in [.json("2", ["Cache-Control: max-age=60"])] }
        #expect(try play.get("/a").text == "2")
        let count = play.origin.requests.count
        for _ in 0..<3 {
            let hit = try play.get("/a", from(Self.app))
            #expect(hit.text == "2" && leaves(hit) == ["*"] && hit.all("Vary") == ["Origin"])
        }
        #expect(play.origin.requests.count == count)
        // The first request of this origin asks the upstream. Then it is known that there is no permission.
        for _ in 0..<3 { #expect(try leaves(play.get("/a", from(Self.other))).isEmpty) }
        #expect(play.origin.requests.count == count + 1)
    }

    @Test("a response stored without CORS fields still rescues, and requests of two origins do not collapse")
    func withoutPermission() throws {
        let play = try ProxyPlay(shyUpstream { ["Access-Control-Allow-Origin: \($0)", "Vary: Origin"] })
        _ = try play.get("/a")
        play.origin.down()
        #expect(try play.get("/a", from(Self.app)).text == "\"none\"")
        play.origin.up()
        let gate = Gate()
        play.origin.react { [.pass(gate), .json("3", ["Access-Control-Allow-Origin: \($0["Origin"] ?? "")"])] }
        let clients = try [Self.app, Self.other, Self.app].map { origin in
            let client = try play.client(sending: "GET /b HTTP/1.1\r\nHost: a\r\nOrigin: \(origin)\r\n\r\n")
            return (client, origin)
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        for (client, origin) in clients { #expect(try leaves(#require(client.readResponse())) == [origin]) }
    }

    @Test("if Vary: Origin is sent only to scripts, responses of apps and scripts do not replace each other")
    func varyForScriptsAlone() throws {
        let play = try ProxyPlay(shyUpstream { ["Access-Control-Allow-Origin: \($0)", "Vary: Origin"] })
        for _ in 0..<2 {
            _ = try play.get("/a")
            _ = try play.get("/a", from(Self.app))
            _ = try play.get("/a", from(Self.other))
            play.time.advance(by: .seconds(61))
        }
        _ = try play.get("/a")
        play.origin.down()
        for origin in [Self.app, Self.other] {
            let rescue = try play.get("/a", from(origin))
            #expect(rescue.text == "\"\(origin)\"" && leaves(rescue) == [origin])
        }
        #expect(try play.get("/a").text == "\"none\"")
    }

    @Test("a script's first response leaves the apps' stored response unchanged, whether fresh or stale")
    func firstScript() throws {
        let play = try ProxyPlay(shyUpstream { ["Access-Control-Allow-Origin: \($0)", "Vary: Origin"] })
        for target in ["/a", "/b"] { _ = try play.get(target) }
        #expect(try play.admin("POST", "/-/purge?target=/b&soft=true").status == 200)
        for target in ["/a", "/b"] { _ = try play.get(target, from(Self.app)) }
        let count = play.origin.requests.count
        #expect(try play.get("/a").text == "\"none\"" && play.origin.requests.count == count)
        play.origin.down()
        let rescue = try play.get("/b")
        #expect(rescue.text == "\"none\"")
        // The upstream was tried first.
        #expect(rescue["Cache-Status"]?.contains("connection_refused") == true)
    }

    // MARK: Permissions by the operator

    private func ruled(_ origin: ScriptedOrigin, _ change: (inout CrossOriginRules) -> Void = { _ in }) throws -> ProxyPlay {
        var rules = CrossOriginRules()
        rules.origins = [Array(Self.app.utf8)]
        rules.methods = [Array("PUT".utf8)]
        rules.fields = [Array("*".utf8)]
        change(&rules)
        return try ProxyPlay(origin) { [rules] in $0.otherRoute.crossOrigin = rules }
    }

    @Test("configured CORS rules replace the upstream's CORS fields on every response, including errors")
    func everywhere() throws {
        let origin = ScriptedOrigin { request in
            let said = ["Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: X", "ETag: \"1\""]
            switch request.target {
            case "/fresh": return [.json("1", said + ["Cache-Control: max-age=60"])]
            case "/stream": return [.answer("data", type: "text/event-stream", said)]
            case "/store": return [.json("1", said + ["Cache-Control: no-store"])]
            default: return [.json("1", said)]
            }
        }
        let play = try ruled(origin) { $0.allowsCredentials = true }
        func check(_ target: String, _ fields: [(String, String)] = [], status: ClosedRange<Int> = 200...200) throws {
            for (sent, expected) in [(Self.app, [Self.app]), (Self.other, []), ("", [])] {
                let response = try play.get(target, (sent.isEmpty ? [] : from(sent)) + fields)
                #expect(status.contains(response.status) && leaves(response) == expected, "\(target) from \(sent)")
                #expect(response.all("Access-Control-Allow-Credentials") == (expected.isEmpty ? [] : ["true"]))
                #expect(response.all("Vary").contains("Origin"))
                // This field comes from the upstream only, so our own errors lack it.
                #expect(response["Access-Control-Expose-Headers"] == (response.status < 400 ? "X" : nil), "\(target) \(response.status)")
            }
        }
        for _ in 0..<4 { try check("/fresh") }
        for target in ["/plain", "/store", "/stream"] { try check(target) }
        try check("/fresh", [("If-None-Match", "\"1\"")], status: 304...304)
        origin.down()
        try check("/plain")
        try check("/store", status: 502...504)
    }

    @Test("preflights are answered locally, whether the upstream is up or down")
    func preflights() throws {
        let play = try ruled(ScriptedOrigin { _ in [.json("1")] }) { $0.fields = ["authorization", "x-a"].map { Array($0.utf8) } }
        func ask(_ origin: String, _ method: String, _ fields: String = "X-A, authorization") throws -> TestResponse {
            try play.request(
                "OPTIONS", "/a",
                from(origin, [("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", fields)]))
        }
        play.origin.down()
        let allowed = try ask(Self.app, "PUT")
        #expect(allowed.status == 200 && leaves(allowed) == [Self.app] && allowed["Access-Control-Max-Age"] == "600")
        #expect(allowed["Access-Control-Allow-Methods"] == "PUT" && allowed["Access-Control-Allow-Headers"] == "x-a, authorization")
        #expect(try ask(Self.app, "GET").status == 200)
        for (refused, words) in try [
            (ask(Self.other, "PUT"), "cors.origins"), (ask(Self.app, "DELETE"), "cors.methods"),
            (ask(Self.app, "PUT", "x-b"), "cors.fields"),
        ] {
            #expect(refused.status == 403 && refused.text.contains(words) && refused["Access-Control-Allow-Methods"] == nil)
        }
        #expect(try leaves(ask(Self.other, "PUT")).isEmpty && play.origin.requests.isEmpty)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("cors.origins") == true } == true)
        #expect(try play.metric("cistern_requests_total{result=\"own\",method=\"OPTIONS\",status_class=\"4xx\"}") == 4)
        // An OPTIONS request that is not a preflight goes to the upstream.
        play.origin.up()
        #expect(try play.request("OPTIONS", "/a", from(Self.app)).status == 200 && play.origin.requests.count == 1)
    }

    @Test("* permits every origin except null, which must be listed")
    func anyOrigin() throws {
        for isNamed in [false, true] {
            let play = try ruled(ScriptedOrigin { _ in [.json("1")] }) {
                $0.origins = [Array("*".utf8)] + (isNamed ? [Array("null".utf8)] : [])
            }
            #expect(try leaves(play.get("/a", from(Self.other))) == ["*"])
            #expect(try leaves(play.get("/a", from("null"))) == (isNamed ? ["null"] : []))
        }
    }

    @Test("a route can have its own CORS rules")
    func perRoute() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Access-Control-Allow-Origin: *"])] }) { settings in
            var route = Route()
            (route.name, route.pattern) = ("web", RoutePattern("/web/**"))
            route.crossOrigin.origins = [Array(Self.app.utf8)]
            settings.routes = [route]
        }
        #expect(try leaves(play.get("/web/1", from(Self.app))) == [Self.app] && leaves(play.get("/web/1", from(Self.other))).isEmpty)
        #expect(try leaves(play.get("/elsewhere", from(Self.other))) == ["*"])
    }
}
