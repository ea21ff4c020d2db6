// What a 304, or an answer to HEAD, may do to what is stored, and what it may not (RFC 9111 §3, §4.3).

import CachePolicy
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Validation")
struct ValidationTests {
    private static let fresh = "Cache-Control: max-age=60"
    /// Older than it may be, as it comes.
    private static let stale = ["Cache-Control: max-age=10", "Age: 20"]

    private static func notModified(_ fields: String...) -> OriginStep {
        .send("HTTP/1.1 304 Not Modified\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n")
    }

    private func isHit(_ answer: TestAnswer) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    /// Stored once, then asked for again with the fields of a 304 as the answer; from the third request on the content is another.
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

    @Test("a 304 with validators that are not stored: the upstream is asked for the whole", arguments: Strictness.allCases)
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
        // With the request's content.
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
        // Too much to be read before asking again.
        _ = try play.request("QUERY", "/long", query, content: "words")
        #expect(try play.request("QUERY", "/long", query, content: "words").status == (strictness == .strict ? 502 : 200))
    }

    @Test("a server that says 304 to everything ends in the copy, or an error")
    func always() throws {
        let play = try play(Self.stale, then: "X: 1", .strict)
        _ = try play.get("/a")
        play.origin.react { _ in [Self.notModified("ETag: \"b\"")] }
        #expect(try play.get("/a").text == "1")
        #expect(play.origin.requests.count == 3)
    }

    @Test("POST that only reads is asked without conditions, and never answered with 304 (RFC 9110 §13.1.2)")
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
}
