// Tests how a 304 or a response to HEAD may change stored responses (RFC 9111 §3, §4.3).

import CachePolicy
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Validation", .play, .clientProtocols)
struct ValidationTests {
    private static let fresh = "Cache-Control: max-age=60"
    /// Stale on arrival.
    private static let stale = ["Cache-Control: max-age=10", "Age: 20"]

    private static func notModified(_ fields: String...) -> OriginStep {
        .send("HTTP/1.1 304 Not Modified\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n")
    }

    private func isHit(_ answer: TestResponse) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    /// Stores a response, then validates it with a 304 that has these fields. From the third request on the content differs.
    private func play(_ control: [String], then fields: String, _ strictness: Strictness = .rescue) throws -> ProxyPlay {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            switch counter.next() {
            case 1: [.json("1", control + ["ETag: \"a\""])]
            case 2 where request.method == "HEAD":
                [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"a\"\r\nContent-Length: 1\r\n\(fields)\r\n\r\n")]
            case 2: [Self.notModified("ETag: \"a\"", fields)]
            default: [.json("2", [Self.fresh])]
            }
        }
        return try ProxyPlay(origin) { $0.policy.strictness = strictness }
    }

    @Test(
        "a 304 or HEAD response cannot make an unstorable response stored",
        arguments: ["Cache-Control: private, max-age=60", "Cache-Control: no-store, max-age=60", "Cache-Control: max-age=60\r\nVary: *"],
        ["GET", "HEAD"])
    func forbidden(fields: String, method: String) throws {
        let play = try play(Self.stale, then: fields + "\r\nX-New: 1")
        _ = try play.get("/a")
        let confirmed = try play.request(method, "/a")
        #expect(confirmed.status == 200 && confirmed["X-New"] == "1")
        let next = try play.get("/a")
        #expect(!isHit(next) && next.text == "2" && next["X-New"] == nil)
    }

    @Test(
        "a 304 that forbids storing ends the hits of a fresh response, which remains for rescues", arguments: ["private", "no-store"],
        ["GET", "HEAD"])
    func forbiddenWhileFresh(directive: String, method: String) throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in
            switch counter.next() {
            case 1: [.json("1", [Self.fresh, "ETag: \"a\""])]
            case 2 where method == "HEAD":
                [.send("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1\r\nCache-Control: \(directive)\r\n\r\n")]
            case 2: [Self.notModified("ETag: \"a\"", "Cache-Control: \(directive)")]
            case 3: [.json("2", ["Cache-Control: no-store"])]
            default: [.close]
            }
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        #expect(isHit(try play.get("/a")))
        #expect(try play.request(method, "/a", [("Cache-Control", "no-cache")]).status == 200)
        #expect(try play.get("/a").text == "2")
        let rescue = try play.get("/a")
        #expect(rescue.status == 200 && rescue.text == "1")
    }

    @Test(
        "a 304 can revoke the permission to share a response to a request with Authorization (RFC 9111 §3.5)",
        arguments: ["public", "must-revalidate"])
    func authorized(leave: String) throws {
        for validating in [[("Authorization", "a")], []] {
            let counter = Counter()
            let origin = ScriptedOrigin { _ in
                switch counter.next() {
                case 1: [.json("1", ["Cache-Control: max-age=10, \(leave)", "Age: 20", "ETag: \"a\""])]
                case 2: [Self.notModified("ETag: \"a\"", Self.fresh)]
                default: [.json("2")]
                }
            }
            let play = try ProxyPlay(origin) { $0.policy.credentials.fields = [] }
            _ = try play.get("/a", [("Authorization", "a")])
            #expect(try play.get("/a", validating).text == "1")
            #expect(try play.get("/a", [("Authorization", "b")]).text == "2")
        }
    }

    @Test("nothing of a response to a no-store request is stored", arguments: ["GET", "HEAD"])
    func requestNoStore(method: String) throws {
        let play = try play(Self.stale, then: Self.fresh + "\r\nX-New: 1")
        _ = try play.get("/a")
        #expect(try play.request(method, "/a", [("Cache-Control", "no-store")])["X-New"] == "1")
        #expect(try play.get("/a", [("Cache-Control", "only-if-cached")]).status == 504)
    }

    @Test("a different Vary in a 304 or HEAD response applies from then on", arguments: ["GET", "HEAD"])
    func vary(method: String) throws {
        for control in [Self.stale, Self.stale + ["Vary: X-Old"]] {
            try varyOfUnfresh(method)
            let play = try play(control, then: Self.fresh + "\r\nVary: X-F")
            let fields = [("X-F", "1"), ("X-Old", "1")]
            _ = try play.get("/a", fields)
            _ = try play.request(method, "/a", fields)
            #expect(isHit(try play.get("/a", [("X-F", "1")])))
            #expect(try play.get("/a", [("X-F", "2"), ("X-Old", "1")]).text == "2")
        }
    }

    /// Confirmations of responses without freshness are seldom written. One with another Vary is written at once.
    private func varyOfUnfresh(_ method: String) throws {
        let play = try play([], then: "Vary: X-F")
        _ = try play.get("/a", [("X-F", "1")])
        _ = try play.request(method, "/a", [("X-F", "1")])
        play.origin.down()
        #expect(try play.get("/a", [("X-F", "1")]).text == "1")
        #expect(try play.get("/a", [("X-F", "2")]).status == 502)
    }

    @Test("a 304 with unknown validators causes an unconditional request", arguments: Strictness.allCases)
    func foreign(strictness: Strictness) throws {
        let control = ["Cache-Control: max-age=1, must-revalidate", "Age: 5"]
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            if request["If-None-Match"] != nil || request["If-Modified-Since"] != nil { return [Self.notModified("ETag: \"b\"")] }
            let (content, number) = (String(decoding: request.content, as: UTF8.self), counter.next())
            let tag = number == 1 ? ["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"] : ["ETag: \"b\""]
            return [.json("{\"n\":\(number),\"q\":\"\(content)\"}", control + tag)]
        }
        let play = try ProxyPlay(origin) { $0.policy.strictness = strictness }
        _ = try play.get("/a")
        let second = try play.get("/a")
        #expect(second.text == "{\"n\":2,\"q\":\"\"}" && second["Cache-Status"] == "cistern; fwd=stale; stored")
        #expect(origin.requests.count == 3)
        // The second request repeats the content of the first.
        let query = [("Content-Type", "text/plain")]
        origin.react { request in
            if request["If-None-Match"] == "\"a\"" {
                let words = request.target == "/long" ? String(repeating: "x", count: 200_000) : ""
                return [request.target == "/304" ? Self.notModified("ETag: \"b\"") : .json(words, status: "412 No")]
            }
            return [
                .json("{\"n\":\(counter.next()),\"q\":\"\(String(decoding: request.content, as: UTF8.self))\"}", control + ["ETag: \"a\""])
            ]
        }
        for target in ["/304", "/412"] {
            let first = try play.request("QUERY", target, query, content: "words")
            let second = try play.request("QUERY", target, query, content: "words")
            #expect(second.status == 200 && second.text != first.text && second.text.contains("words"))
        }
        // The 412's content is too long to be drained before the request is repeated.
        _ = try play.request("QUERY", "/long", query, content: "words")
        #expect(try play.request("QUERY", "/long", query, content: "words").status == (strictness == .strict ? 502 : 200))
    }

    @Test("repeated 304 responses with a wrong validator end in the stored response or an error")
    func always() throws {
        let play = try play(Self.stale, then: "X: 1", .strict)
        _ = try play.get("/a")
        play.origin.react { _ in [Self.notModified("ETag: \"b\"")] }
        #expect(try play.get("/a").text == "1")
        #expect(play.origin.requests.count == 3)
    }

    @Test("Set-Cookie reaches only the client that caused it, also with a 304")
    func cookies() throws {
        for treatment in SetCookieTreatment.allCases where treatment != .refuse {
            let origin = ScriptedOrigin { request in
                request["If-None-Match"] == nil
                    ? [.json("1", Self.stale + ["ETag: \"a\""])] : [Self.notModified("ETag: \"a\"", Self.fresh, "Set-Cookie: s=1")]
            }
            let play = try ProxyPlay(origin) { $0.policy.setCookie = treatment }
            _ = try play.get("/a")
            #expect(try play.get("/a").all("Set-Cookie") == ["s=1"])
            #expect(try play.get("/a").all("Set-Cookie") == (treatment == .keep ? ["s=1"] : []))
        }
        let play = try play(Self.stale, then: "")
        _ = try play.get("/a")
        play.origin.react { _ in [.json("2", ["ETag: \"b\"", "Set-Cookie: s=2"])] }
        let answer = try play.get("/a", [("If-None-Match", "\"b\"")])
        #expect(answer.status == 304 && answer["Set-Cookie"] == "s=2")
    }

    @Test("a read-only POST is sent without conditions and never answered with 304 (RFC 9110 §13.1.2)")
    func post() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            if request["If-None-Match"] != nil { return [.json("", status: "412 Precondition Failed")] }
            return [.json("\(counter.next())", Self.stale + ["ETag: \"a\""])]
        }
        let play = try ProxyPlay(origin) {
            var route = Route()
            route.methods = [.post]
            $0.routes = [route]
        }
        for (number, condition) in ["", "*", "\"a\""].enumerated() {
            let fields = [("Content-Type", "text/plain")] + (condition.isEmpty ? [] : [("If-None-Match", condition)])
            let answer = try play.request("POST", "/a", fields, content: "x")
            #expect(answer.status == 200 && answer.text == "\(number + 1)")
        }
    }

    @Test(
        "fwd in Cache-Status distinguishes a stale response from a fresh one that was refused (RFC 9211 §2.2)",
        arguments: [("/fresh", "request"), ("/stale", "stale")])
    func forwardReason(target: String, word: String) throws {
        let origin = ScriptedOrigin { request in
            if request["If-None-Match"] != nil { return [Self.notModified("ETag: \"a\"")] }
            return [.json("1", ["ETag: \"a\""] + (request.target == "/fresh" ? [Self.fresh] : Self.stale))]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get(target)
        // Without an Age, the stored response would be fresh at this time.
        if word == "stale" { play.time.advance(by: .seconds(100)) }
        let confirmed = try play.get(target, [("Cache-Control", "no-cache")])
        #expect(confirmed["Cache-Status"] == "cistern; fwd=\(word); fwd-status=304")
        if word == "stale" { play.time.advance(by: .seconds(100)) }
        origin.react { _ in [.json("", status: "503 No")] }
        let rescued = try play.get(target, [("Cache-Control", "no-cache")])
        #expect(rescued["Cache-Status"]?.hasPrefix("cistern; fwd=\(word); fwd-status=503") == true)
    }

    @Test("stale-while-revalidate does not apply to QUERY, which cannot be repeated without its client")
    func whileValidating() throws {
        let origin = ScriptedOrigin { request in
            let fields = ["Cache-Control: max-age=10, stale-while-revalidate=60", "Age: 20", "ETag: \"a\""]
            return [request["If-None-Match"] == nil ? .json("1", fields) : Self.notModified("ETag: \"a\"")]
        }
        let play = try ProxyPlay(origin)
        let fields = [("Content-Type", "text/plain")]
        _ = try play.request("QUERY", "/a", fields, content: "x")
        let answer = try play.request("QUERY", "/a", fields, content: "x")
        #expect(answer.status == 200 && answer["Cache-Status"] == "cistern; fwd=stale; fwd-status=304")
    }

    @Test("a client that polls with its own time, and whose clock is ahead, gets new data from an upstream without Last-Modified")
    func clockAhead() throws {
        let counter = Counter()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\(counter.next() / 2)")] })
        for number in 1...6 {
            let response = try play.get("/a", [("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")])
            #expect(response.status == 200 && response.text == "\(number / 2)")
        }
    }
}
