// Plays of `upstream.fields`: every request to the upstream has the operator's fields, no other request has them, and they separate no
// responses.

import Addresses
import CachePolicy
import Forwarding
import HTTPCore
import Identity
import JSON
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Fields for the upstream", .play)
struct UpstreamFieldPlays {
    private static let secret = "tell-nobody-at-all"

    private static func rules(_ set: [(String, String)] = [("X-Api-Key", secret)], remove: [String] = []) -> UpstreamFieldRules {
        var rules = UpstreamFieldRules()
        for name in remove { rules.remove(Array(name.utf8)) }
        for (name, value) in set { rules.set(Array(name.utf8), to: Array(value.utf8)) }
        return rules
    }

    private static func play(
        _ origin: ScriptedOrigin, _ rules: UpstreamFieldRules = Self.rules(),
        _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(origin) {
            $0.otherRoute.upstreamFields = rules
            configure(&$0)
        }
    }

    /// Returns the values that the upstream received in these fields, by target.
    private static func keys(_ origin: ScriptedOrigin, _ name: String = "X-Api-Key") -> [String: Set<String>] {
        origin.requests.reduce(into: [:]) { $0[$1.target, default: []].insert($1[name] ?? "none") }
    }

    @Test("requests of all methods have the field once, whatever the client sends, and removed fields are absent", .upstreams)
    func replaced() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-store"])] }
        let play = try Self.play(origin, Self.rules(remove: ["X-Debug", "Referer"]))
        let sent = [("X-API-KEY", "own"), ("X_Api_Key", "own"), ("Referer", "r"), ("X_Debug", "1"), ("X-Kept", "k")]
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            _ = try play.request(method, "/a", sent, content: method == "POST" ? "{}" : nil)
        }
        #expect(origin.requests.count == 6)
        for request in origin.requests {
            let names = request.fields.map { $0.name.lowercased() }
            #expect(names.count { $0 == "x-api-key" } == 1 && request["X-Api-Key"] == Self.secret && request["X-Kept"] == "k")
            #expect(!names.contains { ["x_api_key", "referer", "x_debug"].contains($0) })
        }
        #expect(try play.request("TRACE", "/a").status == 405)
    }

    @Test("a client cannot remove the field by naming it in Connection")
    func named() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        _ = try Self.play(origin).get("/a", [("Connection", "X-Api-Key, X_Api_Key")])
        #expect(Self.keys(origin) == ["/a": [Self.secret]])
    }

    @Test("background requests have the field: refreshes, rechecks and health checks", .upstreams)
    func background() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=10, stale-while-revalidate=600"])] }
        let play = try Self.play(origin) { $0.background.probe.path = "/health" }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        _ = try play.get("/a")
        #expect(try play.waitFor("cistern_background_fetches_started_total", atLeast: 1))
        origin.react { _ in [.json("{}", status: "503 Service Unavailable")] }
        play.time.advance(by: .seconds(700))
        for _ in 0..<30 {
            _ = try play.get("/a")
            play.time.advance(by: .seconds(2))
        }
        let keys = Self.keys(origin)
        #expect(keys["/a"] == [Self.secret] && keys["/health"] == [Self.secret])
    }

    @Test("upgrades and streams have the field")
    func streams() throws {
        let origin = ScriptedOrigin { request in
            guard request["Upgrade"] != nil else { return [.answer("data: 1\n\n", type: "text/event-stream")] }
            return [.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi"), .close]
        }
        let play = try Self.play(origin) { $0.otherRoute.upgrades = [Array("websocket".utf8)] }
        let client = try play.client()
        client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Api-Key: own\r\n\r\n")
        #expect(client.readResponseHead()?.status == 101)
        #expect(try play.get("/events", [("Accept", "text/event-stream")]).status == 200)
        #expect(Self.keys(origin) == ["/ws": [Self.secret], "/events": [Self.secret]])
    }

    @Test("why names the fields that Cistern set or removed in the request for this path, and no value")
    func explained() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }
        let play = try Self.play(origin, Self.rules(remove: ["X-Debug", "Referer"])) {
            var route = Route()
            (route.name, route.pattern) = ("open", .init("/open/**"))
            $0.routes = [route]
        }
        for (target, set, removed) in [("/a", ["X-Api-Key"], ["x-debug", "referer"]), ("/open/a", nil, nil)] {
            for isHit in [false, true] {
                _ = try play.get(target)
                let text = try play.admin("GET", "/-/why?last=1").text
                let upstream = JSONValue(Array(text.utf8))?["exchanges"]?.array?.first?["upstream"]
                let names = { (name: String) in upstream?[name]?.array?.compactMap(\.string) }
                #expect(names("fields_set") == (isHit ? nil : set) && names("fields_removed") == (isHit ? nil : removed), "\(text)")
                #expect(!text.contains(Self.secret))
            }
        }
    }

    // MARK: Keys

    @Test(
        "a set or removed field separates no responses and forbids no storing, although the upstream varies by it",
        arguments: ["X-Api-Key", "X-Region", "Accept-Language", "X-Gone"])
    func notSelecting(_ name: String) throws {
        let vary = "Vary: X-Api-Key, X-Region, Accept-Language, X-Gone"
        let origin = ScriptedOrigin { _ in [.json("{}", [vary, "Cache-Control: max-age=60"])] }
        let rules = Self.rules([("X-Api-Key", Self.secret), ("X-Region", "eu"), ("Accept-Language", "en")], remove: ["X-Gone"])
        let play = try Self.play(origin, rules)
        // Credentials of clients separate users, also if the upstream does not get them.
        let values = name == "X-Api-Key" ? ["", ""] : ["", "1", "2", "1, 2"]
        for value in values { #expect(try play.get("/a", value.isEmpty ? [] : [(name, value)]).status == 200) }
        #expect(origin.requests.count == 1)
    }

    @Test("an unknown field of a client that the upstream does not receive separates no responses")
    func unknown() throws {
        let counter = Counter()
        for (rules, isShared) in [(Self.rules([("X-Region", "eu")]), true), (UpstreamFieldRules(), false)] {
            let play = try Self.play(ScriptedOrigin { _ in [.json("\(counter.next())", ["Cache-Control: no-cache"])] }, rules)
            let first = try play.get("/a", [("X-Region", "us")]).text
            play.origin.react { _ in [.close] }
            let second = try play.get("/a", [("X-Region", "jp")])
            #expect((second.text == first) == isShared)
        }
    }

    @Test("with a key for all, clients without credentials share the public partition, and a client's credentials still separate")
    func partitions() throws {
        let origin = ScriptedOrigin { request in
            [.json("\"\(request["Authorization"] ?? "none")\"", ["Cache-Control: max-age=60"])]
        }
        let play = try Self.play(origin, Self.rules([("Authorization", "Bearer \(Self.secret)")]))
        for fields in [[], [], [("Authorization", "Bearer ann")], [("Authorization", "Bearer ann")], [("Authorization", "Bearer bob")]] {
            #expect(try play.get("/a", fields).text == "\"Bearer \(Self.secret)\"")
        }
        #expect(origin.requests.count == 3)
        origin.down()
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a")["Cistern-Stale"] != nil)
    }

    @Test("an identity lookup sends the client's own credentials, and adds a key only if all paths have it", arguments: [false, true])
    func lookUp(hasRoute: Bool) throws {
        let origin = ScriptedOrigin { request in
            let user = request["Authorization"] ?? "none"
            return [.json(request.target == "/me" ? "{\"id\":\"\(user)\"}" : "\"\(user)\"", ["Cache-Control: private, max-age=60"])]
        }
        let play = try Self.play(origin, Self.rules([("Authorization", "Bearer \(Self.secret)"), ("X-Api-Key", Self.secret)])) {
            ($0.otherRoute.lookUp.path, $0.otherRoute.lookUp.pointers) = ("/me", ["/id"])
            guard hasRoute else { return }
            var route = $0.otherRoute
            (route.name, route.pattern, route.upstreamFields) = ("own", .init("/own/**"), UpstreamFieldRules())
            $0.routes = [route]
        }
        for (index, user) in ["ann", "bob"].enumerated() {
            _ = try play.get("/own/a", [("Authorization", "Bearer \(user)")])
            #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", Double(index + 1)))
        }
        // The request without the client's token does not get the operator's one either.
        #expect(Self.keys(origin, "Authorization")["/me"] == ["Bearer ann", "Bearer bob", "none"])
        #expect(Self.keys(origin)["/me"] == [hasRoute ? "none" : Self.secret])
        for user in ["ann", "bob"] {
            let sent = hasRoute ? user : Self.secret
            #expect(try play.get("/own/a", [("Authorization", "Bearer \(user)")]).text == "\"Bearer \(sent)\"")
        }
    }

    // MARK: Where a field is sent

    @Test(
        "a path that the upstream may read as one of another route gets no field of either",
        arguments: ["/open/../private/a", "/open/%2e%2e/private/a", "/open/..%2fprivate/a", "/private/../open/a", "//open/a"])
    func ambiguous(_ target: String) throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let play = try Self.play(origin, UpstreamFieldRules()) {
            var route = Route()
            (route.name, route.pattern, route.upstreamFields) = ("open", .init("/open/**"), Self.rules())
            $0.routes = [route]
        }
        _ = try play.get(target, [("X-Api-Key", "own")])
        #expect(origin.requests.allSatisfy { $0["X-Api-Key"] == nil })
        _ = try play.get("/open/a")
        #expect(origin.requests.last?["X-Api-Key"] == Self.secret)
        _ = try play.get("/private/a", [("X-Api-Key", "own")])
        #expect(origin.requests.last?["X-Api-Key"] == "own")
    }

    @Test("a field of one API is sent neither to another API nor after a redirect")
    func otherOrigins() throws {
        let other = ScriptedOrigin { _ in [.json("{}")] }
        let origin = ScriptedOrigin { _ in
            [.answer("", type: "text/plain", status: "307 Temporary Redirect", ["Location: http://127.0.0.1:\(other.port)/other/a"])]
        }
        let play = try ProxyPlay(origin) { settings in
            var apis = [settings, settings]
            apis[0].apiName = "one"
            apis[0].otherRoute.upstreamFields = Self.rules()
            apis[1].apiName = "other"
            apis[1].upstream.port = other.port
            apis[1].scope.path = Array("/other".utf8)
            settings.apis = apis
        }
        #expect(try play.get("/a").status == 307)
        #expect(try play.get("/other/a").status == 200)
        #expect(Self.keys(origin) == ["/a": [Self.secret]] && Self.keys(other) == ["/other/a": ["none"]])
    }
}
