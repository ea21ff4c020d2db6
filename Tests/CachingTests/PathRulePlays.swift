// Tests of path rules, also with nginx as upstream. No spelling of a path evades a rule that protects it, or matches a rule that opens
// another path.

import Addresses
import CachePolicy
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Path rules, end to end", .play, .clientProtocols)
struct PathRulePlays {
    private static func route(_ path: String, _ change: (inout Route) throws -> Void) rethrows -> Route {
        var route = Route()
        (route.name, route.pattern) = ("r", RoutePattern(path))
        try change(&route)
        return route
    }

    /// `/internal/**` is denied to all clients; on `/open/**` the cache key ignores credentials.
    private static func guarded(_ settings: inout ProxySettings) throws {
        let nobody = try AddressRules(allow: [], deny: [IPNetwork("0.0.0.0/0"), IPNetwork("::/0")])
        var open = route("/open/**") { $0.credentials.areIgnored = true }
        open.name = "open"
        settings.routes = [route("/internal/**") { $0.access = nobody }, open]
    }

    private let walks = [
        "/z/a%5cb/../../internal/x", "/z/a%2fb/../../internal/x", "/z/a;b/..;/../internal;c/x", "/z//../internal/x", "/internal%2fx",
        "/internal%00/x", "/open/..%5c../internal/x", "/%2e/%69nternal", "/%2569nternal/x", "/x/%252e%252e/internal/x",
        "/x%252f..%252finternal/x", "/%%36%39nternal/x", "/x/.%09./internal/x", "/x/..%c0%afinternal/x", "/%u0069nternal/x",
    ]

    @Test("no spelling of a path bypasses a deny rule")
    func denied() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) { try? Self.guarded(&$0) }
        for target in walks { #expect(try play.get(target).status == 403, "\(target)") }
        #expect(play.origin.requests.isEmpty)
        for target in ["/x/internal", "/a%20b", "/open/a%2fb", "/100%25", "/a%20b%2520c", "/a%252fb", "/x%ff"] {
            #expect(try play.get(target).status == 200, "\(target)")
        }
    }

    @Test(
        "a response is shared without credentials only if every interpretation of its path is on such a route",
        arguments: [
            ("/open/a%2fb", true), ("/z/a%5cb/../../open/x", false), ("/open/x%5c..%5c..%5cme", false), ("/open/..;/me", false),
            ("/open/a%0a", false), ("/open/%252e%252e/me", false), ("/open/..%%32%66me", false), ("/open/..%c0%afme", false),
            ("/open/..%u002fme", false),
        ])
    func ignored(_ target: String, _ isShared: Bool) throws {
        let origin = ScriptedOrigin { [.json("\"\($0["Authorization"] ?? "")\"", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) { try? Self.guarded(&$0) }
        _ = try play.get(target, [("Authorization", "Bearer ann")])
        #expect(try play.get(target, [("Authorization", "Bearer bob")]).text == (isShared ? "\"Bearer ann\"" : "\"Bearer bob\""))
    }

    @Test(
        "no interpretation of a path leaves the base path of the upstream's URL",
        arguments: [
            ("/../admin", 400), ("/%2e%2e/admin", 400), ("/..%2fadmin", 400), ("/..;/admin", 400), ("/..%5cadmin", 400),
            ("/..\\admin", 400),
            ("//../admin", 400), ("/a/../../admin", 400), ("/a/../b", 200), ("/a//b;c/%20", 200), ("/a/..", 200),
            ("/%252e%252e/admin", 400), ("/..%252fadmin", 400), ("/..%%32%66admin", 400), ("/..%c0%afadmin", 400),
            ("/a%20b%2520c", 200), ("/100%25", 200), ("/a/%252e%252e/b", 200),
        ])
    func base(_ target: String, _ status: Int) throws {
        for basePath in ["/v1", ""] {
            let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) { $0.upstream.basePath = basePath }
            let response = try play.get(target)
            #expect(response.status == (basePath.isEmpty ? 200 : status), "\(basePath)\(target)")
            #expect(play.origin.requests.map(\.target) == (response.status == 200 ? [basePath + target] : []))
            if status == 400, !basePath.isEmpty {
                #expect(try play.metric("cistern_refused_requests_total{reason=\"path_outside\"}") == 1)
                #expect(JSONValue(response.content)?["detail"]?.string?.isEmpty == false || !response.text.isEmpty)
            }
        }
    }

    @Test("no interpretation of a path escapes a stripped path prefix")
    func stripped() throws {
        let play = try ProxyPlay(ScriptedOrigin { [.json("\"\($0.target)\"")] }) { settings in
            settings.apiName = "a"
            settings.scope.path = Array("/orders".utf8)
            settings.scope.isStripped = true
            settings.apis = [settings]
        }
        for target in [
            "/orders/z/a%5cb/../../../x", "/orders/..%2fx", "/orders/..;/x", "/orders//../x", "/orders/a%5c..%5c../x",
            "/z/a%5cb/../../orders/x",
        ] {
            #expect(try play.get(target).status == 404, "\(target)")
        }
        #expect(play.origin.requests.isEmpty)
        #expect(try play.get("/orders/a%2fb/../c").text == "\"/a%2fb/../c\"")
        for rest in ["//x/a", "/\\x/a", "///x/a"] { #expect(try play.get("/orders\(rest)").text == "\"/x/a\"", "no authority") }
    }

    @Test("methods and invalidates_target apply only if every interpretation of the path matches the route")
    func reads() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in [.json("\(counter.next())", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) {
            $0.routes = [
                Self.route("/search/**") {
                    $0.methods = [.post]
                    $0.invalidatesTarget = false
                }
            ]
        }
        let post = { (target: String) in
            try play.request("POST", target, [("Content-Type", "application/json")], content: "{\"a\":1}").text
        }
        #expect(try post("/search/a%2fb") == "1" && post("/search/a%2fb") == "1")
        #expect(try post("/search/..%2fpay") == "2" && post("/search/..%2fpay") == "3")
        #expect(try play.get("/search/..%2fpay").text == "4" && play.get("/search/..%2fpay").text == "4")
        #expect(try post("/search/..%2fpay") == "5" && play.get("/search/..%2fpay").text == "6", "a write invalidates its target")
    }

    // MARK: Query arguments

    @Test("arguments.drop removes arguments from the upstream request and the cache key")
    func dropped() throws {
        let play = try ProxyPlay(ScriptedOrigin { [.json("\"\($0.target)\"", ["Cache-Control: max-age=60"])] }) {
            $0.routes = [Self.route("/a/**") { $0.arguments.drop = [ArgumentPattern("utm_*"), ArgumentPattern("gclid")] }]
        }
        #expect(try play.get("/a/1?gclid=7&q=a&utm_x=1;q=evil").text == "\"/a/1?q=a\"")
        for target in ["/a/1?q=a", "/a/1?utm_y=2&q=a"] { #expect(try play.get(target)["Cache-Status"]?.contains("hit") == true) }
        #expect(try play.get("/b?gclid=7").text == "\"/b?gclid=7\"")
        #expect(try play.request("POST", "/a/1?gclid=8&q=a", content: "{}").text == "\"/a/1?q=a\"")
        #expect(try play.get("/a/1?q=a")["Cache-Status"]?.contains("hit") != true, "the write was to the same target")
        #expect(try play.get("/a/..%2fc?gclid=7").text == "\"/a/..%2fc\"")
    }

    @Test("an argument hidden inside an ignored one does not affect responses for requests without it")
    func semicolon() throws {
        let play = try ProxyPlay(ScriptedOrigin { [.json("\"\($0.target)\"", ["Cache-Control: max-age=60"])] }) {
            $0.otherRoute.arguments.ignore = [ArgumentPattern("utm_*")]
        }
        _ = try play.get("/a?q=a&utm_x=1;q=evil")
        #expect(try play.get("/a?q=a").text == "\"/a?q=a\"")
    }

    // MARK: Persisted documents

    @Test(
        "a persisted GraphQL document that is a mutation is not rescued and is sent once",
        arguments: ["{\"documentId\":\"pay\"}", "{\"id\":\"pay\"}", "{\"doc_id\":1,\"variables\":{}}", "{\"query\":\"mutation {pay}\"}"])
    func mutations(_ content: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"data\":1}")] }) {
            $0.routes = [Self.route("/graphql") { $0.methods = [.post] }]
        }
        let ask = { (content: String) in try play.request("POST", "/graphql", [("Content-Type", "application/json")], content: content) }
        let query = "{\"query\":\"{a}\",\"extensions\":{\"persistedQuery\":{\"version\":1}}}"
        for each in [content, query] { #expect(try ask(each).status == 200) }
        play.origin.react { _ in [.cut] }
        let before = play.origin.requests.count
        #expect(try ask(content).status == 502)
        #expect(play.origin.requests.count == before + 1, "a write is never repeated")
        #expect(try ask(query).status == 200)
    }
}

