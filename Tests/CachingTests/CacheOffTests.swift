// Tests of routes with `cache: off`: their requests are forwarded as if there were no cache, and what was stored for them is purged.

import Administration
import CachePolicy
import HTTPCore
import JSON
import ReverseProxy
import Server
import TestSupport
import Testing

@Suite("Routes with cache: off", .play)
struct CacheOffTests {
    private static func route(_ path: String, usesCache: Bool = false, name: String = "off") -> Route {
        var route = Route()
        (route.name, route.pattern, route.usesCache) = (name, RoutePattern(path), usesCache)
        return route
    }

    private static let passedOn = "cistern; fwd=bypass; detail=cache_off"

    private static func excluding(_ routes: Route...) -> (inout ProxySettings) -> Void { { $0.routes = routes } }

    private static func counting(_ fields: [String] = ["Cache-Control: max-age=600"]) -> ScriptedOrigin {
        let count = Counter()
        return ScriptedOrigin { _ in [.json("{\"n\":\(count.next())}", fields)] }
    }

    private func stored(_ play: ProxyPlay) throws -> [String] {
        let list = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        return list["entries"]?.array?.compactMap { $0["target"]?.string } ?? []
    }

    @Test("only-if-cached has no effect")
    func onlyIfCached() throws {
        let play = try ProxyPlay(Self.counting(), Self.excluding(Self.route("/pay/**")))
        let response = try play.get("/pay/1", [("Cache-Control", "only-if-cached")])
        #expect(response.status == 200 && response["Cache-Status"] == Self.passedOn)
    }

