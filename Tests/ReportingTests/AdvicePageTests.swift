// Tests of the observation and of GET /-/advice through the whole server: what it proposes, what it never shows, and what it keeps.

import Addresses
import Administration
import CachePolicy
import JSON
import ReverseProxy
import Server
import TestSupport
import Testing

@Suite("Advice from observed traffic", .play, .clientProtocols)
struct AdvicePageTests {
    private func advice(_ play: ProxyPlay, _ arguments: String = "") throws -> JSONValue {
        try #require(JSONValue(try play.admin("GET", "/-/advice\(arguments)").content))
    }

    private func paths(_ advice: JSONValue) -> [String: JSONValue] {
        Dictionary(uniqueKeysWithValues: (advice["paths"]?.array ?? []).map { ($0["path"]?.string ?? "", $0) })
    }

    /// An origin with data that changes every 100 requests, and states no freshness.
    private static func origin(_ fields: [String] = []) -> ScriptedOrigin {
        let count = Counter()
        return ScriptedOrigin { _ in [.json("{\"data\":\(count.next() / 100)}", fields)] }
    }

    @Test("data that rarely changes gets a freshness lifetime, and its effect was exact")
    func freshness() throws {
        let play = try ProxyPlay(Self.origin())
        for number in 0..<400 {
            _ = try play.get("/users/\(number % 2)")
            play.time.advance(by: .seconds(3))
        }
        let advice = try advice(play, "?freshness=45")
        let proposal = try #require(advice["proposals"]?.array?.first)
        #expect(proposal["setting"] == "routes.freshness.default" && proposal["path"] == "/users/*")
        #expect(proposal["evidence"]?.string?.contains("data changed ") == true)
        let path = try #require(paths(advice)["/users/*"])
        #expect((path["changed"]?.integer ?? 0) >= 6 && path["obstacle"] == .null && path["missing_evidence"] == .null)
        let effects = try #require(advice["trial"]?["paths"]?.array?.first?["effects"]?.array)
        #expect(effects.compactMap { $0["freshness_seconds"]?.integer } == [30, 60])
        // Of 5 requests of a target in 30 s, one is sent.
        #expect(effects[0]["saved_ratio"]?.double.map { $0 > 0.75 && $0 < 0.82 } == true, "\(effects)")
        #expect(effects[0]["outdated_seconds_at_most"]?.double.map { $0 > 0 && $0 <= 30 } == true)
    }

