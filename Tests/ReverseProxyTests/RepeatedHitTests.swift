// Hits that come again byte for byte: the same answer, as long as a look-up would bring the same, and not a request longer.

import Administration
import CacheStore
import HTTPCore
import Hashing
import JSON
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Repeated hits", .play)
struct RepeatedHitTests {
    private func play(_ fields: [String] = [], _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            let filler = String(repeating: "x", count: 600)
            let text = "{\"n\":\(counter.next()),\"for\":\"\(request["Authorization"] ?? "all")\",\"filler\":\"\(filler)\"}"
            return [.json(text, ["Cache-Control: max-age=60", "ETag: \"v1\""] + fields)]
        }
        return try ProxyPlay(origin, configure)
    }

    private func repeated(_ play: ProxyPlay) throws -> Double? { try play.metric("cistern_repeated_hits_total") }

    /// Asks until the next such request is one that repeats. Returns the last answer.
    @discardableResult
    private func warm(_ play: ProxyPlay, _ target: String = "/a", _ fields: [(String, String)] = []) throws -> TestResponse {
        _ = try play.get(target, fields)
        _ = try play.get(target, fields)
        return try play.get(target, fields)
    }

    @Test("what comes again gets the same answer, and is counted, explained and logged like any hit")
    func again() throws {
        let play = try play()
        let first = try warm(play)
        #expect(try repeated(play) == 0)
        for count in 1...3 {
            let again = try play.get("/a")
            #expect(again.statusLine == first.statusLine && again.content == first.content)
            #expect(again.fields.map { "\($0)" } == first.fields.map { "\($0)" })
            #expect(try repeated(play) == Double(count))
        }
        #expect(try play.metric("cistern_requests_total{result=\"hit\",method=\"GET\",status_class=\"2xx\"}") == 5)
        #expect(try play.metric("cistern_response_bytes_total{source=\"store\"}") == Double(5 * first.content.count))
        let records = JSONValue(try play.admin("GET", "/-/why?path=/a").content)?["exchanges"]?.array ?? []
        #expect(records.count == 6)
        #expect(Set(records.map { $0["id"]?.string }).count == 6)
        #expect(records.prefix(5).allSatisfy { $0["result"] == "hit" && $0["target"] == "/a" })
        #expect(play.origin.requests.count == 1)
    }

    @Test("an answer is repeated until its age changes")
    func age() throws {
        let play = try play()
        try warm(play)
        play.time.advance(by: .milliseconds(999))
        #expect(try play.get("/a")["Age"] == "0")
        #expect(try repeated(play) == 1)
        play.time.advance(by: .milliseconds(1))
        let older = try play.get("/a")
        #expect(older["Age"] == "1" && older["Cache-Status"] == "cistern; hit; ttl=59")
        #expect(try repeated(play) == 1)
        // Kept once more, and not given again before its time: a clock that was set back.
        try warm(play)
        play.time.advance(by: .milliseconds(-500))
        #expect(try play.get("/a")["Age"] == "0")
        play.time.advance(by: .seconds(60))
        #expect(try play.get("/a").text.hasPrefix("{\"n\":2,"))
    }

    @Test(
        "whatever changes what is stored ends it at once",
        arguments: [
            ("POST", "/-/purge?target=/a", "{\"n\":2,"), ("POST", "/-/purge?all=true", "{\"n\":2,"),
            ("POST", "/-/purge?tag=t", "{\"n\":2,"),
            ("POST", "/-/purge?target=/a&soft=true", "{\"n\":2,"), ("POST", "/-/purge?all=true&soft=true", "{\"n\":2,"),
            ("PUT", "/-/mode?mode=record", "{\"n\":2,"), ("PUT", "/-/mode?mode=record&prefix=/a", "{\"n\":2,"),
            ("PUT", "/-/mode?mode=offline", "{\"n\":1,"),
        ])
    func changed(method: String, target: String, text: String) throws {
        let play = try play(["Cache-Tag: t"]) { $0.shards = 2 }
        let first = try warm(play)
        _ = try play.get("/a")
        #expect(try repeated(play) == 1)
        #expect(try play.admin(method, target).status == 200)
        let next = try play.get("/a")
        #expect(next.text.hasPrefix(text))
        #expect(next["Cache-Status"] != first["Cache-Status"])
        #expect(try repeated(play) == 1)
    }

    @Test("a write through the proxy ends it at once, also one to another target of the same group")
    func written() throws {
        for (method, target) in [("POST", "/a"), ("DELETE", "/a"), ("POST", "/other")] {
            let play = try play(["Cache-Groups: \"g\"", "Cache-Group-Invalidation: \"g\""])
            try warm(play)
            #expect(try play.get("/a").text.hasPrefix("{\"n\":1,"))
            #expect(try play.request(method, target, content: "{}").status == 200)
            #expect(try play.get("/a").text.hasPrefix("{\"n\":3,"), "\(method) \(target)")
            #expect(try repeated(play) == 1)
        }
    }

    @Test("what is stored of another target ends it too, for a moment")
    func othersStored() throws {
        let play = try play()
        try warm(play)
        _ = try play.get("/b")
        for count in [0, 0, 1, 2] {
            #expect(try play.get("/a").text.hasPrefix("{\"n\":1,"))
            #expect(try repeated(play) == Double(count))
        }
    }

    @Test("nobody is given another's answer: each request has its own")
    func others() throws {
        let play = try play(["Vary: Accept-Language"])
        let requests: [[(String, String)]] = [
            [], [("Authorization", "Basic a")], [("Authorization", "Basic b")], [("Accept-Language", "de")],
            [("Accept-Language", "en")], [("Authorization", "Basic a"), ("Accept-Language", "de")],
        ]
        let wanted = try requests.map { try warm(play, "/a", $0).content }
        #expect(Set(wanted).count == requests.count)
        for _ in 0..<4 {
            for (fields, content) in zip(requests, wanted) { #expect(try play.get("/a", fields).content == content) }
        }
        #expect(try repeated(play) ?? 0 >= 12)
    }

    @Test("answers to HEAD, to conditions, of a part, and coded ones are repeated as they are")
    func forms() throws {
        let play = try play { $0.compressFromBytes = 100 }
        _ = try play.get("/a")
        let requests: [(String, [(String, String)], Int)] = [
            ("HEAD", [], 200), ("GET", [("If-None-Match", "\"v1\"")], 304), ("GET", [("Range", "bytes=0-9")], 206),
            ("GET", [("Accept-Encoding", "gzip")], 200), ("GET", [("Range", "bytes=9999-")], 416),
        ]
        for (place, (method, fields, status)) in requests.enumerated() {
            let first = try play.request(method, "/a", fields)
            _ = try play.request(method, "/a", fields)
            let again = try play.request(method, "/a", fields)
            #expect(first.status == status && again.statusLine == first.statusLine && again.content == first.content)
            #expect(again.fields.map { "\($0)" } == first.fields.map { "\($0)" })
            #expect(try repeated(play) == Double(place + 1))
        }
    }

    @Test("requests in one piece, in several, and with more behind them are answered as ever")
    func pieces() throws {
        let play = try play()
        try warm(play)
        let text = "GET /a HTTP/1.1\r\nHost: cistern.test\r\n\r\n"
        let client = try play.client()
        for _ in 0..<4 {
            client.send(text + text)
            for _ in 0..<2 { #expect(client.readResponse()?.text.hasPrefix("{\"n\":1,") == true) }
        }
        client.send(text + "GET /b HTTP/1.1\r\n")
        #expect(client.readResponse()?.text.hasPrefix("{\"n\":1,") == true)
        client.send("Host: cistern.test\r\n\r\n")
        #expect(client.readResponse()?.text.hasPrefix("{\"n\":2,") == true)
        #expect(try repeated(play) == 0)
        for _ in 0..<3 {
            client.send(text)
            #expect(client.readResponse()?.text.hasPrefix("{\"n\":1,") == true)
        }
        #expect(try repeated(play) == 1)
        // Behind the half of a request it is no request.
        client.send("GET /x HTTP/1.1\r\nX: ")
        #expect(try repeated(play) == 1)
        client.send(text)
        #expect(client.readResponse()?.status == 200)
        #expect(play.origin.requests.last?.target == "/x")
        #expect(try repeated(play) == 1)
    }

    @Test("an answer that ends its connection is not one for others")
    func ending() throws {
        let play = try play()
        for _ in 0..<5 {
            let client = try play.client()
            let answer = client.get("/a", [("Connection", "close")])
            #expect(answer?["Connection"] == "close" && client.isClosedByServer())
        }
        #expect(try repeated(play) == 0)
    }

    @Test("a stale answer is not repeated: each asks for a new one")
    func stale() throws {
        let play = try play(["Cache-Control: stale-while-revalidate=60"])
        _ = try play.get("/a")
        play.origin.down()
        play.time.advance(by: .seconds(61))
        for _ in 0..<5 { #expect(try play.get("/a").text.hasPrefix("{\"n\":1,")) }
        #expect(try repeated(play) == 0)
    }

    @Test("many targets take turns, and each gets its own")
    func many() throws {
        let play = try play()
        var wanted: [String] = []
        for number in 0..<600 { wanted.append(try play.get("/many/\(number)").text) }
        for number in 0..<600 {
            for _ in 0..<3 { #expect(try play.get("/many/\(number)").text == wanted[number]) }
        }
        #expect(try repeated(play) == 600)
        // More than is kept: only some of them are known at the end.
        let padding = ["A", "B"].map { ($0, String(repeating: "x", count: 7_000)) }
        for number in 0..<300 {
            for _ in 0..<3 { #expect(try play.get("/many/\(number)", padding).text == wanted[number]) }
        }
        #expect(try repeated(play) == 900)
        for number in 0..<300 { #expect(try play.get("/many/\(number)", padding).text == wanted[number]) }
        #expect(try 900...980 ~= (repeated(play) ?? 0))
    }

    @Test("a request that asks for an explanation takes the long way, and so do all where hits are counted")
    func longWay() throws {
        let play = try play { $0.admin.allowsWhyField = true }
        for fields in [[("Cistern-Why", "?1")], [("Cistern-Key", "?1")]] {
            try warm(play, "/a", fields)
            _ = try play.get("/a", fields)
        }
        #expect(try repeated(play) == 0)
        let counting = try self.play { $0.otherRoute.refreshAhead = 20 }
        try warm(counting)
        try warm(counting)
        #expect(try repeated(counting) == 0)
    }

    @Test("requests that come with others behind them, or in pieces, take no other's place")
    func place() throws {
        let play = try play()
        func request(_ target: String) -> String { "GET \(target) HTTP/1.1\r\nHost: cistern.test\r\n\r\n" }
        func slot(_ text: String) -> UInt64 { Array(text.utf8).withUnsafeBytes { ContentHash.number(of: $0) } % 256 }
        let hot = request("/a")
        let other = try #require((0..<100_000).lazy.map { request("/b/\($0)") }.first { slot($0 + $0) == slot(hot) })
        let client = try play.client()
        func ask(_ text: String, answers: Int = 1) {
            client.send(text)
            for _ in 0..<answers { #expect(client.readResponse()?.status == 200) }
        }
        ask(other)
        for _ in 0..<3 { ask(hot) }
        ask(hot)
        let before = try repeated(play)
        for _ in 0..<3 { ask(other + other, answers: 2) }
        ask(hot)
        #expect(try repeated(play) == before.map { $0 + 1 })
    }
}
