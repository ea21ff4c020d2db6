// Tests of the administration interface over its socket: lists, and the extent and duration of purges.

import Administration
import Downstream
import Glibc
import HTTPCore
import JSON
import Server
import TestSupport
import Testing

@testable import ReverseProxy
@testable import TestSupport

@Suite("The admin interface", .play)
struct AdminTests {
    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let origin = ScriptedOrigin { request in
            var fields = ["Cache-Control: max-age=60"]
            if request.target.hasPrefix("/users") { fields.append("Cache-Groups: \"people\"") }
            if request.target.hasPrefix("/lang") { fields.append("Vary: Accept-Language, X-Region") }
            return [.json("{\"target\":\"\(request.target)\"}", fields)]
        }
        return try ProxyPlay(origin, configure)
    }

    private func targets(_ response: TestResponse) -> [String] {
        JSONValue(response.content)?["entries"]?.array?.compactMap { $0["target"]?.string } ?? []
    }

    private func isHit(_ play: ProxyPlay, _ target: String, _ fields: [(String, String)] = []) throws -> Bool {
        try play.get(target, fields)["Cache-Status"]?.contains("hit") == true
    }

    private func purged(_ play: ProxyPlay, _ arguments: String) throws -> Int? {
        let response = try play.admin("POST", "/-/purge?" + arguments)
        play.time.advance(by: .milliseconds(1))
        return JSONValue(response.content)?["purged"]?.integer
    }

    @Test(
        "a prefix matches the same paths in any spelling",
        arguments: [("/caf%C3%A9/1", "/caf\u{e9}/"), ("/caf%c3%a9/1", "/caf%c3%a9/"), ("/a%2fb/1", "/a%2fb/"), ("/~me/1", "/%7eme/")])
    func spelledPrefix(target: String, prefix: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] })
        #expect(try play.get(target).status == 200)
        let given = PercentCoding.encode(prefix)
        #expect(targets(try play.admin("GET", "/-/entries?prefix=\(given)")).count == 1)
        #expect(try purged(play, "prefix=\(given)") == 1)
        // `why` finds a target as it was received, except for bytes that are always encoded.
        if !prefix.contains("%") { #expect(try play.admin("GET", "/-/why?path=\(given)").text.contains(target)) }
    }

    @Test("stored responses are listed by target, prefix and tag, in pages")
    func listing() throws {
        let play = try play()
        for target in ["/users/2", "/users?b=2&a=1", "/posts", "/users/1"] { _ = try play.get(target) }
        _ = try play.get("/users/1", [("Authorization", "Bearer secret")])
        let all = ["/posts", "/users/1", "/users/1", "/users/2", "/users?a=1&b=2"]
        #expect(targets(try play.admin("GET", "/-/entries")) == all)
        #expect(targets(try play.admin("GET", "/-/entries?prefix=/users/")) == ["/users/1", "/users/1", "/users/2"])
        #expect(targets(try play.admin("GET", "/-/entries?tag=people&limit=1")) == ["/users/1"])
        #expect(targets(try play.admin("GET", "/-/entries?target=" + PercentCoding.encode("/users?b=2&a=1"))) == ["/users?a=1&b=2"])
        var paged: [String] = []
        var after = ""
        repeat {
            let response = try play.admin("GET", "/-/entries?limit=2" + after)
            #expect(!response.text.contains("secret"))
            paged += targets(response)
            after = JSONValue(response.content)?["next"]?.string.map { "&after=" + PercentCoding.encode($0) } ?? ""
        } while !after.isEmpty && paged.count < 20
        #expect(paged == all)
    }

    @Test("a response is shown with freshness, tags and variant, and with secrets redacted")
    func show() throws {
        let play = try play()
        _ = try play.get("/lang?api_key=secret", [("Accept-Language", "de"), ("X-Region", "secret")])
        play.time.advance(by: .seconds(10))
        let list = try play.admin("GET", "/-/entries?prefix=/lang")
        let entry = try #require(JSONValue(list.content)?["entries"]?.array?.first)
        let id = try #require(entry["id"]?.string)
        let response = try play.admin("GET", "/-/entries/" + id)
        let shown = try #require(JSONValue(response.content))
        #expect(!response.text.contains("secret"))
        #expect(shown["target"] == "/lang?api_key=REDACTED")
        #expect(shown["vary"] == [["name": "accept-language", "value": "de"], ["name": "x-region", "value": "REDACTED"]])
        #expect(shown["age"] == 10 && shown["ttl"] == 50 && shown["fresh"] == true)
        #expect(shown["freshness"]?["lifetime"] == 60 && shown["freshness"]?["resident_time"] == 10)
        #expect(try play.admin("GET", "/-/entries/\(id)/content").text == "{\"target\":\"/lang?api_key=secret\"}")
        #expect(try play.admin("GET", "/-/entries/" + String(repeating: "0", count: 32)).status == 404)
    }

    @Test("a hard purge removes exactly what it names and survives a restart")
    func hardPurge() throws {
        let play = try play()
        for target in ["/users/1", "/users/2", "/posts", "/a?b=1&c=2", "/keep"] { _ = try play.get(target) }
        for language in ["de", "en"] { _ = try play.get("/lang", [("Accept-Language", language)]) }
        _ = try play.get("/a?c=2&b=1", [("Cookie", "a=b")])
        #expect(try purged(play, "tag=people") == 2)
        #expect(try purged(play, "prefix=/po") == 1)
        #expect(try purged(play, "target=" + PercentCoding.encode("/a?c=2&b=1")) == 2)
        #expect(try purged(play, "target=/lang") == 2)
        #expect(try purged(play, "target=/lang") == 0)
        #expect(targets(try play.admin("GET", "/-/entries")) == ["/keep"])
        try play.restart()
        #expect(targets(try play.admin("GET", "/-/entries")) == ["/keep"])
        play.origin.down()
        #expect(try play.get("/users/1").status == 502)
        #expect(try isHit(play, "/keep"))
        #expect(try purged(play, "all=true") == 1)
        try play.restart()
        #expect(try play.get("/keep").status == 502)
    }

    @Test("a target with spaces or non-ASCII letters matches its percent-encoded form")
    func typed() throws {
        let play = try play()
        for target in ["/a%20b", "/a%20b/%C3%A9?q=x%20y", "/keep"] { _ = try play.get(target) }
        for typed in ["/a b/\u{e9}?q=x y", "/a b"] {
            #expect(targets(try play.admin("GET", "/-/entries?target=" + PercentCoding.encode(typed))).count == 1)
            #expect(try purged(play, "target=" + PercentCoding.encode(typed)) == 1)
        }
        _ = try play.get("/a%20b")
        #expect(try purged(play, "prefix=" + PercentCoding.encode("/a b")) == 1)
        #expect(targets(try play.admin("GET", "/-/entries")) == ["/keep"])
    }

    @Test(
        "a soft purge forces validation, keeps the response for a rescue, and survives a restart",
        arguments: ["prefix=/users", "all=true"])
    func softPurge(arguments: String) throws {
        let play = try play()
        _ = try play.get("/users/1")
        #expect(try isHit(play, "/users/1"))
        #expect(try purged(play, arguments + "&soft=true") == 1)
        try play.restart()
        play.origin.down()
        let response = try play.get("/users/1")
        #expect(response.status == 200)
        #expect(response["Cache-Status"]?.contains("connection_refused") == true)
        play.origin.up()
        #expect(try !isHit(play, "/users/1"))
        #expect(try isHit(play, "/users/1"))
    }

    @Test("a response requested before a purge is not stored after it")
    func overtaken() throws {
        let play = try play()
        let gate = Gate()
        play.origin.react { _ in [.pass(gate), .json("{}", ["Cache-Control: max-age=60"])] }
        let client = try play.client(getting: "/slow")
        while play.origin.requests.isEmpty { sched_yield() }
        #expect(try purged(play, "prefix=/slow") == 0)
        gate.open()
        #expect(client.readResponse()?["Cache-Status"]?.contains("stored") == false)
        #expect(try !isHit(play, "/slow"))
        #expect(try isHit(play, "/slow"))
    }

    @Test("responses invalidated by an unsafe request are not listed, in any partition")
    func unreachable() throws {
        let play = try play()
        _ = try play.get("/users/1", [("Cookie", "a=b")])
        _ = try play.request("POST", "/users/1", content: "{}")
        #expect(targets(try play.admin("GET", "/-/entries")).isEmpty)
    }

    @Test(
        "invalid requests have no effect and are answered with the reason",
        arguments: [
            ("POST", "/-/purge", 400), ("POST", "/-/purge?prefx=/a", 400), ("POST", "/-/purge?prefix=/a&all=true", 400),
            ("POST", "/-/purge?prefix=a", 400), ("POST", "/-/purge?all=no", 400), ("POST", "/-/purge?all=false", 400),
            ("POST", "/-/purge?all=true&soft=maybe", 400), ("POST", "/-/purge?id=7", 400), ("GET", "/-/purge?all=true", 405),
            ("GET", "/-/entries?limit=0", 400), ("GET", "/-/entries?prefix=users", 400), ("GET", "/-/entries?target=users", 400),
            ("GET", "/-/entries?after=x", 400), ("GET", "/-/entries?limit=%zz", 404),
            ("GET", "/-/entries/xyz", 400), ("GET", "/-/nothing", 404), ("GET", "/users", 404),
        ])
    func mistakes(method: String, target: String, status: Int) throws {
        let play = try play()
        _ = try play.get("/users/1")
        let response = try play.admin(method, target)
        #expect(response.status == status)
        #expect(response["Content-Type"] == "application/problem+json")
        #expect(JSONValue(response.content)?["detail"]?.string?.isEmpty == false)
        #expect(try isHit(play, "/users/1"))
    }

    @Test("the socket is accessible only to its user, serves metrics and health, and is separate from clients")
    func socket() throws {
        let play = try play()
        var status = stat()
        #expect(stat(play.adminSocket, &status) == 0 && status.st_mode & 0o777 == 0o600)
        #expect(try play.admin("GET", "/healthz").text == "ok\n")
        #expect(try play.admin("GET", "/metrics").text.contains("cistern_requests_total"))
        #expect(try play.get("/-/stats").text == "{\"target\":\"/-/stats\"}")
        #expect(try play.admin("HEAD", "/-/stats").content.isEmpty)
    }

    @Test(
        "access depends on socket, address, token and request fields",
        arguments: [
            ("unix:/a", nil, [("Host", "localhost")], .allowed), ("127.0.0.1:1", nil, [("Host", "127.0.0.1:1")], .allowed),
            ("[::1]:1", nil, [("Host", "[::1]:1")], .allowed), ("127.0.0.1:1", nil, [("Host", "localhost")], .allowed),
            ("127.0.0.1:1", nil, [("Host", "evil.test")], .refused), ("127.0.0.1:1", nil, [("Host", "localhost.evil.test")], .refused),
            ("127.0.0.1:1", nil, [("Host", "localhost"), ("Origin", "http://evil.test")], .refused),
            ("0.0.0.0:1", nil, [("Host", "localhost")], .refused), ("10.0.0.1:1", nil, [("Host", "10.0.0.1")], .refused),
            ("10.0.0.1:1", "0123456789abcdef", [("Host", "a"), ("Authorization", "Bearer 0123456789abcdef")], .allowed),
            ("10.0.0.1:1", "0123456789abcdef", [("Host", "a"), ("Authorization", "bearer  0123456789abcdef")], .allowed),
            ("10.0.0.1:1", "0123456789abcdef", [("Host", "a"), ("Authorization", "Bearer 0123456789abcdeg")], .unauthorized),
            ("10.0.0.1:1", "0123456789abcdef", [("Host", "a"), ("Authorization", "Bearer 0123456789abcdef0")], .unauthorized),
            ("10.0.0.1:1", "0123456789abcdef", [("Host", "a"), ("Authorization", "Bearer ")], .unauthorized),
            ("127.0.0.1:1", "0123456789abcdef", [("Host", "localhost")], .unauthorized),
        ] as [(String, String?, [(String, String)], Access)])
    func access(address: String, token: String?, fields: [(String, String)], expected: Access) throws {
        var all = Fields()
        for (name, value) in fields { all.append(name: name, value: value) }
        let head = RequestHead(method: .get, target: Array("/-/stats".utf8)[...], version: .http11, fields: all)
        let access = AdminAccess(head, through: AdminTransport(try #require(ListenAddress(address))), token: token.map { Array($0.utf8) })
        let outcome: Access =
            switch access {
            case .allowed: .allowed
            case .unauthorized: .unauthorized
            case .forbidden: .refused
            }
        #expect(outcome == expected)
    }

    enum Access: Sendable { case allowed, unauthorized, refused }

    @Test("over TCP a token is required, except for metrics")
    func token() throws {
        let play = try play { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
            settings.admin.token = Array("0123456789abcdef".utf8)
        }
        let client = try TestClient(port: play.adminPort)
        let refused = try #require(client.get("/-/stats"))
        #expect(refused.status == 401 && refused["WWW-Authenticate"] == "Bearer realm=\"cistern\"")
        #expect(client.get("/-/stats", [("Authorization", "Bearer 0123456789abcdef")])?.status == 200)
        #expect(client.get("/metrics")?.status == 200)
    }
}
