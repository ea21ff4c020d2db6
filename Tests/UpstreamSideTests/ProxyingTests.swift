// Tests of forwarding: methods, content, framing, fields and connections. Also tests requests that are refused without asking the upstream.

import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Proxying", .play, .http1Protocols)
struct ProxyingTests {
    private static func echo() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let fields = request.fields.map { "\($0.name)=\($0.value)" }.joined(separator: "|")
            return [.answer("\(request.line)|\(fields)|\(String(decoding: request.content, as: UTF8.self))", type: "text/plain")]
        }
    }

    @Test("any method and content is forwarded, with a length or chunked")
    func contents() throws {
        let play = try ProxyPlay(Self.echo())
        let text = String(repeating: "0123456789", count: 30_000)
        #expect(try play.request("POST", "/a", content: text).text.hasSuffix(text))
        #expect(try play.request("PROPFIND", "/a?x=%7e", content: "body").text.hasPrefix("PROPFIND /a?x=%7e HTTP/1.1|"))
        let client = try play.client()
        client.send("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=\"y\"\r\nde\r\n0\r\nT: x\r\n\r\n")
        #expect(client.readResponse()?.text.hasSuffix("|abcde") == true)
        #expect(play.origin.requests.last?["Transfer-Encoding"] == nil && play.origin.requests.last?["Content-Length"] == "5")
        #expect(try play.request("DELETE", "/a").status == 200)
    }

    @Test("large responses are streamed completely")
    func largeResponse() throws {
        let text = String(repeating: "abcdefghij", count: 1_000_000)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer(text, type: "text/plain")] })
        let response = try play.get("/a")
        #expect(response.content.count == 10_000_000)
        #expect(response.text == text)
    }

    @Test("a truncated streamed response closes the connection instead of looking complete")
    func brokenStream() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), .close]
            })
        let client = try play.client()
        let response = client.get("/a")
        #expect(response == nil || response?.isComplete == false)
    }

    @Test("pipelined requests are answered in order")
    func pipelining() throws {
        let play = try ProxyPlay(ScriptedOrigin { request in [.json("\"\(request.target)\"")] })
        let client = try play.client(sending: (1...5).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
        for number in 1...5 { #expect(client.readResponse()?.text == "\"/\(number)\"") }
    }

    @Test("requests that arrive byte by byte, and half-closed connections, are answered")
    func dribble() throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client()
        for byte in "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n".utf8 { client.send([byte]) }
        #expect(client.readResponse()?.status == 200)
        client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
        client.finishSending()
        #expect(client.readResponse()?.text.hasPrefix("GET /half") == true)
        #expect(client.isClosedByServer())
    }

    @Test("HTTP/1.0 clients get no chunked coding, and a persistent connection only on request")
    func http10() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")]
            })
        let client = try play.client(sending: "GET /a HTTP/1.0\r\n\r\n")
        let response = client.readResponse()
        #expect(response?["Transfer-Encoding"] == nil)
        #expect(response?.text == "abc")
        #expect(client.isClosedByServer())
    }

    @Test("Expect: 100-continue is answered; another expectation is refused")
    func expect() throws {
        let play = try ProxyPlay(Self.echo())
        let response = try play.request("PUT", "/a", [("Expect", "100-continue")], content: "abc")
        #expect(response.informational == ["HTTP/1.1 100 Continue"])
        #expect(response.text.hasSuffix("|abc"))
        #expect(try play.request("PUT", "/a", [("Expect", "magic")], content: "abc").status == 417)
    }

    @Test("a 103 is forwarded, and its fields are not added to the response")
    func earlyHints() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), .json("{}")] })
        let response = try play.get("/a")
        #expect(response.informational == ["HTTP/1.1 103 Early Hints"])
        #expect(response["Link"] == nil)
    }

    @Test("content fields of a 1xx response are removed when it is forwarded (RFC 9110 §8.6)")
    func earlyLength() throws {
        let early = "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nLink: </a>\r\n\r\n"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send(early), .json("{}")] })
        let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        let head = String(decoding: client.readToEnd().prefix(80), as: UTF8.self)
        #expect(head.hasPrefix("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"), "\(head)")
    }

    @Test("hop-by-hop fields are removed, forwarding fields are set by the proxy, and override fields are dropped")
    func fields() throws {
        let play = try ProxyPlay(Self.echo())
        _ = try play.get(
            "/a",
            [
                ("Connection", "X-Drop, Authorization, close"), ("X-Drop", "1"), ("Authorization", "kept"), ("Keep-Alive", "1"),
                ("TE", "trailers"), ("Upgrade", "h2c"), ("X-HTTP-Method-Override", "DELETE"), ("X-Forwarded-For", "6.6.6.6"),
                ("X-Forwarded-Host", "evil"), ("X-Original-URL", "/admin"), ("X-Keep", "ä"), ("Accept", "text/plain"),
            ])
        let seen = try #require(play.origin.requests.last)
        for name in ["Connection", "X-Drop", "Keep-Alive", "TE", "Upgrade", "X-HTTP-Method-Override", "X-Forwarded-Host", "X-Original-URL"]
        {
            #expect(seen[name] == nil, "\(name)")
        }
        #expect(seen["Authorization"] == "kept")
        #expect(seen["X-Keep"] == "ä")
        #expect(seen["Host"] == "127.0.0.1:\(play.origin.port)")
        #expect(seen["X-Forwarded-For"] == "127.0.0.1")
        let scheme = ProxyPlay.clientProtocol.scheme
        #expect(seen["Forwarded"] == "for=127.0.0.1;proto=\(scheme)" && seen["X-Forwarded-Proto"] == scheme)
        #expect(seen["Via"]?.hasPrefix("1.1 cistern (") == true)
        #expect(seen["User-Agent"] == nil)
        #expect(seen["Accept"] == "text/plain")
    }

    @Test("the dropped routing fields are configurable; trusted proxies may use their own")
    func overrides() throws {
        let names = [
            "X-Host", "X-Original-Host", "X-HTTP-Host-Override", "X-Forwarded-Server", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri",
            "x-METHOD-override", "Proxy",
        ]
        let sent = names.map { ($0, "evil") } + [("X-Mine", "1")]
        func seen(_ configure: @escaping (inout ProxySettings) -> Void) throws -> Set<String> {
            let play = try ProxyPlay(Self.echo(), configure)
            _ = try play.get("/a", sent)
            let fields = try #require(play.origin.requests.last).fields
            return Set(fields.filter { $0.value == "evil" || $0.name == "X-Mine" }.map(\.name))
        }
        #expect(try seen { _ in } == ["X-Mine"])
        #expect(try seen { $0.forwarding.overrideFields = ["x-mine"] } == Set(names).subtracting(["X-Forwarded-Server"]))
        #expect(try seen { $0.forwarding.overrideFields = [] } == Set(names + ["X-Mine"]).subtracting(["X-Forwarded-Server"]))
        #expect(try seen { $0.forwarding.forwarded = .trust } == ["X-Mine", "X-Forwarded-Server", "X-Forwarded-Uri"])
    }

    @Test(
        "an unsafe request names its method to the upstream; a request that the store may answer does not",
        arguments: ["X-HTTP-Method-Override", "X-HTTP-Method", "x-method-override"])
    func methodOverrides(name: String) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                [.json(request[name].map { "\"\($0)\"" } ?? "0", ["Cache-Control: max-age=60", "Content-Location: \(request.target)"])]
            }
        ) {
            var route = Route()
            route.name = "search"
            route.pattern = RoutePattern("/search")
            route.methods = [.post]
            $0.routes = [route]
        }
        let fields = [(name, "DELETE"), ("X-Original-URL", "/admin")]
        #expect(try play.get("/a", fields).text == "0")
        #expect(try play.admin("GET", "/-/why?last=1").text.contains("The request named another method in a field, which was removed"))
        for method in ["POST", "PUT", "FROB"] {
            #expect(try play.request(method, "/a", fields, content: "{}").text == "\"DELETE\"", "\(method)")
        }
        // This method is safe, so its response invalidates nothing.
        #expect(try play.request("SEARCH", "/a", fields, content: "{}").text == "0")
        #expect(try play.admin("GET", "/-/why?last=1").text.contains("The request named another method in a field, which was removed"))
        #expect(play.origin.requests.allSatisfy { $0["X-Original-URL"] == nil })
        // The write has invalidated the target, and its response is not stored for it.
        let next = try play.get("/a")
        #expect(next.text == "0" && next["Cache-Status"]?.contains("hit") == false)
        #expect(try play.request("POST", "/search", fields, content: "{}").text == "0")
    }

    @Test("a field name with _ instead of - is dropped like its equivalent (RFC 3875 §4.1.18)")
    func underscores() throws {
        let play = try ProxyPlay(Self.echo()) { $0.forwarding.forwarded = .trust }
        let names = ["X_Original_URL", "x_rewrite-url", "X_FORWARDED_HOST", "X-Forwarded_For", "X_HTTP_Method_Override", "X_Original_Host"]
        _ = try play.get("/a", names.map { ($0, "evil") } + [("X_Keep", "1")])
        let seen = try #require(play.origin.requests.last)
        #expect(seen.fields.allSatisfy { $0.value != "evil" })
        #expect(seen["X_Keep"] == "1")
    }

    @Test("non-ASCII bytes in a target are percent-encoded and share the cache key")
    func rawTargets() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] })
        #expect(try play.get("/caf\u{e9}?q=\u{e4}").status == 200)
        #expect(play.origin.requests.last?.target == "/caf%C3%A9?q=%C3%A4")
        #expect(try play.get("/caf%c3%a9?q=%C3%A4")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        #expect(try play.get("/caf\u{e9}?q=\u{e4}")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        #expect(play.origin.requests.count == 1)
    }

    @Test("an empty query does not affect the key but is forwarded unchanged; in strict mode the keys differ")
    func emptyQuery() throws {
        for strictness in [Strictness.rescue, .strict] {
            let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }
            let play = try ProxyPlay(origin) { $0.policy.strictness = strictness }
            #expect(try play.get("/users?").status == 200)
            #expect(origin.requests.last?.target == "/users?")
            #expect(try play.get("/users").status == 200)
            #expect(origin.requests.count == (strictness == .strict ? 2 : 1))
        }
    }

    @Test("a redirect within the upstream points to the proxy; other redirects are unchanged")
    func location() throws {
        let origin = ScriptedOrigin { request in
            let host = request["Host"] ?? ""
            let target = request.target == "/own" ? "http://\(host)/there?x=1" : "http://elsewhere.example/"
            return [.send("HTTP/1.1 301 Moved\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n")]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/own")["Location"] == "/there?x=1")
        #expect(try play.get("/other")["Location"] == "http://elsewhere.example/")
    }

    @Test(
        "a redirect is not made relative if browsers would read the rest as another host",
        arguments: ["//evil.example", "/\\evil.example"])
    func relativeAuthority(path: String) throws {
        for basePath in ["", "/v1"] {
            let origin = ScriptedOrigin { request in
                let target = "http://\(request["Host"] ?? "")\(basePath)\(path)"
                return [.send("HTTP/1.1 301 Moved\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n")]
            }
            let play = try ProxyPlay(origin) { $0.upstream.basePath = basePath }
            #expect(try play.get("/own")["Location"] == "http://127.0.0.1:\(origin.port)\(basePath)\(path)")
        }
    }

    @Test("upstream connections are pooled and reused")
    func keptConnections() throws {
        let play = try ProxyPlay(Self.echo())
        for _ in 0..<10 { _ = try play.get("/a") }
        #expect(try play.metric("cistern_upstream_connections_total") == 1)
    }

    @Test("a request that loops back is detected")
    func loop() throws {
        let play = try ProxyPlay(Self.echo())
        _ = try play.get("/a")
        let via = try #require(play.origin.requests.last?["Via"])
        let response = try play.get("/a", [("Via", via)])
        #expect(response.status == 502)
        #expect(response["Proxy-Status"] == "cistern; error=proxy_loop_detected")
    }

    @Test("TRACE and CONNECT are refused; Max-Forwards is decremented")
    func refusedMethods() throws {
        let play = try ProxyPlay(Self.echo())
        #expect(try play.request("TRACE", "/a").status == 405)
        let client = try play.client(sending: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n")
        #expect(client.readResponse()?.status == 405)
        #expect(try play.request("OPTIONS", "/a", [("Max-Forwards", "0")]).status == 200)
        #expect(play.origin.requests.isEmpty)
        _ = try play.request("OPTIONS", "/a", [("Max-Forwards", "5")])
        #expect(play.origin.requests.last?["Max-Forwards"] == "4")
    }

    @Test(
        "an ambiguous request is refused, the connection closed, and nothing forwarded",
        arguments: [
            ("GET /a HTTP/1.1\r\n\r\n", 400), ("GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400), ("GET /a HTTP/1.1\nHost: a\n\n", 400),
            ("GET /a HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", 400), ("GET /a HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400),
            ("GET /a HTTP/1.1\r\nHost: a\r\nX: a\u{0}b\r\n\r\n", 400), ("GET /a HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
            ("GET /a HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400), ("GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /ä b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /a HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), ("G@T /a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            ("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
            ("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xyz\r\n\r\n", 501),
            ("GET /\(String(repeating: "a", count: 9_000)) HTTP/1.1\r\nHost: a\r\n\r\n", 414),
            ("GET /a HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 40_000))\r\n\r\n", 431),
            ("GET /a HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: 1\r\n", count: 200))\r\n", 431),
        ] as [(String, Int)])
    func refused(request: String, status: Int) throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client(sending: request)
        let response = try #require(client.readResponse())
        #expect(response.status == status)
        #expect(response["Connection"] == "close")
        #expect(response["Content-Type"] == "text/plain; charset=utf-8")
        #expect(response.text.hasSuffix(".\n"))
        #expect(client.isClosedByServer())
        #expect(play.origin.requests.isEmpty)
    }

    @Test(
        "invalid chunks end the connection, and the upstream never gets a complete request",
        arguments: [
            "0x3\r\nabc\r\n0\r\n\r\n", "3 \r\nabc\r\n0\r\n\r\n", "-1\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
            "fffffffffffffffff\r\n", "3;a\u{1}\r\nabc\r\n",
        ])
    func badChunks(content: String) throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + content)
        #expect(client.readResponse()?.status == 400)
        #expect(client.isClosedByServer())
        #expect(play.origin.requests.isEmpty)
    }

    @Test("content above the limit is refused, before or during transfer")
    func contentLimit() throws {
        let play = try ProxyPlay(Self.echo()) { $0.downstream.contentLimitBytes = 10 }
        #expect(try play.request("POST", "/a", content: "12345678901").status == 413)
        let client = try play.client()
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n")
        #expect(client.readResponse()?.status == 413)
        #expect(try play.request("POST", "/a", content: "1234567890").status == 200)
    }

    @Test("a slow request head gets 408, however it arrives")
    func slowHead() throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client(sending: "GET /a HTTP/1.1\r\nHo")
        while !client.hasInput(within: 10) { play.time.advance(by: .seconds(1)) }
        #expect(client.readResponse()?.status == 408)
        #expect(client.isClosedByServer())
    }

    @Test("clients that prefer JSON get problem details")
    func problemDetails() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.close] })
        let response = try play.get("/a", [("Accept", "application/json")])
        #expect(response["Content-Type"] == "application/problem+json")
        #expect(response.text.contains("\"status\":502"))
        #expect(try play.metric("cistern_response_bytes_total{source=\"own\"}") == Double(response.content.count))
        #expect(try play.metric("cistern_response_bytes_total{source=\"upstream\"}") == 0)
    }

    // Over plain HTTP only: a connection that is not accepted gets no TLS handshake.
    @Test("beyond the limit on busy connections new ones wait until others close", .clientProtocol(.clear))
    func connectionLimit() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in request.target == "/b" ? [.json("2")] : [.pass(gate), .json("1")] }
        let play = try ProxyPlay(origin) {
            $0.downstream.maximumConnections = 2
            $0.shards = 2
        }
        // A shard may briefly hold the last slot while it looks for more, so a connection may be accepted later.
        let isServed = { (client: TestClient) in
            while !client.hasInput(within: 10) { play.time.advance(by: .milliseconds(100)) }
            return client.readResponse()?.status == 200
        }
        var open = [try play.client(), try play.client()]
        for (number, client) in open.enumerated() { client.send("GET /a\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
        while origin.requests.count < 2 {
            _ = open[0].hasInput(within: 10)
            play.time.advance(by: .milliseconds(100))
        }
        let waiting = try play.client(getting: "/b")
        #expect(!waiting.hasInput(within: 200))
        gate.open()
        open.removeAll()
        #expect(isServed(waiting))
    }
}
