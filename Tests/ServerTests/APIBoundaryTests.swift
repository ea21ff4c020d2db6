// Tests that several APIs, and several addresses of one API, are isolated: IDs, cookies, archives, redirects, modes, and requests that
// match no API.

import Addresses
import Administration
import CachePolicy
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Isolation of several APIs", .play)
struct APIBoundaryTests {
    /// Two APIs, `a` at /a and `b` at /b, whose path prefixes are stripped.
    private func play(
        _ origins: (ScriptedOrigin, ScriptedOrigin), _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(origins.0) { settings in
            settings.access.names = ServedNames()
            var apis = [settings, settings]
            for (place, name) in ["a", "b"].enumerated() {
                apis[place].apiName = name
                apis[place].scope.path = Array("/\(name)".utf8)
                apis[place].scope.isStripped = true
            }
            apis[1].upstream.port = origins.1.port
            settings.apis = apis
            configure(&settings)
        }
    }

    private static func origin(_ name: String) -> ScriptedOrigin {
        ScriptedOrigin { request in [.json("\"\(name) \(request.target)\"", ["Cache-Control: max-age=60"])] }
    }

    private static func list(_ response: TestResponse, _ name: String) -> [JSONValue] {
        JSONValue(response.content)?[name]?.array ?? []
    }

    private static func purged(_ response: TestResponse) -> Int? { JSONValue(response.content)?["purged"]?.integer }

    // MARK: Stored responses

    @Test("purging by ID removes the response only from the named API", arguments: ["", "&soft=true"])
    func ids(_ soft: String) throws {
        let play = try play((Self.origin("a"), Self.origin("b")))
        for target in ["/a/1", "/b/1"] { _ = try play.get(target) }
        play.flushStore()
        let entries = try Self.list(play.admin("GET", "/-/entries?api=b"), "entries")
        let id = try #require(entries.first?["id"]?.string)
        #expect(try Self.purged(play.admin("POST", "/-/purge?id=\(id)&api=a\(soft)")) == 0)
        #expect(try play.get("/b/1")["Cache-Status"]?.contains("hit") == true)
        #expect(try play.admin("GET", "/-/entries/\(id)").status == 200)
        #expect(try Self.purged(play.admin("POST", "/-/purge?id=\(id)\(soft)")) == 1)
        play.time.advance(by: .seconds(1))
        #expect(try play.get("/b/1")["Cache-Status"]?.contains("hit") != true)
        #expect(try play.get("/a/1")["Cache-Status"]?.contains("hit") == true)
    }

