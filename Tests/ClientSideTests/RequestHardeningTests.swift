// Tests of malicious requests: unusual targets, unexpected content, and slow sending.

import CachePolicy
import Downstream
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Malicious requests", .play, .http1Protocols)
struct RequestHardeningTests {
    /// Responds with the received request, fresh for an hour.
    private static func telling() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let content = String(decoding: request.content, as: UTF8.self)
            return [.json("[\"\(request.method)\",\"\(request.target)\",\"\(content)\"]", ["Cache-Control: max-age=3600"])]
        }
    }

    @Test(
        "Connection cannot remove an end-to-end field",
        arguments: [
            "Host", "Authorization", "Cookie", "Cache-Control", "Content-Length", "Content-Type", "If-None-Match", "Range", "Origin",
            "X-API-Key", "X-Forwarded-For", "Via", "Max-Forwards", "Expect", "X-Tenant", "x_session", "X-Own-Token",
        ])
    func connectionNames(name: String) throws {
        let play = try ProxyPlay(Self.telling())
        let values = ["Content-Length": "2", "Expect": "100-continue", "Max-Forwards": "7", "Via": "1.1 other", "Host": "a"]
        var text = "POST /a HTTP/1.1\r\n"
        let fields = ["Host", "Content-Length"] + (["Host", "Content-Length"].contains(name) ? [] : [name])
        for field in fields { text += "\(field): \(values[field] ?? "x")\r\n" }
        let client = try play.client(sending: text + "Connection: \(name)\r\n\r\n{}")
        #expect(client.readResponse()?.status == 200)
        let seen = try #require(play.origin.requests.last)
        #expect(String(decoding: seen.content, as: UTF8.self) == "{}")
        #expect(seen["Connection"] == nil)
        switch name {
        case "Expect": #expect(seen[name] == nil)
        case "Host": #expect(seen[name] == "127.0.0.1:\(play.origin.port)")
        case "X-Forwarded-For": #expect(seen[name] == "127.0.0.1")
        case "Via": #expect(seen.fields.contains { $0.value == "1.1 other" })
        default: #expect(seen[name] == values[name] ?? "x")
        }
        // No part of the content is parsed as a request.
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(client.readResponse()?.text == "[\"GET\",\"/next\",\"\"]")
    }

    @Test(
        "a field removed by Connection does not select a stored response",
        arguments: ["X-Edition", "Accept-Language"])
    func namedInConnection(name: String) throws {
        let origin = ScriptedOrigin { request in
            let content = "\"\(request["X-Edition"] ?? request["Accept-Language"] ?? "none")\""
            return [.json(content, ["Cache-Control: max-age=3600", "Vary: Accept-Language"])]
        }
        let play = try ProxyPlay(origin) { $0.policy.keyFields = ["x-edition"] }
        #expect(try play.get("/a", [(name, "own"), ("Connection", "keep-alive, \(name)")]).text == "\"none\"")
        #expect(try play.get("/a", [(name, "own")]).text == "\"own\"")
        #expect(try play.get("/a").text == "\"none\"")
        #expect(origin.requests.count == 2)
    }

    @Test("credentials named in Connection still select their partition")
    func partitionKept() throws {
        let play = try ProxyPlay(Self.telling())
        _ = try play.get("/me", [("Authorization", "a"), ("Connection", "Authorization")])
        #expect(try play.get("/me")["Cache-Status"] == "cistern; fwd=uri-miss; stored")
    }

    @Test("content on GET and HEAD is forwarded, and its response is not served to requests without it", arguments: ["GET", "HEAD"])
    func contentOnGet(method: String) throws {
        let play = try ProxyPlay(Self.telling())
        let client = try play.client()
        for framing in ["Content-Length: 4\r\n\r\nevil", "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"] {
            client.send("\(method) /a HTTP/1.1\r\nHost: a\r\n\(framing)")
            #expect(client.readResponse(toHead: method == "HEAD")?["Cache-Status"]?.contains("stored") == false)
        }
        #expect(try play.get("/a").text == "[\"GET\",\"/a\",\"\"]")
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
        // A stored response is not served to a request with content.
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nevil")
        #expect(client.readResponse()?.text == "[\"GET\",\"/a\",\"evil\"]")
    }

    @Test("HEAD and range responses never replace a complete GET response")
    func wholeResponseStays() throws {
        let origin = ScriptedOrigin { request in
            if request.method == "HEAD" {
                return [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n")]
            }
            if request["Range"] != nil { return [.json("{", status: "206 Partial Content", ["Content-Range: bytes 0-0/8"])] }
            return [.json("{\"id\":1}")]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        #expect(try play.request("HEAD", "/a").status == 200)
        #expect(try play.get("/a", [("Range", "bytes=0-0")]).status == 206)
        origin.down()
        #expect(try play.get("/a").text == "{\"id\":1}")
    }

    @Test("an Upgrade is never forwarded, nor is h2c")
    func upgrade() throws {
        let play = try ProxyPlay(Self.telling())
        let response = try play.get(
            "/a", [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__")])
        #expect(response.status == 200)
        let seen = try #require(play.origin.requests.last)
        #expect(seen["Upgrade"] == nil && seen["HTTP2-Settings"] == nil && seen["Connection"] == nil)
    }

    @Test("the content of a refused request is not parsed as the next request", arguments: ["TRACE", "OPTIONS"])
    func refusedContent(method: String) throws {
        let play = try ProxyPlay(Self.telling())
        let client = try play.client()
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        client.send("\(method) /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nContent-Length: \(smuggled.utf8.count)\r\n\r\n" + smuggled)
        #expect(client.readResponse() != nil)
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
        _ = client.readResponse()
        #expect(!play.origin.requests.contains { $0.target == "/smuggled" })
    }

    @Test("an absolute URI is accepted only if scheme and authority match the listener", .http1Protocols)
    func wholeURIs() throws {
        let play = try ProxyPlay(Self.telling())
        let client = try play.client()
        let (own, other) = ProxyPlay.clientProtocol.isSecured ? ("https", "http") : ("http", "https")
        for (uri, status) in [
            ("\(own)://a:\(play.port)/x", 200), ("\(other)://a:\(play.port)/x", 421), ("\(own)://a:1/x", 421),
            ("\(own)://a:\(play.port)/x", 200),
        ] {
            let authority = uri.split(separator: "/")[1]
            client.send("GET \(uri) HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
            #expect(client.readResponse()?.status == status, "\(uri)")
        }
        #expect(play.origin.requests.allSatisfy { $0.target == "/x" } && play.origin.requests.count <= 2)
        #expect(try play.metric("cistern_refused_requests_total{reason=\"other_scheme\"}") == 1)
    }

    @Test("a response provoked by an unusual request is not stored for others")
    func provoked() throws {
        let origin = ScriptedOrigin { request in
            request["X-Odd"] == nil ? [.json("1")] : [.json("{\"error\":true}", status: "400 Bad Request", ["Cache-Control: max-age=3600"])]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a", [("X-Odd", "1")]).status == 400)
        #expect(try play.get("/a").text == "1")
    }

    @Test("key fields configured by the operator separate responses")
    func keyFields() throws {
        let origin = ScriptedOrigin { [.json("\"\($0["User-Agent"] ?? "-")\"", ["Cache-Control: max-age=3600"])] }
        let play = try ProxyPlay(origin) { $0.policy.keyFields = ["user-agent"] }
        for agent in ["a", "b", "a", "b"] { #expect(try play.get("/x", [("User-Agent", agent)]).text == "\"\(agent)\"") }
        #expect(try play.get("/x").text == "\"-\"")
        #expect(origin.requests.count == 3)
    }

    @Test("JSON is recognized by its type, not by the path's extension; an HTML page under .json is not stored")
    func deception() throws {
        let origin = ScriptedOrigin { request in
            request.target.hasSuffix(".css")
                ? [.json("{\"private\":1}", ["Cache-Control: private, max-age=60"])] : [.answer("<p>", type: "text/html")]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/profile.css")
        _ = try play.get("/page.json")
        origin.down()
        #expect(try play.get("/profile.css").status == 502)
        #expect(try play.get("/page.json").status == 502)
    }

    @Test("thousands of slow request heads do not delay others and time out", .slow, .realTime)
    func dripping() throws {
        let play = try ProxyPlay(Self.telling())
        let slow = try (0..<2_000).map { _ in try play.client() }
        for client in slow { client.send("GET /slow HTTP/1.1\r\nX-") }
        for number in 0..<20 { #expect(try play.get("/\(number)").status == 200) }
        for _ in 0..<12 {
            for client in slow { client.send("a") }
            play.time.advance(by: .seconds(1))
        }
        while !slow[0].hasInput(within: 10) { play.time.advance(by: .seconds(1)) }
        for client in slow { #expect(client.readResponse()?.status == 408) }
        #expect(play.origin.requests.count == 20)
    }

    @Test("slow response content ends with the total timeout, with or without a stored response", .slow, arguments: [true, false])
    func drippingResponse(hasCopy: Bool) throws {
        let origin = ScriptedOrigin { _ in [.json("{\"good\":1}")] }
        let play = try ProxyPlay(origin) {
            $0.upstream.totalTimeout = .seconds(60)
            $0.upstream.betweenBytesTimeout = .seconds(1_000)
            $0.otherRoute.rescueAfter = 0
        }
        if hasCopy { _ = try play.get("/a") }
        let gate = Gate()
        origin.react { _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[")] + [.pass(gate)]
        }
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        while !client.hasInput(within: 10) { play.time.advance(by: .seconds(1)) }
        let response = try #require(client.readResponse())
        #expect(response.status == (hasCopy ? 200 : 504))
        gate.open()
    }
}
