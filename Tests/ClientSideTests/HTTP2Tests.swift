// Tests of HTTP/2 clients beyond the suites with `.clientProtocols`: concurrent requests, flow control, resets and ends.

import Addresses
import Downstream
import Forwarding
import HTTP2
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// Responds with the request line, the received fields and the content.
private func echo() -> ScriptedOrigin {
    ScriptedOrigin { request in
        let fields = request.fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        return [.answer("\(request.line)\n\(fields)\n\n\(String(decoding: request.content, as: UTF8.self))", type: "text/plain")]
    }
}

private func line(_ name: String, of text: String) -> String? {
    text.split(separator: "\n").first { $0.lowercased().hasPrefix(name + ": ") }.map { String($0.dropFirst(name.utf8.count + 2)) }
}

@Suite("HTTP/2 with clients", .play)
struct HTTP2Tests {
    private static let usual = [(":method", "GET"), (":scheme", "http"), (":authority", "api.test"), (":path", "/a")]

    @Test("an HTTP/2 request is forwarded like HTTP/1.1, with the protocol in Via")
    func forwarded() throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2) { $0.forwarding.preserveHost = true }
        let client = try play.http2Client()
        let stream = try #require(
            client.begin(
                Self.usual + [("x-own", "1"), ("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2"), ("host", "API.test")]))
        let text = try #require(client.response(of: stream)).text
        #expect(text.hasPrefix("GET /a HTTP/1.1\n"))
        #expect(line("host", of: text) == "api.test" && line("x-own", of: text) == "1" && line("cookie", of: text) == "a=1; b=2")
        #expect(line("via", of: text)?.hasPrefix("2 cistern") == true)
        #expect(line("te", of: text) == nil && line("content-length", of: text) == nil)
        #expect(try play.metric("cistern_http2_connections_total") == 2)
    }

    @Test("concurrent requests each receive their own response, also if large")
    func many() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                [.answer(String(repeating: request.target, count: 40_000), type: "text/plain", ["Cache-Control: max-age=60"])]
            }, clientProtocol: .http2)
        let client = try play.http2Client()
        for _ in 0..<2 {
            let streams = (10..<50).compactMap { client.begin("GET", "/\($0)") }
            #expect(streams.count == 40)
            for (index, stream) in streams.enumerated() {
                let response = try #require(client.response(of: stream))
                #expect(response.isComplete && response.text == String(repeating: "/\(index + 10)", count: 40_000))
            }
        }
    }

    @Test("a response with a head of almost 64 KiB arrives, as over HTTP/1.1")
    func largeHead() throws {
        let long = (0..<60).map { "X-Long-\($0): " + String(repeating: "{", count: 1_070) }
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"] + long)] }, clientProtocol: .http2)
        // The first response comes from the upstream, the second one from the store.
        let client = try play.http2Client()
        for _ in 0..<2 {
            let response = try #require(client.get("/a"))
            #expect(response.status == 200 && response.isComplete && response.text == "{}")
            #expect(response.fields.count { $0.name.hasPrefix("x-long-") } == 60)
        }
    }

    @Test("credentials in responses are never added to the compression table that all users of a gateway share")
    func neverIndexed() throws {
        let secrets = ["set-cookie", "x-auth-token", "authentication-info", "x-csrf-token"]
        let lines = secrets.map { "\($0): \(String(repeating: "s", count: 40))" } + ["X-Page: 1"]
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", lines)] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        client.send(RawHTTP2.request(1))
        let head = try #require(client.next { $0.kind == RawHTTP2.Kind.headers.rawValue })
        let received = try #require(HeaderBlockReader().read(head.payload))
        #expect(Set(received.filter(\.isNeverIndexed).map(\.name)) == Set(secrets))
        #expect(received.contains { $0.name == "x-page" })
    }

    @Test("a stalled response does not block others and continues when its window opens")
    func stalled() throws {
        let long = String(repeating: "x", count: 3 << 20)
        let play = try ProxyPlay(
            ScriptedOrigin { request in [.answer(request.target == "/long" ? long : "short", type: "text/plain")] }, clientProtocol: .http2)
        var settings = HTTP2SessionSettings()
        settings.connectionWindowBytes = 1 << 20
        let client = try HTTP2TestClient(port: play.port, settings)
        client.consumes = false
        let stalled = try #require(client.begin("GET", "/long"))
        #expect(client.content(of: stalled, atLeast: 65_535).count == 65_535)
        for _ in 0..<3 { #expect(client.get("/short")?.text == "short") }
        client.consumes = true
        client.consume(stalled)
        #expect(client.response(of: stalled)?.text == long)
    }

    @Test("a response that is not read for too long loses its stream, not the connection")
    func writeTimeout() throws {
        let long = "\"" + String(repeating: "x", count: 100_000) + "\""
        let play = try ProxyPlay(
            ScriptedOrigin { request in [.json(request.target == "/long" ? long : "{}", ["Cache-Control: max-age=600"])] },
            clientProtocol: .http2)
        let client = try play.http2Client()
        #expect(try play.http2Client().get("/long")?.text == long)
        client.consumes = false
        let stalled = try #require(client.begin("GET", "/long"))
        #expect(client.content(of: stalled, atLeast: 65_535).count == 65_535)
        play.time.advance(by: .seconds(61))
        #expect(client.resetCode(of: stalled) == .cancel)
        client.consumes = true
        client.consume(stalled)
        #expect(client.get("/short")?.status == 200)
    }

    @Test("a truncated response resets its stream and never looks complete")
    func broken() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request.target == "/a"
                    ? [
                        .send(
                            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n"
                                + String(repeating: "x", count: 50_000)), .reset,
                    ]
                    : [.answer("whole", type: "text/plain")]
            }, clientProtocol: .http2)
        let client = try play.http2Client()
        let stream = try #require(client.begin("GET", "/a"))
        #expect(client.resetCode(of: stream) == .internalError)
        #expect(client.response(of: stream)?.isComplete == false)
        #expect(client.get("/b")?.text == "whole")
    }

    @Test("an upload streams with backpressure, and a reset by the client cancels it")
    func upload() throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2) { $0.downstream.requestBufferBytes = 0 }
        let client = try play.http2Client()
        let stream = try #require(client.begin("POST", "/a", isOpen: true))
        for part in ["one ", "two "] { client.send(Array(part.utf8), on: stream, isLast: false) }
        client.send(Array("three".utf8), on: stream, isLast: true)
        #expect(client.response(of: stream)?.text.hasSuffix("\n\none two three") == true)
        let large = String(repeating: "y", count: 1 << 20)
        #expect(client.request("POST", "/b", content: large)?.text.hasSuffix("\n\n\(large)") == true)
        let left = try #require(client.begin("POST", "/c", isOpen: true))
        client.send([1, 2, 3], on: left, isLast: false)
        client.reset(left)
        #expect(client.get("/d")?.status == 200)
        #expect(try play.metric("cistern_http2_resets_total") == 1)
    }

    @Test("one user's resets end the connection of a trusted proxy only after the requests of other users")
    func resetsThroughProxy() throws {
        let gate = Gate()
        let trusted = try NetworkList.local()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("{}")] }, clientProtocol: .http2) {
            $0.downstream.trustedProxies = trusted
            $0.downstream.http2.resets = 3
        }
        let client = try play.http2Client()
        let write = try #require(client.begin("POST", "/write", [("x-forwarded-for", "192.0.2.1")], content: "1"))
        for number in 0..<5 {
            let stream = try #require(client.begin("GET", "/\(number)", [("x-forwarded-for", "192.0.2.2")]))
            client.reset(stream)
        }
        #expect(client.waitForGoAway()?.code == .enhanceYourCalm)
        gate.open()
        #expect(client.response(of: write)?.status == 200)
        #expect(client.isClosedByServer())
        #expect(try play.metric("cistern_http2_connections_ended_total{cause=\"flood\"}") == 1)
    }

    @Test("a response before the end of the request ends the stream properly")
    func early() throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2) { $0.downstream.contentLimitBytes = 10 }
        let client = try play.http2Client()
        let stream = try #require(client.begin("POST", "/a", isOpen: true))
        client.send([UInt8](repeating: 1, count: 11), on: stream, isLast: false)
        let response = try #require(client.response(of: stream))
        #expect(response.status == 413 && response.text == "The request's content is too large.\n")
        #expect(client.get("/b")?.status == 200)
        // Further content is discarded for a while.
        play.time.advance(by: .seconds(11))
        #expect(client.resetCode(of: stream) == .noError)
        #expect(client.get("/b")?.status == 200)
    }

    @Test(
        "requests that HTTP/1.1 would refuse get the same error, and the connection continues",
        arguments: [
            ("414", [(":path", "/" + String(repeating: "x", count: 9_000))]), ("400", [(":authority", "a,b")]),
            ("400", [(":path", "/a#b")]), ("431", (0..<150).map { ("x-\($0)", "1") }), ("400", [("host", "other.test")]),
            ("417", [("expect", "magic")]), ("400", [(":scheme", "ftp")]),
        ])
    func refused(_ status: String, _ changes: [(String, String)]) throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2)
        let client = try play.http2Client()
        let kept = Self.usual.filter { line in !changes.contains { $0.0 == line.0 } }
        let pseudo = changes.filter { $0.0.hasPrefix(":") }
        let stream = try #require(client.begin(kept + pseudo + changes.filter { !$0.0.hasPrefix(":") }))
        #expect(client.response(of: stream).map { String($0.status) } == status)
        #expect(client.get("/b")?.status == 200)
        #expect(play.origin.requests.count == 1)
    }

    @Test("CONNECT is refused, and OPTIONS * is allowed")
    func otherTargets() throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2)
        let client = try play.http2Client()
        let tunnel = try #require(client.begin([(":method", "CONNECT"), (":authority", "a.test:443")]))
        #expect(client.head(of: tunnel)?.status == 405)
        #expect(client.request("OPTIONS", "*")?.text.hasPrefix("OPTIONS * HTTP/1.1") == true)
    }

    @Test("streams beyond the concurrency limit are refused with a retryable error")
    func streamLimit() throws {
        let gate = Gate()
        let play = try ProxyPlay(
            ScriptedOrigin { request in request.target == "/wait" ? [.pass(gate), .json("{}")] : [.json("{}")] }, clientProtocol: .http2
        ) { $0.downstream.http2.streams = 2 }
        let client = try play.http2Client()
        #expect(client.get("/a")?.status == 200)
        let streams = (0..<4).compactMap { _ in client.begin("GET", "/wait") }
        gate.open()
        for stream in streams { #expect(client.response(of: stream)?.status == 200) }
    }

    @Test("after its last request a connection ends with GOAWAY, and later requests are left to another one")
    func requestsPerConnection() throws {
        let play = try ProxyPlay(echo(), clientProtocol: .http2) { $0.downstream.requestsPerConnection = 2 }
        let client = try play.http2Client()
        let streams = (0..<2).compactMap { client.begin("GET", "/\($0)") }
        for stream in streams { #expect(client.response(of: stream)?.status == 200) }
        let end = try #require(client.waitForGoAway())
        #expect(end.code == .noError && end.last == 3)
        #expect(client.isClosedByServer())
    }

    @Test("an idle connection ends with GOAWAY; one with a pending request does not")
    func idle() throws {
        let (gate, reached) = (Gate(), Gate())
        let play = try ProxyPlay(
            ScriptedOrigin { request in request.target == "/wait" ? [.open(reached), .pass(gate), .json("{}")] : [.json("{}")] },
            clientProtocol: .http2
        ) { $0.upstream.totalTimeout = .seconds(1_000) }
        let (idle, busy) = (try play.http2Client(), try play.http2Client())
        #expect(idle.get("/a")?.status == 200)
        let waiting = try #require(busy.begin("GET", "/wait"))
        reached.pass()
        play.time.advance(by: .seconds(20))
        play.time.advance(by: .seconds(20))
        play.time.advance(by: .seconds(37))
        #expect(idle.waitForGoAway()?.code == .noError)
        #expect(idle.isClosedByServer())
        gate.open()
        #expect(busy.response(of: waiting) != nil)
    }

    @Test("during shutdown running requests finish, and requests already in transit are accepted")
    func drain() throws {
        let (gate, reached) = (Gate(), Gate())
        let play = try ProxyPlay(ScriptedOrigin { _ in [.open(reached), .pass(gate), .json("{}")] }, clientProtocol: .http2)
        var client: HTTP2TestClient? = try play.http2Client()
        let stream = try #require(client?.begin("GET", "/a"))
        reached.pass()
        let stopped = Gate()
        let stopping = StoppedPlay(play)
        TestThread.start {
            stopping.play.stop(deadline: .seconds(60))
            stopped.open()
        }
        let announced = client?.waitForGoAway()
        #expect(announced?.last == .max && announced?.code == .noError)
        gate.open()
        #expect(client?.response(of: stream)?.status == 200)
        #expect(client?.isClosedByServer() == true)
        client = nil
        stopped.pass()
    }

    @Test("the ping that confirms a shutdown follows the GOAWAY")
    func drainOrder() throws {
        let (gate, reached) = (Gate(), Gate())
        let play = try ProxyPlay(ScriptedOrigin { _ in [.open(reached), .pass(gate), .json("{}")] }, clientProtocol: .http2)
        var client: RawHTTP2Client? = try RawHTTP2Client(port: play.port)
        client?.send(RawHTTP2.request(1))
        reached.pass()
        let stopped = Gate()
        let stopping = StoppedPlay(play)
        TestThread.start {
            stopping.play.stop(deadline: .seconds(60))
            stopped.open()
        }
        let (goAway, ping) = (RawHTTP2.Kind.goAway.rawValue, RawHTTP2.Kind.ping.rawValue)
        let first = client?.next { $0.kind == goAway || $0.kind == ping }
        #expect(first?.kind == goAway && first?.number(at: 0) == .max >> 1)
        let asked = client?.next { $0.kind == ping }
        client?.send(RawHTTP2.frame(.ping, 1, 0, asked?.payload ?? []))
        #expect(client?.next { $0.kind == goAway }?.number(at: 0) == 1)
        gate.open()
        client = nil
        stopped.pass()
    }

    @Test("HTTP/2 on a listener without it gets 505; HTTP/1.1 works on an HTTP/2 listener")
    func clientProtocols() throws {
        let clear = try ProxyPlay(echo(), clientProtocol: .clear)
        let client = try clear.client()
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0")
        let response = try #require(client.readResponse())
        #expect(response.status == 505 && response.text.contains("h2c"))
        let both = try ProxyPlay(echo(), clientProtocol: .http2)
        for method in ["GET", "POST", "PUT", "PRIO"] { #expect(try both.client().request(method, "/a")?.status == 200) }
        let split = try both.client()
        split.send("P")
        #expect(try both.get("/b").status == 200)
        split.send("OST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        #expect(split.readResponse()?.status == 200)
    }
}