    @Test("listing and purging by all, prefix or target cover several APIs and count each response once")
    func acrossAPIs() throws {
        let play = try play((Self.origin("a"), Self.origin("b")))
        for target in ["/a/1", "/a/2", "/b/1", "/b/2"] { _ = try play.get(target) }
        play.flushStore()
        #expect(try Self.list(play.admin("GET", "/-/entries?limit=3"), "entries").count == 3)
        let next = try #require(JSONValue(try play.admin("GET", "/-/entries?limit=3").content)?["next"]?.string)
        let rest = try Self.list(play.admin("GET", "/-/entries?limit=3&after=" + PercentCoding.encode(next)), "entries")
        #expect(rest.map { $0["target"]?.string } == ["/b/2"])
        #expect(try Self.purged(play.admin("POST", "/-/purge?prefix=/b")) == 2)
        #expect(try Self.purged(play.admin("POST", "/-/purge?all=true&soft=true")) == 2)
        #expect(try Self.purged(play.admin("POST", "/-/purge?all=true")) == 2)
        #expect(try Self.list(play.admin("GET", "/-/entries"), "entries").isEmpty)
        play.time.advance(by: .seconds(1))
        for target in ["/a/1", "/b/1"] { #expect(try play.get(target)["Cache-Status"]?.contains("hit") != true) }
    }

    @Test("a login at one API does not end cookie permissions at another")
    func cookies() throws {
        let play = try play((cookieOrigin(), cookieOrigin()))
        var client = CookieClient()
        #expect(try client.request("/a/users", play, [("Sec-Give", "SID=1")]).status == 200)
        let before = client
        #expect(try client.request("POST", "/b/login", play, content: "name=me").status == 200)
        play.origin.down()
        client = before
        #expect(try client.request("/a/users", play).status == 200)
    }

    // MARK: Archives

    private static func archived(_ url: String, api: String? = nil) -> String {
        let entry: JSONValue = [
            "startedDateTime": "2025-06-15T15:06:00Z", "time": 20,
            "request": ["method": "GET", "url": .string(url), "headers": .array([])],
            "response": [
                "status": 200, "headers": .array([["name": "Content-Type", "value": "application/json"]]),
                "content": ["text": "{\"a\":1}"],
            ],
            "_cistern": api.map { ["api": .string($0)] },
        ]
        return String(decoding: entry.serialized(), as: UTF8.self)
    }

    @Test("an imported response goes to its original API; an ambiguous one is reported")
    func archives() throws {
        let origin = Self.origin("both")
        let play = try play((origin, origin)) { settings in
            settings.apis[1].upstream.basePath = "/v1"
        }
        let base = "http://127.0.0.1:\(origin.port)"
        let bring = { (url: String, api: String?, more: String) in
            JSONValue(try play.admin("POST", "/-/entries" + more, content: Self.archived(url, api: api)).content)?["reason"]?.string
        }
        #expect(try bring(base + "/v1/1", nil, "") == "ambiguous_api", "ambiguous: /v1/1 of a or /1 of b")
        #expect(try bring(base + "/v1/1", "a", "") == nil)
        #expect(try bring(base + "/v1/2", "b", "") == nil)
        #expect(try bring(base + "/v1/3", nil, "?api=b") == nil)
        #expect(try bring(base + "/4", nil, "") == nil, "only API a matches")
        #expect(try bring(base + "/v1/5", "gone", "") == "unknown_api")
        #expect(try bring("http://moved.test/6", "a", "") == "other_origin")
        #expect(try bring(base + "/v1/7", "b", "?api=a") == nil, "the administrator's choice takes precedence")
        play.flushStore()
        let stored = try Self.list(play.admin("GET", "/-/entries"), "entries").map { $0["target"]?.string }
        #expect(stored == ["/a/4", "/a/v1/1", "/a/v1/7", "/b/2", "/b/3"])
    }

    // MARK: Requests that match no API

    @Test("a request that matches no API is refused, whatever the first API's routes say")
    func noMatchingAPI() throws {
        let nobody = try AddressRules(allow: [], deny: [IPNetwork("0.0.0.0/0")])
        let play = try play((Self.origin("a"), Self.origin("b"))) { settings in
            var route = Route()
            (route.name, route.pattern) = ("closed", RoutePattern("/c/**"))
            route.access = nobody
            var open = Route()
            (open.name, open.pattern) = ("open", RoutePattern("/d/**"))
            open.crossOrigin.origins = [Array("*".utf8)]
            settings.apis[0].routes = [route, open]
            settings.apis[0].otherRoute.crossOrigin.origins = [Array("*".utf8)]
        }
        #expect(try play.get("/c/1").status == 404)
        let scripted = try play.get("/d/1", [("Origin", "https://x.test")])
        #expect(scripted.status == 404 && scripted["Access-Control-Allow-Origin"] == nil)
        let preflight = try play.request(
            "OPTIONS", "/d/1", [("Origin", "https://x.test"), ("Access-Control-Request-Method", "GET")])
        #expect(preflight.status == 404)
    }

    // MARK: Faults

    @Test("a fault applies to client paths, even if the upstream uses other paths")
    func faults() throws {
        let play = try play((Self.origin("a"), Self.origin("b"))) { $0.admin.allowsFaults = true }
        #expect(try play.admin("POST", "/-/faults?path=/a/1&effect=refuse").status == 200)
        #expect(try play.get("/a/1").status == 502)
        #expect(try play.get("/b/1").text == "\"b /1\"")
        #expect(try play.get("/a/2").text == "\"a /2\"")
    }

    @Test("the probe uses the upstream's path, and its failure is shown under the client's path")
    func probe() throws {
        let sick = ScriptedOrigin { request in
            request.target == "/health" ? [.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")] : [.json("1")]
        }
        let play = try play((sick, Self.origin("b"))) { settings in
            settings.apis[0].background.probe.path = "/health"
            var route = Route()
            (route.name, route.pattern) = ("health", RoutePattern("/a/health"))
            settings.apis[0].routes = [route]
        }
        var count = 1
        while Self.scopes(try play.admin("GET", "/-/upstream?api=a")).isEmpty, count < 50 {
            #expect(sick.waitForRequests(count))
            // The probe's response has arrived too. No other probe is due before that.
            #expect(try play.waitFor(#"cistern_upstream_responses_total{api="a",status_class="5xx"}"#, Double(count)))
            play.time.advance(by: .seconds(10))
            count += 1
        }
        #expect(sick.requests.allSatisfy { $0.target == "/health" })
        let scopes = Self.scopes(try play.admin("GET", "/-/upstream?api=a"))
        #expect(!scopes.isEmpty && scopes.allSatisfy { $0 == "key:/a/health" || $0 == "route:health" }, "\(scopes)")
    }

    private static func scopes(_ response: TestResponse) -> [String] {
        list(response, "apis").flatMap { $0["scopes"]?.array ?? [] }.compactMap { $0["scope"]?.string }
    }

    // MARK: Hosts

    @Test("a host with a port matches only that port and takes precedence over one without")
    func ports() throws {
        let play = try play((Self.origin("a"), Self.origin("b"))) { settings in
            for place in 0...1 { (settings.apis[place].scope.path, settings.apis[place].scope.isStripped) = ([], false) }
            settings.apis[0].scope.names = ServedNames(["x.test"])
            settings.apis[1].scope.names = ServedNames(["x.test:8443"])
            for place in 0...1 { settings.apis[place].access.names = settings.apis[place].scope.names }
        }
        #expect(try play.get("/1", [("Host", "x.test:8443")]).text == "\"b /1\"")
        #expect(try play.get("/1", [("Host", "x.test:80")]).text == "\"a /1\"")
        #expect(try play.get("/1", [("Host", "x.test")]).text == "\"a /1\"")
    }
}

@Suite("Responses of several upstream addresses", .play, .upstreams)
struct AddressBoundaryTests {
    /// Two addresses of one upstream. The second one has another base path.
    private func play(
        location: @escaping @Sendable (UInt16) -> String, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> (first: ScriptedOrigin, second: ScriptedOrigin, proxy: ProxyPlay) {
        let second = ScriptedOrigin { _ in [.json("1")] }
        let port = second.port
        second.react { request in
            let status = request.method == "POST" ? "201 Created" : "301 Moved Permanently"
            if request.target.hasSuffix("/moved") {
                return [
                    .send("HTTP/1.1 \(status)\r\nLocation: \(location(port))\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n")
                ]
            }
            return [.json("\"second \(request.target)\"", ["Cache-Control: max-age=60"])]
        }
        let first = ScriptedOrigin { request in [.json("\"first \(request.target)\"", ["Cache-Control: max-age=60"])] }
        let proxy = try ProxyPlay(first) { settings in
            settings.policy.keepsAny = true
            settings.upstream.basePath = "/v1"
            settings.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: port, basePath: "/v2")]
            configure(&settings)
        }
        return (first, second, proxy)
    }

    @Test(
        "a redirect is interpreted relative to the address that responded, fresh and stored",
        arguments: [("/v2/there", "/there"), ("", "/there"), ("//other.test/x", "//other.test/x"), ("there", "there")])
    func redirects(_ location: String, _ expected: String) throws {
        let (first, second, proxy) = try play(location: { location.isEmpty ? "http://127.0.0.1:\($0)/v2/there" : location })
        defer { second.down() }
        first.down()
        for _ in 1...2 { #expect(try proxy.get("/moved")["Location"] == expected) }
    }

    @Test("a redirect outside the responding address's base path is not mapped to the first address")
    func outside() throws {
        let (first, second, proxy) = try play(location: { _ in "/v1/there" })
        first.down()
        #expect(try proxy.get("/moved")["Location"] == "http://127.0.0.1:\(second.port)/v1/there")
    }

    @Test("a write at a fallback address invalidates the response that its Location names")
    func writes() throws {
        let (first, second, proxy) = try play(location: { _ in "/v2/1" })
        defer { second.down() }
        _ = try proxy.get("/1")
        first.down()
        #expect(try proxy.get("/1")["Cache-Status"]?.contains("hit") == true)
        #expect(try proxy.request("POST", "/moved", content: "{}")["Location"] == "/1")
        #expect(try proxy.get("/1")["Cache-Status"]?.contains("hit") != true)
    }

    @Test("in offline mode an unreachable address is not retried")
    func offline() throws {
        let (first, second, proxy) = try play(location: { _ in "/" })
        defer { second.down() }
        first.down()
        #expect(try proxy.get("/a").text == "\"second /v2/a\"")
        #expect(try proxy.admin("PUT", "/-/mode?mode=offline").status == 200)
        first.up()
        let count = first.connectionCount
        for _ in 1...5 {
            proxy.time.advance(by: .seconds(2))
            #expect(try proxy.get("/a")["Cache-Status"]?.contains("hit") == true)
        }
        #expect(first.connectionCount == count)
        #expect(try proxy.admin("PUT", "/-/mode?mode=live").status == 200)
        proxy.time.advance(by: .seconds(2))
        #expect(first.waitForConnections(count + 1))
    }

    @Test("the admin interface lists each address with the time and cause of its failure")
    func shown() throws {
        let (first, second, proxy) = try play(location: { _ in "/" })
        first.down()
        _ = try proxy.get("/a")
        let value = try #require(JSONValue(try proxy.admin("GET", "/-/upstream").content))
        let addresses = value["addresses"]?.array ?? []
        #expect(addresses.map { $0["address"]?.string } == ["http://127.0.0.1:\(first.port)/v1", "http://127.0.0.1:\(second.port)/v2"])
        #expect(addresses.map { $0["up"] } == [false, true])
        #expect(addresses.first?["since"]?.string != nil && addresses.first?["error"]?.string == "connection_refused")
        #expect(addresses.last?["since"] == .null && addresses.last?["error"] == .null)
    }
}