    @Test("with the proposed setting, as many requests are saved as predicted")
    func predicted() throws {
        func run(_ play: ProxyPlay) throws -> Int {
            for number in 0..<400 {
                _ = try play.get("/users/\(number * number % 5)")
                play.time.advance(by: .seconds(number % 4 + 1))
            }
            return play.origin.requests.count
        }
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        #expect(try run(play) == 400)
        let advice = try advice(play)
        let proposal = try #require(advice["proposals"]?.array?.first)
        let seconds = try #require(proposal["value"]?.string.flatMap { Int64($0.dropLast()) })
        let saved = try #require(proposal["saved_requests"]?.integer)
        let changed = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.otherRoute.freshness.standard = seconds }
        // The first requests, by which the path becomes known, are not observed.
        let sent = try run(changed)
        #expect(saved > 200 && (400 - saved - 4...400 - saved).contains(sent), "\(saved) saved, \(sent) sent")
    }

    @Test("several APIs have separate observations")
    func apis() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            var apis = [settings, settings]
            (apis[0].apiName, apis[1].apiName) = ("users", "orders")
            (apis[0].scope.path, apis[1].scope.path) = (Array("/users".utf8), Array("/orders".utf8))
            settings.apis = apis
        }
        for target in ["/users/1", "/orders/1"] {
            for _ in 0..<8 { _ = try play.get(target) }
        }
        let all = try #require(try advice(play)["apis"]?.array)
        #expect(all.map { $0["api"]?.string } == ["users", "orders"])
        #expect(all.map { paths($0).keys.sorted() } == [["/users/*"], ["/orders/*"]])
        #expect(try advice(play, "?api=orders")["apis"]?.array?.count == 1)
        #expect(try play.metric("cistern_observed_paths") == 2)
    }

    @Test("hits are not observed, and confirmations by 304 are")
    func confirmed() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                guard request["If-None-Match"] != nil else { return [.json("{}", ["ETag: \"1\""])] }
                return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")]
            })
        for _ in 0..<50 {
            _ = try play.get("/a")
            play.time.advance(by: .seconds(20))
        }
        let path = try #require(paths(try advice(play))["/a"])
        #expect(path["changed"] == 0 && (path["unchanged"]?.integer ?? 0) >= 45)
        #expect(try play.metric("cistern_observed_paths") == 1)
        #expect(try play.metric("cistern_unobserved_fetches_total{reason=\"unknown\"}") == 3)
    }

    @Test(
        "no freshness is proposed for responses that state it, or that belong to one user",
        arguments: [
            ("Cache-Control: max-age=1", "states the freshness"), ("Cache-Control: no-cache", "states the freshness"),
            ("Cache-Control: no-store", "no-store"), ("Cache-Control: private", "belong to one user"),
            ("Expires: 0", "states the freshness"),
        ])
    func obstacles(_ field: String, _ sentence: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", [field])] })
        for _ in 0..<130 {
            _ = try play.get("/a")
            play.time.advance(by: .seconds(10))
        }
        let advice = try advice(play)
        #expect(advice["proposals"] == [] && paths(advice)["/a"]?["obstacle"]?.string?.contains(sentence) == true, "\(advice)")
    }

    @Test("private responses in a partition get no freshness; data of different users is not compared")
    func users() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: private"])] })
        for number in 0..<130 {
            _ = try play.get("/me?user=\(number)", number < 5 ? [] : [("Authorization", "Bearer secret-\(number % 3)")])
            play.time.advance(by: .seconds(10))
        }
        let advice = try advice(play)
        let path = try #require(paths(advice)["/me"])
        #expect(path["obstacle"] != .null && (path["partitioned"]?.integer ?? 0) > 100)
        #expect(advice["proposals"]?.array?.contains { $0["kind"] == "freshness" } == false)
        #expect(!String(decoding: advice.serialized(), as: UTF8.self).contains("secret"))
    }

    @Test("arguments without effect are found; values, secrets and control characters are never shown")
    func arguments() throws {
        let play = try ProxyPlay(ScriptedOrigin { request in [.json(request.target.contains("page=2") ? "[2]" : "[1]")] })
        for number in 0..<130 {
            let strange = "%1b[31m=hidden&\(String(repeating: "n", count: 2_000))=1"
            _ = try play.get("/list?utm=hidden\(number)&page=\(number % 2 + 1)&api_key=hidden\(number % 2)&\(strange)")
            play.time.advance(by: .seconds(5))
        }
        let advice = try advice(play)
        let proposals = (advice["proposals"]?.array ?? []).filter { $0["kind"] == "argument" }
        #expect(proposals.map { $0["value"]?.string } == ["utm"], "\(advice)")
        let text = String(decoding: advice.serialized(), as: UTF8.self)
        #expect(!text.contains("hidden") && !text.contains("31m") && !text.contains("\u{1b}"))
    }

    @Test("failures and 404s are counted, and random paths are not kept")
    func failures() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                if request.target.hasPrefix("/bad") { return [.json("{}", status: "500 Oh")] }
                return [request.target.hasSuffix("404") ? .json("{}", status: "404 Not Found") : .json("{}")]
            })
        for number in 0..<130 {
            _ = try play.get("/users/\(number)")
            _ = try play.get("/users/404")
            _ = try play.get("/bad/\(number)")
            _ = try play.get("/scan-\(String(number, radix: 16))/404")
            play.time.advance(by: .seconds(5))
        }
        let advice = try advice(play)
        #expect(paths(advice).keys.sorted() == ["/users/*"])
        #expect((paths(advice)["/users/*"]?["missing"]?.integer ?? 0) > 100)
        #expect(advice["proposals"]?.array?.contains { $0["setting"] == "routes.negative" } == true, "\(advice)")
    }

    @Test("a reload keeps the observation of routes that still exist; with 0 paths nothing is observed")
    func reload() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            var route = Route()
            (route.name, route.pattern) = ("users", RoutePattern("/users/**"))
            settings.routes = [route]
        }
        for target in ["/users/1", "/orders/1"] {
            for _ in 0..<10 { _ = try play.get(target) }
        }
        #expect(paths(try advice(play)).keys.sorted() == ["/orders/*", "/users/**"])
        #expect(paths(try advice(play, "?route=users")).keys.sorted() == ["/users/**"])
        #expect(paths(try advice(play, "?path=/ord")).keys.sorted() == ["/orders/*"])
        #expect(play.reload { $0.settings.otherRoute.rescueAfter = 9 }?.label == "applied")
        #expect(paths(try advice(play)).keys.sorted() == ["/orders/*", "/users/**"])
        #expect(try play.metric("cistern_unobserved_fetches_total{reason=\"unknown\"}") == 6)
        // An advised setting was applied: its evidence is out of date.
        #expect(play.reload { $0.settings.routes[0].freshness.standard = 30 }?.label == "applied")
        #expect(paths(try advice(play)).keys.sorted() == ["/orders/*"])
        #expect(play.reload { $0.settings.routes = [] }?.label == "applied")
        #expect(paths(try advice(play)).keys.sorted() == ["/orders/*"])
        #expect(play.reload { $0.settings.observedPaths = 0 }?.label == "applied")
        #expect(try advice(play)["observing"] == false && paths(try advice(play)).isEmpty)
        for (target, status) in [("?route=none", 404), ("?since=0", 400), ("?freshness=x", 400), ("?nonsense=1", 400), ("?api=x", 404)] {
            #expect(try play.admin("GET", "/-/advice\(target)").status == status)
        }
        #expect(try play.admin("POST", "/-/advice").status == 405)
    }

    @Test("all event loops share one observation")
    func shards() throws {
        let play = try ProxyPlay(Self.origin()) { $0.shards = 2 }
        for _ in 0..<60 {
            let client = try play.client()
            _ = client.get("/users/1")
        }
        #expect((paths(try advice(play))["/users/*"]?["requests"]?.integer ?? 0) >= 50)
    }
}