    @Test(
        "nothing is stored or served from the store, whatever the method and the spelling of the path",
        arguments: [
            ("GET", "/pay/1"), ("GET", "/%70ay/1"), ("GET", "/x/../pay/1"), ("GET", "/pay;v=1/1"), ("GET", "/pay/1?a=1"),
            ("GET", "/%2570ay/1"), ("GET", "/x/%252e%252e/pay/1"), ("GET", "/x/.%09./pay/1"),
            ("HEAD", "/pay/1"), ("QUERY", "/pay/1"), ("POST", "/pay/1"),
        ])
    func passed(_ row: (method: String, target: String)) throws {
        let origin = Self.counting(["Cache-Control: max-age=600", "Content-Location: /pay/1"])
        let play = try ProxyPlay(origin, Self.excluding(Self.route("/pay/**")))
        for _ in 1...2 {
            let content = row.method == "QUERY" || row.method == "POST" ? "{}" : nil
            let response = try play.request(row.method, row.target, [("Content-Type", "application/json")], content: content)
            #expect(response.status == 200 && response["Cache-Status"] == Self.passedOn, "\(response)")
        }
        #expect(play.origin.requests.count == 2)
        #expect(try stored(play).isEmpty)
        #expect(try play.metric("cistern_not_stored_total{reason=\"cache_off\"}") == 2)
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["explanation"]?.array?.contains { $0.string?.contains("The route has cache: off") == true } == true)
    }

    @Test("other paths, and an earlier route below the path, use the cache")
    func others() throws {
        let routes = Self.excluding(Self.route("/pay/rates", usesCache: true, name: "rates"), Self.route("/pay/**"))
        let play = try ProxyPlay(Self.counting(), routes)
        for target in ["/a", "/pay/rates"] {
            let first = try play.get(target).text
            #expect(try play.get(target).text == first, "\(target)")
        }
    }

    @Test("preflights are forwarded each time")
    func preflights() throws {
        let play = try ProxyPlay(
            Self.counting(["Access-Control-Allow-Origin: *", "Access-Control-Max-Age: 600"]), Self.excluding(Self.route("/pay/**")))
        let fields = [("Origin", "http://app.test"), ("Access-Control-Request-Method", "PUT")]
        for _ in 1...2 { #expect(try play.request("OPTIONS", "/pay/1", fields).status == 200) }
        #expect(play.origin.requests.count == 2)
    }

    @Test("concurrent requests are not collapsed")
    func separate() throws {
        let gate = Gate()
        let count = Counter()
        let origin = ScriptedOrigin { _ in
            let number = count.next()
            return [.pass(gate), .json("{\"n\":\(number)}", ["Cache-Control: max-age=600"])]
        }
        let play = try ProxyPlay(origin, Self.excluding(Self.route("/nonce")))
        let clients = try (0..<5).map { _ in
            return try play.client(getting: "/nonce")
        }
        #expect(origin.waitForRequests(5))
        gate.open()
        #expect(Set(clients.compactMap { $0.readResponse()?.text }).count == 5)
    }

    @Test("a failure reaches the client, and a known outage does not stop the request")
    func failures() throws {
        let origin = ScriptedOrigin { [.json("{}", status: $0.target == "/pay/5" ? "503 Service Unavailable" : "200 OK")] }
        let play = try ProxyPlay(origin, Self.excluding(Self.route("/pay/**")))
        #expect(try play.get("/pay/5").status == 503)
        #expect(try play.get("/pay/1").status == 200)
        origin.down()
        for number in 1...6 { #expect(try play.get("/pay/\(number)").status == 502) }
        #expect(try play.get("/other").status == 503)
        // The first request that reaches the upstream ends the known outage for all paths.
        origin.up()
        #expect(try play.get("/pay/1").status == 200)
        #expect(try play.get("/other").status == 200)
    }

    @Test("a reload purges what is stored for the paths, in the memory of repeated hits too, and keeps everything else")
    func reloaded() throws {
        let play = try ProxyPlay(Self.counting())
        for target in ["/pay/1", "/pay/2?a=1", "/pay/rates", "/a"] {
            for _ in 1...3 { #expect(try play.get(target).text == play.get(target).text) }
        }
        _ = try play.get("/pay/1", [("Authorization", "Bearer t")])
        #expect(try stored(play).count == 5)
        let reload = play.reload { $0.settings.routes = [Self.route("/pay/rates", usesCache: true, name: "rates"), Self.route("/pay/**")] }
        #expect(reload?.label == "applied")
        #expect(try stored(play) == ["/a", "/pay/rates"])
        #expect(try play.get("/pay/1")["Cache-Status"] == Self.passedOn)
        play.origin.down()
        #expect(try play.get("/pay/1").status == 502 && play.get("/a").status == 200)
        // With the cache on again, nothing from before comes back.
        #expect(play.reload { $0.settings.routes = [] }?.label == "applied")
        #expect(try play.get("/pay/1").status >= 502)
    }

    @Test("a response that is on its way during the reload is not stored")
    func inFlight() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        let play = try ProxyPlay(origin)
        let slow = try play.client(getting: "/pay/1")
        asked.pass()
        #expect(play.reload { $0.settings.routes = [Self.route("/pay/**")] }?.label == "applied")
        gate.open()
        #expect(slow.readResponse()?.status == 200)
        #expect(try stored(play).isEmpty)
    }

    @Test("a start with the setting purges what an earlier process has stored, also after a crash")
    func restarted() throws {
        final class Routes { var routes: [Route] = [] }
        let routes = Routes()
        let play = try ProxyPlay(Self.counting()) { $0.routes = routes.routes }
        for target in ["/pay/1", "/a"] { _ = try play.get(target) }
        #expect(try stored(play) == ["/a", "/pay/1"])
        routes.routes = [Self.route("/pay/**")]
        try play.restart()
        #expect(try (0..<5_000).contains { _ in try stored(play) == ["/a"] })
        routes.routes = []
        try play.restart()
        #expect(try stored(play) == ["/a"])
    }

    @Test("archived responses for the paths are not imported")
    func imported() throws {
        let play = try ProxyPlay(Self.counting(), Self.excluding(Self.route("/pay/**")))
        func bring(_ target: String) throws -> String? {
            let entry = """
                {"startedDateTime": "2025-06-15T15:06:00Z", "time": 20,
                "request": {"method": "GET", "url": "https://api.test\(target)", "headers": []},
                "response": {"status": 200, "headers": [{"name": "Content-Type", "value": "application/json"}], "content": {"text": "{}"}}}
                """
            return JSONValue(try play.admin("POST", "/-/entries?origin=https%3A%2F%2Fapi.test", content: entry).content)?["reason"]?.string
        }
        #expect(try bring("/pay/1") == "cache_off")
        #expect(try bring("/a") == nil)
        #expect(try stored(play) == ["/a"])
    }
}
