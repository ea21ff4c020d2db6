// Tests which upstream fields reach clients. Per-request fields reach only the requesting client, internal addresses reach no client, and
// internal references become paths.

import CachePolicy
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Per-response fields and links to the upstream", .play, .clientProtocols)
struct StoredFieldsTests {
    static let momentary = [
        "RateLimit: \"a\";r=5", "RateLimit-Remaining: 5", "X-RateLimit-Reset: 30", "X-Rate-Limit-Limit: 10", "Retry-After: 7",
        "Server-Timing: db;dur=5", "Refresh: 5", "Clear-Site-Data: \"cache\"",
    ]
    static let neverShown = ["Alt-Svc: h3=\":443\"", "Alternate-Protocol: 443:quic"]
    private static let usual = ["ETag: \"a\"", "X-Kept: 1"]

    private static func names(_ lines: [String]) -> [String] { lines.compactMap { $0.split(separator: ":").first.map(String.init) } }

    private func origin(_ control: String = "max-age=60") -> ScriptedOrigin {
        ScriptedOrigin { request in
            let fields = Self.momentary + Self.neverShown + Self.usual + ["Cache-Control: \(control)"]
            if request["If-None-Match"] != nil {
                return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            }
            return [.json("1", fields)]
        }
    }

    private func expectNone(_ response: TestResponse, _ sentence: Comment) {
        for name in Self.names(Self.momentary + Self.neverShown) { #expect(response[name] == nil, sentence) }
        #expect(response["X-Kept"] == "1")
    }

    @Test("per-response fields reach only the client that caused them, not hits, confirmations or rescues")
    func stored() throws {
        let origin = origin()
        let play = try ProxyPlay(origin)
        let first = try play.get("/a")
        for name in Self.names(Self.momentary) { #expect(first[name] != nil) }
        for name in Self.names(Self.neverShown) { #expect(first[name] == nil) }
        expectNone(try play.get("/a"), "a hit")
        play.time.advance(by: .seconds(61))
        let confirmed = try play.get("/a")
        #expect(confirmed["Cache-Status"]?.contains("fwd-status=304") == true)
        expectNone(confirmed, "a response confirmed by a 304")
        expectNone(try play.get("/a"), "a hit after the confirmation")
        origin.down()
        play.time.advance(by: .seconds(61))
        expectNone(try play.get("/a"), "a rescue")
    }

    @Test("followers receive the stored form of the response")
    func collapsed() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", Self.momentary + Self.usual + ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin)
        let clients = try (0..<3).map { _ in
            return try play.client(getting: "/a")
        }
        #expect(try play.waitFor("cistern_requests_in_flight", 3))
        gate.open()
        let responses = clients.compactMap { $0.readResponse() }
        #expect(responses.count == 3 && origin.requests.count == 1)
        #expect(responses.count { $0["Retry-After"] != nil } == 1)
    }

    @Test("an error keeps its Retry-After, also when it is stored")
    func ofErrors() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", status: "404 Not Found", ["Retry-After: 7"])] }) {
            $0.policy.freshness.negative = 30
        }
        for _ in 0..<2 { #expect(try play.get("/a")["Retry-After"] == "7") }
    }

    @Test("strict mode stores all fields except other upstream addresses (RFC 9111 §3.1)")
    func strict() throws {
        let play = try ProxyPlay(origin()) { $0.policy.strictness = .strict }
        _ = try play.get("/a")
        let hit = try play.get("/a")
        for name in Self.names(Self.momentary) { #expect(hit[name] != nil) }
        for name in Self.names(Self.neverShown) { #expect(hit[name] == nil) }
    }

    @Test("links within the upstream become relative for each client, also in a 304's update")
    func references() throws {
        let origin = ScriptedOrigin { request in
            let base = "http://127.0.0.1:\(request["Host"]?.split(separator: ":").last ?? "")"
            let fields = [
                "ETag: \"a\"", "Content-Location: \(base)/items/1",
                "Link: <\(base)/items?page=2>; rel=\"next\"; title=\"<\(base)/x>, y\", <https://other.test/a>; rel=\"help\"",
                "Link: <\(base)/items>; rel=first", "Cache-Control: max-age=60",
            ]
            guard request["If-None-Match"] == nil else {
                return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            }
            return [.json("1", fields)]
        }
        let play = try ProxyPlay(origin)
        for round in 0..<3 {
            let response = try play.get("/items/1")
            #expect(response["Content-Location"] == "/items/1", "round \(round)")
            let links = response.all("Link").joined(separator: ", ")
            #expect(links.contains("</items?page=2>; rel=\"next\"") && links.contains("</items>; rel=first"), "round \(round)")
            #expect(links.contains("<https://other.test/a>; rel=\"help\""))
            #expect(links.contains("title=\"<http://127.0.0.1:\(play.origin.port)/x>, y\""), "what is quoted stays")
            if round == 1 { play.time.advance(by: .seconds(61)) }
        }
    }

    @Test("Cache-Status of a rescue reports the ttl, also if the response is still fresh")
    func ttl() throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.down()
        play.time.advance(by: .seconds(10))
        let fresh = try play.get("/a", [("Cache-Control", "no-cache")])
        #expect(fresh.text == "1" && fresh["Cache-Status"]?.contains("; ttl=50;") == true)
        play.time.advance(by: .seconds(60))
        #expect(try play.get("/a")["Cache-Status"]?.contains("; ttl=-10;") == true)
    }
}

@Suite("Conditional requests with a cold cache", .play, .clientProtocols)
struct ColdConditionTests {
    private func origin(_ control: String) -> ScriptedOrigin {
        ScriptedOrigin { request in
            guard request["If-None-Match"] == nil, request["If-Modified-Since"] == nil else {
                return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: \(control)\r\n\r\n")]
            }
            let date = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT"
            return [.json("\"one\"", ["ETag: \"a\"", date, "Cache-Control: \(control)"])]
        }
    }

    @Test(
        "the first request is sent without the client's conditions, evaluated locally, and fills the cache",
        arguments: [
            ("If-None-Match", "\"a\"", 304), ("If-None-Match", "\"b\"", 200), ("If-None-Match", "*", 304),
            ("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT", 304), ("If-Modified-Since", "Sun, 31 Dec 2023 00:00:00 GMT", 200),
        ])
    func first(_ name: String, _ value: String, _ status: Int) throws {
        let origin = origin("max-age=60")
        let play = try ProxyPlay(origin)
        let response = try play.get("/a", [(name, value)])
        #expect(response.status == status && response["ETag"] == "\"a\"")
        #expect(response["Cache-Status"]?.contains("stored") == true)
        #expect(origin.requests.map { $0[name] } == [nil])
        #expect(try play.get("/a").text == "\"one\"", "another client's hit")
        origin.down()
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a").text == "\"one\"", "a rescue")
    }

    @Test("if the response was not stored, later requests keep their conditions until one is")
    func notStored() throws {
        let origin = origin("no-store")
        let play = try ProxyPlay(origin)
        let condition = [("If-None-Match", "\"a\"")]
        #expect(try play.get("/a", condition).status == 200)
        #expect(try play.get("/a", condition).status == 304)
        #expect(try play.get("/a", condition).status == 304)
        #expect(origin.requests.map { $0["If-None-Match"] } == [nil, "\"a\"", "\"a\""])
        #expect(try play.get("/b", condition).status == 200, "another target")
    }

    @Test("a request that bypasses the cache keeps its conditions", arguments: ["HEAD", "POST"])
    func others(_ method: String) throws {
        let origin = origin("max-age=60")
        let play = try ProxyPlay(origin)
        _ = try play.request(method, "/a", [("If-None-Match", "\"a\"")], content: method == "POST" ? "1" : nil)
        #expect(origin.requests.map { $0["If-None-Match"] } == ["\"a\""])
    }
}

@Suite("Content-Encoding values that are not codings", .play, .clientProtocols)
struct InvalidCodingTests {
    @Test("JSON with an invalid Content-Encoding is stored without it", arguments: ["utf-8", "UTF8", "none", "binary", "identity, none"])
    func none(_ coding: String) throws {
        let origin = ScriptedOrigin { _ in [.json("{\"a\":1}", ["Content-Encoding: \(coding)", "Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").text == "{\"a\":1}")
        let hit = try play.get("/a")
        #expect(hit.text == "{\"a\":1}" && hit["Content-Encoding"] == nil && hit["Cache-Status"]?.contains("; hit") == true)
    }

    @Test("invalid JSON with an invalid Content-Encoding is not stored")
    func noJSON() throws {
        let origin = ScriptedOrigin { _ in [.json("{\"a\":", ["Content-Encoding: utf-8", "Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin)
        for _ in 0..<2 { #expect(try play.get("/a")["Cache-Status"]?.contains("stored") == false) }
        #expect(origin.requests.count == 2)
    }
}
