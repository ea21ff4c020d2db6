// Tests of repeated hits. A request that matches an earlier one gets its response without a look-up, as long as a look-up would find it.

import Administration
import CachePolicy
import Downstream
import HTTPCore
import JSON
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Repeated hits", .play, .clientProtocols)
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

    /// Sends requests until the next one can be a repeated hit. Returns the last response.
    @discardableResult
    private func warm(_ play: ProxyPlay, _ target: String = "/a", _ fields: [(String, String)] = []) throws -> TestResponse {
        _ = try play.get(target, fields)
        _ = try play.get(target, fields)
        return try play.get(target, fields)
    }

    @Test("a repeated request receives the same response and is counted, explained and logged like any hit")
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

    @Test("a response with Vary: Origin is repeated per origin, whatever the request ID")
    func variedByOrigin() throws {
        let origin = ScriptedOrigin { request in
            [.json("\"\(request["Origin"] ?? "none")\"", ["Cache-Control: max-age=60", "Vary: Origin"])]
        }
        let play = try ProxyPlay(origin)
        for number in 0..<20 {
            for asking in ["http://a.test", "http://b.test"] {
                let response = try play.get("/a", [("Origin", asking), ("X-Request-Id", "\(asking)-\(number)")])
                #expect(response.text == "\"\(asking)\"")
            }
            #expect(try play.get("/a", [("X-Request-Id", "\(number)")]).text == "\"none\"")
        }
        #expect(try repeated(play) ?? 0 >= 40)
        #expect(play.origin.requests.count == 3)
    }

    @Test("a response is repeated until its age changes")
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
        // Also after the clock was set back: a remembered response is not used before its time.
        try warm(play)
        play.time.advance(by: .milliseconds(-500))
        #expect(try play.get("/a")["Age"] == "0")
        play.time.advance(by: .seconds(60))
        #expect(try play.get("/a").text.hasPrefix("{\"n\":2,"))
    }

    @Test(
        "any change of the stored response ends its repetition at once",
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

    @Test("a write ends repetition at once, also a write to another target of the same group")
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

    @Test("storing other targets does not end repetition")
    func othersStored() throws {
        let play = try play()
        try warm(play)
        for count in 1...5 {
            _ = try play.get("/b/\(count)")
            #expect(try play.get("/a").text.hasPrefix("{\"n\":1,"))
            #expect(try repeated(play) == Double(count))
        }
    }

    @Test("requests with another User-Agent share the repeated hit, and each is explained and logged separately")
    func otherPrograms() throws {
        let play = try play()
        try warm(play, "/a", [("User-Agent", "one"), ("Accept-Language", "de")])
        for (count, program) in ["one", "two", "three", "two", "two"].enumerated() {
            let again = try play.get("/a", [("Accept", "*/*"), ("User-Agent", program)])
            #expect(again.text.hasPrefix("{\"n\":1,") && again["Cache-Status"] == "cistern; hit; ttl=60")
            #expect(try repeated(play) == Double(count + 1))
        }
        #expect(try play.metric("cistern_requests_total{result=\"hit\",method=\"GET\",status_class=\"2xx\"}") == 7)
        #expect(play.origin.requests.count == 1)
    }

    @Test("a repeated hit signals the connection's end, also to HTTP/1.0 clients", .http1Protocols)
    func ends() throws {
        let play = try play()
        try warm(play)
        let last = try play.client()
        let response = last.get("/a", [("Connection", "close")])
        #expect(response?["Connection"] == "close" && response?.text.hasPrefix("{\"n\":1,") == true && last.isClosedByServer())
        let old = try play.client()
        for _ in 0..<5 {
            old.send("GET /a HTTP/1.0\r\nHost: cistern.test\r\nConnection: keep-alive\r\n\r\n")
            let response = old.readResponse()
            #expect(response?["Connection"] == "keep-alive" && response?.text.hasPrefix("{\"n\":1,") == true)
        }
        #expect(try play.get("/a")["Connection"] == nil)
    }

    @Test("repeated hits never serve another request's response")
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

    @Test("equal requests over http and https receive separate responses", .clientProtocol(.tls))
    func schemes() throws {
        let play = try play { $0.listening.listeners.append(ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))) }
        let clients = try [play.client(), TestClient(port: play.ports[1])]
        var texts: [String?] = []
        for client in clients { texts.append((0..<3).map { _ in client.get("/a")?.text }.last ?? nil) }
        #expect(texts[0] != nil && texts[0] != texts[1])
        for count in 1...3 {
            for (client, text) in zip(clients, texts) { #expect(client.get("/a")?.text == text) }
            #expect(try repeated(play) == Double(2 * count))
        }
    }

    @Test("repeated HEAD, conditional, range and compressed responses are identical")
    func forms() throws {
        let play = try play { $0.content.compressFromBytes = 100 }
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

    @Test("whole, split and pipelined requests are answered correctly", .http1Protocols)
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
        #expect(try repeated(play) == 9)
        for _ in 0..<3 {
            client.send(text)
            #expect(client.readResponse()?.text.hasPrefix("{\"n\":1,") == true)
        }
        #expect(try repeated(play) == 12)
        // After an incomplete request, these bytes are not a request of their own.
        client.send("GET /x HTTP/1.1\r\nX: ")
        #expect(try repeated(play) == 12)
        client.send(text)
        #expect(client.readResponse()?.status == 200)
        #expect(play.origin.requests.last?.target == "/x")
        #expect(try repeated(play) == 12)
    }

    @Test("a response that closes its connection is not repeated on others", .http1Protocols)
    func ending() throws {
        let play = try play()
        for _ in 0..<5 {
            let client = try play.client()
            let answer = client.get("/a", [("Connection", "close")])
            #expect(answer?["Connection"] == "close" && client.isClosedByServer())
        }
        #expect(try repeated(play) == 0)
    }

    @Test("a stale response is never a repeated hit")
    func stale() throws {
        let play = try play(["Cache-Control: stale-while-revalidate=60"])
        _ = try play.get("/a")
        play.origin.down()
        play.time.advance(by: .seconds(61))
        for _ in 0..<5 { #expect(try play.get("/a").text.hasPrefix("{\"n\":1,")) }
        #expect(try repeated(play) == 0)
    }

    @Test("interleaved requests for many targets each receive their own response", .slow)
    func many() throws {
        let play = try play()
        var wanted: [String] = []
        for number in 0..<600 { wanted.append(try play.get("/many/\(number)").text) }
        for number in 0..<600 {
            for _ in 0..<3 { #expect(try play.get("/many/\(number)").text == wanted[number]) }
        }
        // Some targets collide in the table.
        let first = try #require(try repeated(play))
        #expect(400...600 ~= first)
        for number in 0..<600 { #expect(try play.get("/many/\(number)").text == wanted[number]) }
        #expect(try 200...600 ~= (repeated(play) ?? 0) - first)
    }

    @Test("requests with explanation fields, and routes with refresh_ahead, have no repeated hits")
    func neverRepeated() throws {
        let play = try play { $0.ownFields.allowsWhy = true }
        for fields in [[("Cistern-Why", "?1")], [("Cistern-Key", "?1")]] {
            try warm(play, "/a", fields)
            _ = try play.get("/a", fields)
        }
        #expect(try repeated(play) == 0)
        let counting = try self.play {
            var route = Route()
            (route.pattern, route.refreshAhead) = (RoutePattern("/counted/**"), 20)
            $0.routes = [route]
        }
        for _ in 1...2 { try warm(counting, "/counted/a") }
        #expect(try repeated(counting) == 0)
        for _ in 1...2 { try warm(counting) }
        #expect(try repeated(counting) != 0)
    }
}
