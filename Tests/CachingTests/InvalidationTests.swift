// Tests of invalidation by unsafe requests, for all kinds of stored responses and running fetches (RFC 9111 §4.4).

import CachePolicy
import CacheStore
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Invalidation", .play, .clientProtocols)
struct InvalidationTests {
    private let text = [("Content-Type", "text/plain")]

    private func isHit(_ answer: TestResponse) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    private func readingPlay(_ origin: ScriptedOrigin) throws -> ProxyPlay {
        try ProxyPlay(origin) {
            var route = Route()
            route.name = "search"
            route.pattern = RoutePattern("/search")
            route.methods = [.post]
            $0.routes = [route]
        }
    }

    @Test("a login redirect in response to a write keeps the stored response for outages; a successful write invalidates it")
    func login() throws {
        let isDown = Mutex(false)
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else {
                return [request.target == "/a" ? .json("{}", status: "302 Found", ["Location: /login?next=/a"]) : .json("{}")]
            }
            return isDown.withLock { $0 }
                ? [.json("{}", status: "503 Service Unavailable")] : [.json("1", ["Cache-Control: max-age=600"])]
        }
        let play = try ProxyPlay(origin)
        for target in ["/a", "/b"] {
            #expect(try play.get(target).status == 200)
            #expect(isHit(try play.get(target)))
            _ = try play.request("PUT", target, content: "{}")
        }
        isDown.withLock { $0 = true }
        #expect(try play.get("/a")["Cache-Status"]?.hasPrefix("cistern; fwd=stale; fwd-status=503") == true)
        #expect(try play.get("/b").status == 503)
        isDown.withLock { $0 = false }
        #expect(!isHit(try play.get("/a")))
        #expect(isHit(try play.get("/a")))
    }

    /// How the upstream ends a write, and whether it may have performed it.
    struct End: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let steps: [OriginStep]
        let isUnclear: Bool

        init(_ description: String, _ steps: [OriginStep], isUnclear: Bool) {
            (testDescription, self.steps, self.isUnclear) = (description, steps, isUnclear)
        }

        static func status(_ status: String, isUnclear: Bool) -> End { End(status, [.json("{}", status: status)], isUnclear: isUnclear) }
    }

    private static let ends =
        [
            End("closed", [.close], isUnclear: true), End("reset", [.reset], isUnclear: true),
            End("garbage", [.send("garbage\r\n\r\n"), .close], isUnclear: true),
            End("part of a head", [.send("HTTP/1.1 200 OK\r\nContent-"), .close], isUnclear: true),
        ] + ["500 A", "502 A", "503 A", "504 A", "520 A"].map { End.status($0, isUnclear: true) }
        + ["400 A", "404 A", "409 A", "429 A", "501 A"].map { End.status($0, isUnclear: false) }

    @Test(
        "a write without a definite response makes stored responses stale and keeps them for outages; a rejected write does not",
        arguments: ends)
    func unclear(_ end: End) throws {
        let isDown = Mutex(false)
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return end.steps }
            return isDown.withLock { $0 }
                ? [.json("{}", status: "503 Service Unavailable")] : [.json("1", ["Cache-Control: max-age=600"])]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").status == 200)
        #expect(isHit(try play.get("/a")))
        #expect(try play.request("PUT", "/a", content: "{}").status >= 400)
        isDown.withLock { $0 = true }
        let rescued = try play.get("/a")
        #expect(rescued.status == 200 && isHit(rescued) == !end.isUnclear)
    }

    /// An upstream hardly performs a request that is incomplete. Any client could make all users' responses stale in this way.
    @Test(
        "a write that times out makes stored responses stale, and one whose upload breaks off does not", arguments: ["timeout", "upload"])
    func unfinished(how: String) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { [$0.method == "GET" ? .json("1", ["Cache-Control: max-age=6000"]) : .hang] })
        #expect(try play.get("/a").status == 200)
        var client: TestClient? = try play.client()
        client?.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: \(how == "timeout" ? 2 : 9_000_000)\r\n\r\n{}")
        // Content that exceeds the buffer is sent before it is complete.
        if how == "upload" { client?.send(String(repeating: " ", count: 200_000)) }
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        #expect(isHit(try play.get("/a")))
        if how == "timeout" {
            play.time.advance(by: .seconds(300))
            #expect(client?.readResponse()?.status == 504)
        } else {
            client = nil
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        }
        #expect(isHit(try play.get("/a")) == (how == "upload"))
        #expect(isHit(try play.get("/a")))
    }

    @Test("a POST in which a field names a method that may read removes no stored response", arguments: ["GET", "head", "X", ""])
    func namedReads(method: String) throws {
        let isDown = Mutex(false)
        let play = try ProxyPlay(
            ScriptedOrigin { _ in isDown.withLock { $0 } ? [.close] : [.json("1", ["Cache-Control: max-age=60"])] })
        #expect(try play.get("/a").status == 200)
        #expect(try play.request("POST", "/a", [("X-HTTP-Method-Override", method)], content: "{}").status == 200)
        isDown.withLock { $0 = true }
        #expect(try play.get("/a")["Cache-Status"]?.contains("detail=") == true)
        isDown.withLock { $0 = false }
        #expect(try play.get("/a").status == 200)
        #expect(try play.request("POST", "/a", [("X-HTTP-Method-Override", "Delete")], content: "{}").status == 200)
        isDown.withLock { $0 = true }
        #expect(try play.get("/a").status == 502)
    }

    @Test("a write that was not sent changes nothing")
    func unsent() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=600", "Connection: close"]), .close] })
        #expect(try play.get("/a").status == 200)
        play.origin.down()
        for _ in 0..<2 { #expect(try play.request("PUT", "/a", content: "{}").status == 502) }
        #expect(isHit(try play.get("/a")))
    }

    @Test("a write also invalidates responses keyed by request content", arguments: [("QUERY", "/a"), ("POST", "/search")])
    func byContent(method: String, target: String) throws {
        let play = try readingPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] })
        for fields in [text, text + [("Authorization", "a")]] {
            _ = try play.request(method, target, fields, content: "x")
            #expect(isHit(try play.request(method, target, fields, content: "x")))
            // Also within one millisecond.
            for _ in 0..<2 {
                #expect(try play.request("PUT", target, content: "x").status == 200)
                #expect(!isHit(try play.request(method, target, fields, content: "x")))
            }
            #expect(isHit(try play.request(method, target, fields, content: "x")))
            try play.restart()
            #expect(isHit(try play.request(method, target, fields, content: "x")))
        }
    }

    @Test("an invalidation persists although the store evicts its records", .slow, arguments: ["PUT /a", "group"])
    func whileEvicting(how: String) throws {
        let counter = Counter()
        let long = "\"" + String(repeating: "x", count: 100_000) + "\""
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.json("0", ["Cache-Group-Invalidation: \"g\""])] }
            guard request.target == "/a" else { return [.json(long, ["Cache-Control: max-age=9999"])] }
            return [.json("\(counter.next())", ["Cache-Control: max-age=9999", "Cache-Groups: \"g\""])]
        }
        let play = try ProxyPlay(origin) {
            $0.store?.capacityBytes = 4 << 20
            $0.store?.segmentBytes = 1 << 20
            $0.otherRoute.compression = .off
        }
        func fill(_ numbers: Range<Int>) throws {
            for number in numbers { _ = try play.get("/fill/\(number)") }
            play.flushStore()
        }
        let user = how == "group" ? [] : [("Authorization", "Bearer x")]
        _ = try play.get("/a", user)
        play.flushStore()
        #expect(isHit(try play.get("/a", user)))
        // The response's segment is evicted before the mark's segment. The response itself is kept because it was used.
        try fill(0..<12)
        play.time.advance(by: .seconds(1))
        #expect(try play.request("PUT", how == "group" ? "/b" : "/a", content: "x").status == 200)
        try fill(12..<45)
        #expect(!isHit(try play.get("/a", user)))
        #expect(try play.metric("cistern_store_removals_total{cause=\"evicted\"}") ?? 0 > 15)
    }

    @Test("a stored response found to be invalid is removed and does not rescue")
    func dropped() throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin)
        let user = [("Authorization", "Bearer x")]
        _ = try play.get("/a", user)
        play.flushStore()
        play.time.advance(by: .seconds(1))
        _ = try play.request("PUT", "/a", content: "x")
        origin.down()
        let removed = "cistern_store_removals_total{cause=\"invalidated\"}"
        #expect(try play.metric(removed) == 0)
        #expect(try play.get("/a", user).status == 502)
        #expect(try play.metric(removed) == 1)
    }

    @Test("a POST response in flight during a purge or write is not stored", arguments: ["/search", "/own"])
    func inFlight(target: String) throws {
        for how in ["purge", "PUT"] where how == "purge" || target == "/search" {
            let gate = Gate()
            let origin = ScriptedOrigin { request in
                let answer = OriginStep.json("1", ["Cache-Control: max-age=60", "Content-Location: /own"])
                return request.method == "POST" ? [.pass(gate), answer] : [.json("2")]
            }
            let play = try readingPlay(origin)
            let client = try play.client()
            client.send("POST \(target) HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx")
            #expect(try play.waitFor("cistern_upstream_active_requests", 1))
            if how == "PUT" {
                _ = try play.request("PUT", target, content: "x")
            } else {
                #expect(try play.admin("POST", "/-/purge?all=true").status == 200)
            }
            play.time.advance(by: .milliseconds(5))
            gate.open()
            #expect(client.readResponse()?.text == "1")
            if target == "/own" {
                #expect(!isHit(try play.get("/own")))
            } else {
                #expect(!isHit(try play.request("POST", target, text, content: "x")))
            }
        }
    }

    @Test(
        "a response in flight during a write is not stored, even if the store has evicted the mark", .slow,
        arguments: ["", "Bearer x"])
    func inFlightWhileEvicting(credentials: String) throws {
        let gate = Gate()
        let counter = Counter()
        let long = "\"" + String(repeating: "x", count: 100_000) + "\""
        let origin = ScriptedOrigin { request in
            guard request.target == "/a" else { return [.json(long, ["Cache-Control: max-age=9999"])] }
            guard request.method == "GET" else { return [.json("0")] }
            let answer = OriginStep.json("\(counter.next())", ["Cache-Control: max-age=9999"])
            return request["X-Slow"] == nil ? [answer] : [.pass(gate), answer]
        }
        let play = try ProxyPlay(origin) {
            $0.store?.capacityBytes = 4 << 20
            $0.store?.segmentBytes = 1 << 20
        }
        let user = credentials.isEmpty ? [] : [("Authorization", credentials)]
        let slow = try play.client()
        let fields = user.map { "\($0.0): \($0.1)\r\n" }.joined()
        slow.send("GET /a HTTP/1.1\r\nHost: a\r\nX-Slow: 1\r\n\(fields)\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        play.time.advance(by: .milliseconds(5))
        #expect(try play.request("PUT", "/a", content: "x").status == 200)
        for number in 0..<100 { _ = try play.get("/fill/\(number)") }
        play.flushStore()
        gate.open()
        _ = slow.readResponse()
        play.flushStore()
        #expect(!isHit(try play.get("/a", user)))
    }

    @Test("the age of a POST response includes its response time")
    func delayOfPost() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", ["Cache-Control: max-age=60", "Content-Location: /own"])] }
        let play = try ProxyPlay(origin)
        let client = try play.client(sending: "POST /own HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        play.time.advance(by: .seconds(20))
        gate.open()
        #expect(client.readResponse()?.text == "1")
        #expect(try play.get("/own")["Age"] == "20")
    }

    @Test("an invalidated response stays invalid when No-Vary-Search changes back")
    func variance() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            let name = request.target.contains("b=") ? "b" : "a"
            return [.json("\(counter.next())", ["Cache-Control: max-age=60", "No-Vary-Search: params=(\"\(name)\")"])]
        }
        let play = try ProxyPlay(origin)
        let first = try play.get("/a?a=1")
        _ = try play.get("/a?b=1&c=1")
        play.time.advance(by: .milliseconds(5))
        _ = try play.request("PUT", "/a?a=1", content: "x")
        play.time.advance(by: .milliseconds(5))
        _ = try play.get("/a?c=9")
        #expect(try play.get("/a?a=1").text != first.text)
    }

    @Test("a follower never receives a response that a write to a member has overtaken")
    func whileWaiting() throws {
        let gate = Gate()
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.json("0")] }
            let number = counter.next()
            return (number == 1 ? [.pass(gate)] : []) + [.json("\(number)", ["Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin) {
            var members = Route()
            members.name = "members"
            members.pattern = RoutePattern("/users/*")
            members.invalidatesCollection = true
            $0.routes = [members]
        }
        let clients = try (0..<3).map { _ in try play.client() }
        func ask(_ place: Int) { clients[place].send("GET /users?page=1 HTTP/1.1\r\nHost: a\r\n\r\n") }
        ask(0)
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        ask(1)
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        play.time.advance(by: .milliseconds(5))
        _ = try play.request("PUT", "/users/1", content: "{}")
        // A request after the write does not join the earlier fetch.
        ask(2)
        #expect(clients[2].readResponse()?.text == "2")
        gate.open()
        let texts = clients[..<2].map { $0.readResponse()?.text }
        #expect(texts[0] == "1" && (texts[1] == "2" || texts[1] == "3"))
    }

    @Test(
        "a mutation invalidates stored queries, unless the route disables it",
        arguments: [true, false])
    func sparedTarget(invalidates: Bool) throws {
        let counter = Counter()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let isMutation = String(decoding: request.content, as: UTF8.self).contains("mutation")
                return [
                    .json(
                        "{\"data\":\(counter.next())}",
                        isMutation ? ["Location: /users/1", "Cache-Group-Invalidation: \"g\""] : ["Cache-Groups: \"\(request.target)\""])
                ]
            }
        ) {
            var route = Route()
            (route.name, route.pattern, route.methods) = ("graphql", RoutePattern("/graphql"), [.post])
            route.invalidatesTarget = invalidates
            $0.routes = [route]
        }
        func ask(_ query: String) throws -> TestResponse {
            try play.request("POST", "/graphql", [("Content-Type", "application/json")], content: "{\"query\":\"\(query)\"}")
        }
        #expect(try ask("{ user }").text == "{\"data\":1}")
        #expect(try play.get("/users/1").text == "{\"data\":2}")
        play.time.advance(by: .milliseconds(5))
        #expect(try ask("mutation { x }").status == 200)
        play.time.advance(by: .milliseconds(5))
        play.origin.down()
        #expect(try ask("{ user }").status == (invalidates ? 502 : 200))
        // Targets that the response to the write names are invalidated in either case.
        #expect(try play.get("/users/1").status == 502)
    }

    @Test("the use of No-Vary-Search survives a restart and evictions", .slow)
    func varianceWhileEvicting() throws {
        let counter = Counter()
        let long = "\"" + String(repeating: "x", count: 100_000) + "\""
        let origin = ScriptedOrigin { request in
            let isFiller = request.target.hasPrefix("/fill")
            let fields = ["Cache-Control: max-age=9999"] + (isFiller ? [] : ["No-Vary-Search: params=(\"utm\")"])
            return [.json(isFiller ? long : "\(counter.next())", fields)]
        }
        let play = try ProxyPlay(origin) {
            $0.store?.capacityBytes = 4 << 20
            $0.store?.segmentBytes = 1 << 20
        }
        let first = try play.get("/a?utm=1")
        play.flushStore()
        for round in 0..<2 {
            // A used response survives eviction; the No-Vary-Search record is not counted as used.
            #expect(try play.get("/a?utm=2").text == first.text)
            for number in 0..<30 { _ = try play.get("/fill/\(round)/\(number)") }
            play.flushStore()
        }
        try play.restart()
        #expect(try play.get("/a?utm=3").text == first.text)
        play.time.advance(by: .seconds(1))
        _ = try play.request("PUT", "/a", content: "x")
        _ = try play.get("/b?utm=1")
        #expect(!isHit(try play.get("/a?utm=2")))
    }
}
