// Tests of modes: which requests reach the upstream, and which are served from the store.

import CachePolicy
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Serving modes", .play)
struct ModeTests {
    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }, configure)
    }

    private func set(_ play: ProxyPlay, _ mode: String, prefix: String? = nil) throws {
        let response = try play.admin("PUT", "/-/mode?mode=\(mode)" + (prefix.map { "&prefix=" + $0 } ?? ""))
        #expect(response.status == 200)
    }

    @Test("offline: stored responses are served at any age, others get 504, and the upstream is never contacted")
    func offline() throws {
        let play = try play { $0.shards = 2 }
        _ = try play.get("/a")
        try set(play, "offline")
        play.time.advance(by: .seconds(1_000))
        let stored = try play.get("/a")
        #expect(stored.status == 200 && stored["Cache-Status"] == "cistern; hit; ttl=-940; detail=offline" && stored["Age"] == "1000")
        #expect(try play.get("/b").status == 504)
        #expect(try play.request("POST", "/a", content: "{}").status == 504)
        #expect(play.origin.requests.count == 1)
        try set(play, "live")
        #expect(try play.get("/b").status == 200)
    }

    @Test("offline in strict mode: a stale must-revalidate response is not served")
    func offlineStrict() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=1, must-revalidate"])] }) { settings in
            settings.policy.strictness = .strict
        }
        _ = try play.get("/a")
        try set(play, "offline")
        #expect(try play.get("/a").status == 200)
        play.time.advance(by: .seconds(2))
        #expect(try play.get("/a").status == 504)
    }

    @Test("record: every request is fetched and stored, and no stored response rescues")
    func record() throws {
        let play = try play()
        _ = try play.get("/a")
        try set(play, "record")
        let response = try play.get("/a")
        #expect(response["Cache-Status"] == "cistern; fwd=bypass; stored")
        #expect(play.origin.requests.count == 2)
        play.origin.down()
        #expect(try play.get("/a").status == 502)
        try set(play, "live")
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
    }

    @Test("replay: stored responses are served at any age; others are fetched")
    func replay() throws {
        let play = try play()
        _ = try play.get("/a")
        try set(play, "replay")
        play.time.advance(by: .seconds(1_000))
        #expect(try play.get("/a")["Cache-Status"]?.contains("detail=replay") == true)
        #expect(try play.get("/b").status == 200)
        #expect(play.origin.requests.count == 2)
    }

    @Test("the longest prefix decides the mode and can be removed")
    func prefixes() throws {
        let play = try play()
        try set(play, "offline", prefix: "/a")
        try set(play, "live", prefix: "/a/b")
        #expect(try play.get("/a").status == 504)
        #expect(try play.get("/a/b").status == 200)
        #expect(try play.get("/c").status == 200)
        #expect(try play.metric("cistern_mode_prefixes{mode=\"offline\"}") == 1)
        #expect(try play.metric("cistern_mode{mode=\"live\"}") == 1)
        #expect(try play.admin("DELETE", "/-/mode?prefix=/a").status == 200)
        #expect(try play.admin("DELETE", "/-/mode?prefix=/a").status == 404)
        #expect(try play.get("/a").status == 200)
        for wrong in ["/-/mode", "/-/mode?mode=of", "/-/mode?mode=live&prefix=a"] { #expect(try play.admin("PUT", wrong).status == 400) }
    }

    @Test("a route's mode is set by name; a prefix takes precedence over it, and it over the general mode")
    func routes() throws {
        let play = try play { settings in
            settings.shards = 2
            settings.routes = [("users", "/users/**", nil), ("posts", "/posts/*", ServingMode.offline)].map { name, path, mode in
                var route = Route()
                (route.name, route.pattern, route.mode) = (name, RoutePattern(path), mode)
                return route
            }
        }
        func status(_ target: String) throws -> Int { try play.get(target).status }
        #expect(try status("/posts/1") == 504)
        #expect(try play.admin("PUT", "/-/mode?mode=offline&route=users").status == 200)
        #expect(try status("/users/1") == 504)
        #expect(try status("/other") == 200)
        try set(play, "live", prefix: "/users/2")
        #expect(try status("/users/2") == 200)
        #expect(try play.metric("cistern_mode_routes{mode=\"offline\"}") == 2)
        let shown = try play.admin("DELETE", "/-/mode?route=users").text
        #expect(shown.contains("posts") && !shown.contains("\"users\""))
        #expect(try status("/users/1") == 200)
        #expect(try play.admin("DELETE", "/-/mode?route=users").status == 404)
        let unknown = try play.admin("PUT", "/-/mode?mode=live&route=user")
        #expect(unknown.status == 404 && unknown.text.contains("No route is called user: there are users, posts."))
        #expect(try play.admin("PUT", "/-/mode?mode=live&route=users&prefix=/users").status == 400)
    }

    @Test("a request may choose its mode only if permitted, and the field is not forwarded")
    func field() throws {
        for isAllowed in [true, false] {
            let play = try play { $0.ownFields.allowsMode = isAllowed }
            #expect(try play.get("/a", [("Cistern-Mode", "offline")]).status == (isAllowed ? 504 : 200))
            _ = try play.get("/b")
            _ = try play.get("/b", [("Cistern-Mode", "record")])
            _ = try play.get("/b", [("Cistern-Mode", "nonsense")])
            #expect(play.origin.requests.count == 2)
            #expect(play.origin.requests.allSatisfy { $0["Cistern-Mode"] == nil })
        }
    }

    @Test("the number of prefixes is limited")
    func limit() {
        var modes = ModeTable()
        let areTaken = (0..<ModeTable.ruleLimit).map { modes.set(.replay, prefix: "/\($0)") }
        #expect(areTaken.allSatisfy { $0 })
        let isOneMoreTaken = modes.set(.replay, prefix: "/more")
        let isChangeTaken = modes.set(.offline, prefix: "/1")
        #expect(!isOneMoreTaken && isChangeTaken)
        #expect(modes.mode(of: Array("/1".utf8)[...]) { _ in 0 } == .offline)
        #expect(modes.mode(of: Array("/12".utf8)[...]) { _ in 0 } == .replay)
    }
}
