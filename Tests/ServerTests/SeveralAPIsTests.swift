// Tests of several APIs behind one address: which API serves a request, and that they do not share responses.

import Addresses
import JSON
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Several APIs", .play, .clientProtocols)
struct SeveralAPIsTests {
    /// Responds with its name and the received target.
    private static func origin(_ name: String) -> ScriptedOrigin {
        ScriptedOrigin { request in
            switch request.target {
            case "/moved", "/v1/moved": [.send("HTTP/1.1 302 Found\r\nLocation: /v1/there\r\nContent-Length: 0\r\n\r\n")]
            case "/grouped": [.json("1", ["Cache-Control: max-age=60", "Cache-Groups: \"all\""])]
            case "/v1/failing": [.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")]
            case "/v1/end": [.send("HTTP/1.1 200 OK\r\nCache-Group-Invalidation: \"all\"\r\nContent-Length: 0\r\n\r\n")]
            case "/v1/write": [.send("HTTP/1.1 201 Created\r\nLocation: /v1/1\r\nContent-Length: 0\r\n\r\n")]
            default: [.json("\"\(name) \(request.target)\"", ["Cache-Control: max-age=60"])]
            }
        }
    }

    /// `users` has a host, `orders` a path prefix that is stripped, and `rest` gets all other requests.
    private struct Play {
        let users: ScriptedOrigin
        let orders: ScriptedOrigin
        let rest: ScriptedOrigin
        let proxy: ProxyPlay

        init(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws {
            let origins = ["users", "orders", "rest"].map { SeveralAPIsTests.origin($0) }
            (users, orders, rest) = (origins[0], origins[1], origins[2])
            proxy = try ProxyPlay(rest) { settings in
                configure(&settings)
                var apis = [settings, settings, settings]
                for (place, name) in ["users", "orders", "rest"].enumerated() {
                    apis[place].apiName = name
                    apis[place].upstream.port = origins[place].port
                }
                apis[0].scope.names = ServedNames(["users.test", "*.users.test"])
                apis[0].access.names = apis[0].scope.names
                apis[1].scope.path = Array("/orders".utf8)
                apis[1].scope.isStripped = true
                apis[1].upstream.basePath = "/v1"
                settings.apis = apis
            }
        }

        func get(_ target: String, host: String = "localhost") throws -> TestResponse { try proxy.get(target, [("Host", host)]) }

        func isHit(_ target: String) throws -> Bool { try get(target)["Cache-Status"]?.contains("hit") == true }
    }

    @Test("each API receives its own requests under its upstream's paths, and its own stored responses rescue")
    func chosen() throws {
        let play = try Play()
        for _ in 1...2 {
            #expect(try play.get("/a", host: "users.test").text == "\"users /a\"")
            #expect(try play.get("/a", host: "x.users.test:80").text == "\"users /a\"")
            #expect(try play.get("/a").text == "\"rest /a\"")
            #expect(try play.get("/orders/a?b=1").text == "\"orders /v1/a?b=1\"")
            #expect(try play.get("/orders").text == "\"orders /v1/\"")
            #expect(try play.get("/orders?b=1").text == "\"orders /v1/?b=1\"")
        }
        #expect(play.users.requests.count == 1 && play.rest.requests.count == 1 && play.orders.requests.count == 3)
        #expect(try play.proxy.metric("cistern_api_requests_total{api=\"users\",result=\"hit\"}") == 3)
        #expect(try play.proxy.metric("cistern_api_requests_total{api=\"orders\",result=\"miss\"}") == 3)
    }

    @Test("errors sent to clients are counted per API, including errors of the upstream")
    func serverErrors() throws {
        let play = try Play()
        play.orders.down()
        #expect(try play.get("/orders/a").status == 502)
        play.orders.up()
        for _ in 1...2 { #expect(try play.get("/orders/failing").status == 503) }
        #expect(try play.get("/a", host: "users.test").status == 200)
        #expect(try play.proxy.metric("cistern_api_server_errors_total{api=\"orders\"}") == 3)
        #expect(try play.proxy.metric("cistern_api_server_errors_total{api=\"users\"}") == 0)
    }

    @Test("an unknown host gets 421 and an unknown path 404, and neither counts for an API")
    func unknownHostOrPath() throws {
        let play = try Play { $0.access.names = ServedNames() }
        #expect(try play.get("/orders/../a").status == 404)
        let alone = try ProxyPlay(Self.origin("users")) { settings in
            var api = settings
            (api.apiName, api.scope.names, api.scope.path) = ("users", ServedNames(["users.test"]), Array("/users".utf8))
            settings.apis = [api]
        }
        #expect(try alone.get("/users", [("Host", "other.test")]).status == 421)
        #expect(try alone.get("/other", [("Host", "users.test")]).status == 404)
        #expect(try alone.get("/users/1", [("Host", "users.test")]).status == 200)
        #expect(try alone.get("/healthz", [("Host", "other.test")]).status == 200)
        #expect(alone.origin.requests.count == 1)
        #expect(try alone.metric("cistern_api_requests_total{api=\"users\",result=\"error\"}") == 0)
        #expect(try alone.metric("cistern_refused_requests_total{reason=\"path_not_served\"}") == 1)
        let why = Self.list(try alone.admin("GET", "/-/why?last=3"), "exchanges")
        #expect(why.map { $0["api"]?.string } == ["users", nil, nil])
    }

    @Test("failures of one API's upstream neither stop nor rescue requests of another")
    func failing() throws {
        let play = try Play()
        for target in ["/a", "/orders/a"] { _ = try play.get(target) }
        play.orders.down()
        play.proxy.time.advance(by: .seconds(120))
        for _ in 1...6 { #expect(try play.isHit("/orders/a")) }
        #expect(try play.get("/orders/b").status >= 502)
        #expect(try play.get("/b").text == "\"rest /b\"")
        let states = try Self.list(play.proxy.admin("GET", "/-/upstream"), "apis")
        #expect(states.map { $0["api"]?.string } == ["users", "orders", "rest"])
        #expect(states.map { $0["up"] } == [true, false, true])
        #expect(try play.proxy.metric("cistern_api_up{api=\"orders\"}") == 0)
    }

    @Test("redirects point to client paths, and a write invalidates the targets it names")
    func paths() throws {
        let play = try Play()
        #expect(try play.get("/orders/moved")["Location"] == "/orders/there")
        #expect(try play.get("/moved")["Location"] == "/v1/there")
        _ = try play.get("/orders/1")
        #expect(try play.isHit("/orders/1"))
        _ = try play.proxy.request("POST", "/orders/write", [("Host", "localhost")], content: "{}")
        #expect(try !play.isHit("/orders/1"))
    }

    @Test("a write invalidates groups only of its own API")
    func groups() throws {
        let play = try Play()
        _ = try play.get("/grouped")
        _ = try play.proxy.request("POST", "/orders/end", [("Host", "localhost")], content: "{}")
        #expect(try play.isHit("/grouped"))
    }

    @Test("the administrator can list, purge and switch the mode of one API or all")
    func administered() throws {
        let play = try Play()
        _ = try play.get("/a", host: "users.test")
        for target in ["/a", "/orders/a"] { _ = try play.get(target) }
        play.proxy.flushStore()
        let entries = try Self.list(play.proxy.admin("GET", "/-/entries"), "entries")
        #expect(entries.map { $0["api"]?.string }.sorted { ($0 ?? "") < ($1 ?? "") } == ["orders", "rest", "users"])
        #expect(try Self.list(play.proxy.admin("GET", "/-/entries?api=orders"), "entries").map { $0["target"]?.string } == ["/orders/a"])
        #expect(try play.proxy.admin("GET", "/-/entries?api=others").status == 404)
        #expect(try Self.purged(play.proxy.admin("POST", "/-/purge?all=true&api=rest")) == 1)
        // A response that arrives in the millisecond of a purge is not stored.
        play.proxy.time.advance(by: .seconds(1))
        #expect(try !play.isHit("/a"))
        #expect(try play.isHit("/orders/a"))
        #expect(try play.proxy.admin("PUT", "/-/mode?mode=offline&api=orders").status == 200)
        #expect(try play.get("/orders/new").status == 504)
        #expect(try play.get("/new").status == 200)
        let modes = try Self.list(play.proxy.admin("PUT", "/-/mode?mode=offline"), "apis")
        #expect(modes.map { $0["mode"]?.string } == ["offline", "offline", "offline"])
        #expect(try play.get("/newer").status == 504)
        #expect(try Self.purged(play.proxy.admin("POST", "/-/purge?target=/a")) == 2, "the stored responses of users and rest")
    }

    private static func list(_ response: TestResponse, _ name: String) -> [JSONValue] {
        JSONValue(response.content)?[name]?.array ?? []
    }

    private static func purged(_ response: TestResponse) -> Int? { JSONValue(response.content)?["purged"]?.integer }
}

@Suite("Several addresses of an upstream", .play, .upstreams)
struct SeveralAddressesTests {
    /// - Returns: the first address's origin, the second's, and a proxy in front of both.
    private func play(
        _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> (first: ScriptedOrigin, second: ScriptedOrigin, proxy: ProxyPlay) {
        let origins = ["first", "second"].map { name in
            ScriptedOrigin { request in [.json("\"\(name) \(request.target)\"", ["Cache-Control: max-age=60"])] }
        }
        let proxy = try ProxyPlay(origins[0]) { settings in
            settings.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: origins[1].port, basePath: "/v2")]
            var api = settings
            api.apiName = "a"
            settings.apis = [api]
            configure(&settings)
        }
        return (origins[0], origins[1], proxy)
    }

    @Test("while the first address is unreachable the second serves reads and writes; afterwards the first is used again")
    func fallback() throws {
        let (first, second, proxy) = try play()
        #expect(try proxy.get("/a").text == "\"first /a\"")
        first.down()
        #expect(try proxy.get("/b").text == "\"second /v2/b\"")
        #expect(try proxy.request("POST", "/c", content: "{}").text == "\"second /v2/c\"")
        #expect(second.requests.allSatisfy { $0["Host"] == "127.0.0.1:\(second.port)" })
        #expect(try proxy.get("/a")["Cache-Status"]?.contains("hit") == true, "APIs with one upstream share stored responses")
        #expect(try proxy.metric("cistern_api_address_up{api=\"a\",address=\"http://127.0.0.1:\(first.port)\"}") == 0)
        #expect(try proxy.metric("cistern_api_up{api=\"a\"}") == 1)
        first.up()
        proxy.time.advance(by: .seconds(2))
        #expect(try proxy.waitFor("cistern_api_address_up{api=\"a\",address=\"http://127.0.0.1:\(first.port)\"}", 1))
        #expect(try proxy.get("/d").text == "\"first /d\"")
    }

    @Test("a request that waits for a connection to an unreachable address moves to the next one")
    func queued() throws {
        let (first, second, proxy) = try play { $0.apis[0].upstream.maximumConnections = 1 }
        first.down()
        let clients = try (0..<4).map { _ in try proxy.client() }
        for (number, client) in clients.enumerated() { client.send("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
        for (number, client) in clients.enumerated() { #expect(client.readResponse()?.text == "\"second /v2/\(number)\"") }
        #expect(second.requests.count == 4)
    }

    @Test("if no address is reachable, the stored response is served, and other requests fail")
    func allDown() throws {
        let (first, second, proxy) = try play()
        _ = try proxy.get("/a")
        first.down()
        second.down()
        proxy.time.advance(by: .seconds(120))
        let rescued = try proxy.get("/a")
        #expect(rescued.status == 200 && rescued["Cache-Status"]?.contains("ttl=-60") == true)
        #expect(try proxy.get("/b").status >= 502)
    }

    @Test("a redirect to any upstream address points to the proxy")
    func redirects() throws {
        let second = ScriptedOrigin { _ in [.json("1")] }
        let first = ScriptedOrigin { _ in
            [.send("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:\(second.port)/v2/x\r\nContent-Length: 0\r\n\r\n")]
        }
        let proxy = try ProxyPlay(first) { settings in
            settings.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: second.port, basePath: "/v2")]
        }
        #expect(try proxy.get("/a")["Location"] == "/x")
    }
}