@Suite("Path rules with a real nginx", .play, .enabled(if: WebServer.isInstalled))
struct PathRulesAtNginx {
    private static let parts = [
        "internal", "%69nternal", "open", "x", "..", "%2e%2e", "..;", ".", "", "a%5cb", "a\\b", "a%2fb", "..%2f..", "..%5c..", "me;p",
    ]

    @Test("no spelling of a path makes nginx serve a denied path or share a response outside the route")
    func walk() throws {
        var setup = WebServer.Setup()
        setup.response = "add_header Cache-Control max-age=60; return 200 '[\"$http_authorization\",\"$uri\"]';"
        let server = try WebServer(setup)
        let play = try ProxyPlay(ScriptedOrigin { _ in [] }) { settings in
            settings.upstream.port = server.port
            guard let nobody = try? AddressRules(allow: [], deny: [IPNetwork("0.0.0.0/0")]) else { return }
            var (inner, open) = (Route(), Route())
            (inner.name, inner.pattern, inner.access) = ("inner", RoutePattern("/internal/**"), nobody)
            (open.name, open.pattern, open.credentials.areIgnored) = ("open", RoutePattern("/open/**"), true)
            settings.routes = [inner, open]
        }
        var (refused, shared) = (0, 0)
        let isWhole = RandomSchedules.run(600, steps: 1) { _ in
        } step: { _, random in
            let target = "/" + (0..<1 + random.below(6)).map { _ in random.pick(Self.parts) }.joined(separator: "/")
            let answers = try ["ann", "bob"].map { try play.get(target, [("Authorization", $0)]) }
            if answers[0].status == 403 { refused += 1 }
            guard answers.allSatisfy({ $0.status == 200 }), let said = JSONValue(answers[1].content)?.array, said.count == 2 else {
                return
            }
            let uri = said[1].string ?? ""
            try demand(uri != "/internal" && !uri.hasPrefix("/internal/"), target)
            guard said[0].string == "ann" else { return }
            shared += 1
            try demand(uri == "/open" || uri.hasPrefix("/open/"), target)
        }
        #expect(!isWhole || (refused > 20 && shared > 5), "\(refused) \(shared)")
    }
}
