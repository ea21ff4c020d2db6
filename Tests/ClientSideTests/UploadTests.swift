// Tests of uploads that are slow, late, in pieces or incomplete: what the upstream receives, and the resources that they hold.

import CachePolicy
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@testable import Downstream

/// Responds with the request line, the fields about its content, and the number of received bytes.
private func echo() -> ScriptedOrigin {
    ScriptedOrigin { request in
        let fields = ["Content-Length", "Transfer-Encoding", "Expect"].compactMap { name in request[name].map { "\(name): \($0)" } }
        return [.answer("\(request.line)|\(fields.joined(separator: ", "))|\(request.content.count)", type: "text/plain")]
    }
}

private let held = "cistern_request_content_held_bytes"

private func count(_ outcome: String) -> String { "cistern_request_contents_total{outcome=\"\(outcome)\"}" }

@Suite("Buffered request content", .play, .clientProtocols)
struct UploadTests {
    @Test(
        "a slow upload holds no upstream connection, and its buffered bytes are counted", arguments: ["length", "chunked", "1.0"])
    func slowClient(_ framing: String) throws {
        let play = try ProxyPlay(echo())
        let client = try play.client()
        switch framing {
        case "length": client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n1234")
        case "1.0": client.send("POST /a HTTP/1.0\r\nHost: a\r\nContent-Length: 8\r\n\r\n1234")
        default: client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n4\r\n1234\r\n")
        }
        #expect(try play.waitFor(held, 4))
        #expect(try play.metric("cistern_upstream_active_requests") == 0 && play.metric("cistern_upstream_connections_total") == 0)
        #expect(try play.request("POST", "/b", content: "x").text.hasSuffix("|1"))
        client.send(framing == "chunked" ? "4\r\n5678\r\n0\r\nT: x\r\n\r\n" : "5678")
        #expect(client.readResponse()?.text == "POST /a HTTP/1.1|Content-Length: 8|8")
        #expect(play.origin.requests.map(\.target) == ["/b", "/a"])
        #expect(try play.waitFor(held, 0))
        #expect(try play.metric(count("whole")) == 2)
    }

    @Test("a write whose client disconnects before its content is complete never reaches the upstream", arguments: [false, true])
    func leaving(byReset: Bool) throws {
        let play = try ProxyPlay(echo())
        for text in ["Content-Length: 8\r\n\r\n1234", "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n"] {
            let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\n" + text)
            #expect(try play.waitFor(held, 4))
            if byReset { client.endsWithReset() } else { client.finishSending() }
            if !byReset { #expect(client.isClosedByServer()) }
            withExtendedLifetime(client) {}
        }
        #expect(try play.waitFor(count("unfinished"), 2))
        #expect(try play.metric(held) == 0)
        #expect(play.origin.requests.isEmpty)
        #expect(try play.metric("cistern_requests_total{result=\"error\",method=\"POST\",status_class=\"4xx\"}") == 2)
    }

    @Test("a write with complete content is sent although its client disconnects")
    func leavingLate() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in request.target == "/a" ? [.pass(gate), .json("1")] : [.json("2")] }
        let play = try ProxyPlay(origin)
        do {
            let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
            #expect(try play.waitFor("cistern_upstream_active_requests", 1))
            client.endsWithReset()
        }
        gate.open()
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        #expect(origin.requests.map(\.content.count) == [2])
        #expect(try play.waitFor(held, 0))
    }

    @Test("slow request content times out with 408, and the buffer is released")
    func dripping() throws {
        let play = try ProxyPlay(echo())
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        // Each byte arrives within the pause timeout; the fifth would exceed the timeout of the whole content.
        for number in 1...4 {
            client.send("x")
            #expect(try play.waitFor(held, Double(number)))
            play.time.advance(by: .seconds(29))
            // One round of the loop, in which all due work is done.
            for _ in 0..<2 { _ = try play.metric(held) }
        }
        client.send("x")
        #expect(try play.waitFor(held, 5))
        play.time.advance(by: .seconds(6))
        #expect(client.readResponse()?.status == 408)
        #expect(client.isClosedByServer())
        #expect(try play.metric(held) == 0)
        #expect(play.origin.requests.isEmpty)
    }

    @Test("a pause in request content times out earlier")
    func pausing() throws {
        let play = try ProxyPlay(echo())
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx")
        #expect(try play.waitFor(held, 1))
        play.time.advance(by: .seconds(31))
        #expect(client.readResponse()?.status == 408)
        #expect(play.origin.requests.isEmpty)
    }

    @Test("badly framed or too long content is refused, the buffer released, and nothing forwarded")
    func refusedLater() throws {
        let play = try ProxyPlay(echo()) { $0.downstream.contentLimitBytes = 10 }
        for (rest, status) in [("zz\r\n", 400), ("b\r\n12345678901\r\n", 413)] {
            let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n")
            #expect(try play.waitFor(held, 4))
            client.send(rest)
            #expect(client.readResponse()?.status == status)
            #expect(try play.waitFor(held, 0))
        }
        #expect(play.origin.requests.isEmpty)
        #expect(try play.metric(count("unfinished")) == 2)
    }

    @Test("pipelined requests wait for their turn")
    func pipelined() throws {
        let play = try ProxyPlay(echo())
        let client = try play.client()
        client.send(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "1\r\nx\r\n0\r\n\r\nGET /c HTTP/1.1\r\nHost: a\r\n\r\nPUT /d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\ny")
        #expect(client.readResponse()?.text == "POST /a HTTP/1.1|Content-Length: 3|3")
        #expect(client.readResponse()?.text == "POST /b HTTP/1.1|Content-Length: 1|1")
        #expect(client.readResponse()?.text == "GET /c HTTP/1.1||0")
        client.send("z")
        #expect(client.readResponse()?.text == "PUT /d HTTP/1.1|Content-Length: 2|2")
    }

    @Test("a shutdown during an upload answers 503, and nothing is forwarded")
    func stopping() throws {
        let origin = echo()
        let play = try ProxyPlay(origin)
        let clients = try ["POST", "QUERY"].map { method in
            let client = try play.client()
            client.send("\(method) /a HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n1234")
            return client
        }
        #expect(try play.waitFor(held, 8))
        play.stop()
        for client in clients {
            let response = client.readResponse()
            #expect(response?.status == 503 && response?["Connection"] == "close")
        }
        #expect(origin.requests.isEmpty)
    }

    @Test("why reports how the request content was handled and how long it took")
    func explained() throws {
        let play = try ProxyPlay(echo()) { $0.downstream.requestBufferBytes = 4 }
        _ = try play.request("POST", "/a", content: "1234")
        _ = try play.request("POST", "/b", content: "12345")
        _ = try play.get("/c")
        let exchanges = try #require(JSONValue(try play.admin("GET", "/-/why").content)?["exchanges"]?.array)
        let byTarget = { (target: String) in exchanges.first { $0["target"]?.string == target }?["request_content"] }
        #expect(byTarget("/a")?["outcome"]?.string == "whole" && byTarget("/a")?["wait_seconds"]?.double != nil)
        #expect(byTarget("/b")?["outcome"]?.string == "streamed_too_long" && byTarget("/b")?["wait_seconds"] == .null)
        #expect(byTarget("/c") == .null)
    }
}

@Suite("Streamed request content", .play, .clientProtocols)
struct StreamedUploadTests {
    @Test("content beyond the buffer limit streams: at once with a length, otherwise when it exceeds the limit")
    func tooLong() throws {
        let play = try ProxyPlay(echo()) { $0.downstream.requestBufferBytes = 100 }
        let first = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        let text = String(repeating: "x", count: 60)
        let second = try play.client(sending: "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3c\r\n\(text)\r\n")
        #expect(try play.waitFor(held, 60))
        second.send("3c\r\n\(text)\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        second.send("0\r\n\r\n")
        #expect(second.readResponse()?.text == "POST /b HTTP/1.1|Transfer-Encoding: chunked|120")
        first.send(text + text.prefix(41))
        #expect(first.readResponse()?.text == "POST /a HTTP/1.1|Content-Length: 101|101")
        #expect(try play.metric(count("streamed_too_long")) == 2)
        #expect(try play.waitFor(held, 0))
    }

    @Test("without buffer space content streams, while small requests are still buffered")
    func noBufferSpace() throws {
        let play = try ProxyPlay(echo()) { ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (1_000, 2_000) }
        let text = String(repeating: "x", count: 900)
        let slow = try (0..<2).map { number in
            let client = try play.client(sending: "POST /\(number) HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + text)
            #expect(try play.waitFor(number == 0 ? held : count("streamed_no_room"), number == 0 ? 900 : 1))
            return client
        }
        #expect(try play.request("POST", "/small", content: String(repeating: "y", count: 600)).text.hasSuffix("|600"))
        #expect(try play.metric(count("whole")) == 1)
        for (number, client) in slow.enumerated() {
            client.send(String(text.prefix(100)))
            #expect(client.readResponse()?.text == "POST /\(number) HTTP/1.1|Content-Length: 1000|1000")
        }
        #expect(try play.waitFor(held, 0))
    }

    @Test("with buffering disabled all content streams")
    func switchedOff() throws {
        let play = try ProxyPlay(echo()) { ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (0, 0) }
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        client.send("0\r\n\r\n")
        #expect(client.readResponse()?.text == "POST /a HTTP/1.1|Transfer-Encoding: chunked|1")
        #expect(try play.request("POST", "/b", content: "").text.hasSuffix("|0"))
    }

    @Test("tiny chunks that arrive together are forwarded together", .http1Protocols)
    func tinyChunks() throws {
        let play = try ProxyPlay(echo()) { ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (0, 0) }
        // Establishes the upstream connection.
        #expect(try play.get("/first").status == 200)
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        let content = (0..<5_000).map { UInt8(ascii: "a") + UInt8($0 % 26) }
        let chunks = content.map { "1\r\n\(Character(Unicode.Scalar($0)))\r\n" }
        client.send(chunks.joined() + "0\r\n\r\n")
        #expect(client.readResponse()?.status == 200)
        let upload = try #require(play.origin.requests.last)
        #expect(upload.content == Array("a".utf8) + content)
        #expect(upload.chunks < 1_000)
    }

    @Test("content in random pieces arrives complete and in order", .http1Protocols)
    func randomChunks() throws {
        let play = try ProxyPlay(echo()) { ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (0, 0) }
        for seed in 0..<4 {
            var random = SeededGenerator(seed: UInt64(seed))
            var (content, wire): ([UInt8], [UInt8]) = ([], [])
            for _ in 0..<300 {
                let isLong = random.isTrue(oneIn: 20)
                let piece = [UInt8](repeating: UInt8(random.below(256)), count: 1 + random.below(isLong ? 40_000 : 20))
                content += piece
                wire += Array("\(String(piece.count, radix: 16))\r\n".utf8)
                wire += piece
                wire += Array("\r\n".utf8)
            }
            wire += Array("0\r\n\r\n".utf8)
            let client = try play.client(sending: "POST /\(seed) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            while !wire.isEmpty {
                let count = min(wire.count, 1 + random.below(100_000))
                client.send(Array(wire[..<count]))
                wire.removeFirst(count)
            }
            #expect(client.readResponse()?.status == 200)
            #expect(play.origin.requests.last?.content == content, "seed \(seed)")
        }
    }

    @Test("streaming uploads of one client use at most half of the connections, so other requests always get one")
    func half() throws {
        let play = try ProxyPlay(echo()) {
            $0.downstream.requestBufferBytes = 10
            $0.upstream.maximumConnections = 2
        }
        let slow = try (0..<5).map { number in
            let client = try play.client()
            client.send("POST /\(number) HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" + String(repeating: "x", count: 20_000))
            #expect(try play.waitFor(count("streamed_too_long"), Double(number + 1)))
            return client
        }
        for number in 0..<10 {
            #expect(try play.get("/get/\(number)").status == 200)
            #expect(try play.request("POST", "/post/\(number)", content: "small").status == 200)
        }
        #expect(try play.metric("cistern_upstream_connections_total") == 2)
        for (number, client) in slow.enumerated() {
            client.send(String(repeating: "x", count: 20_000))
            #expect(client.readResponse()?.text == "POST /\(number) HTTP/1.1|Content-Length: 40000|40000")
        }
    }

    @Test("slow uploads of one client keep no other client's uploads waiting")
    func slowUploadsOfOneClient() throws {
        let play = try ProxyPlay(echo()) {
            $0.downstream.requestBufferBytes = 10
            $0.upstream.maximumConnections = 8
        }
        let upload = { (target: String, source: String) in
            let client = try play.client(from: source)
            client.send("POST \(target) HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" + String(repeating: "x", count: 20_000))
            return client
        }
        let slow = try (0..<6).map { try upload("/\($0)/a", "127.0.0.9") }
        #expect(try play.waitFor("cistern_upstream_waiting_requests", 2))
        for number in 0..<3 {
            let other = try upload("/up/\(number)", "127.0.0.10")
            other.send(String(repeating: "x", count: 20_000))
            #expect(other.readResponse()?.status == 200)
        }
        #expect(try play.metric("cistern_upstream_waiting_requests") == 2)
        for client in slow {
            client.send(String(repeating: "x", count: 20_000))
            #expect(client.readResponse()?.status == 200)
        }
    }

    @Test("a client disconnect during an upload ends the upstream request")
    func leaving() throws {
        let play = try ProxyPlay(echo()) { $0.downstream.requestBufferBytes = 10 }
        do {
            let client = try play.client()
            client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1234")
            #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        #expect(play.origin.requests.isEmpty)
    }
}

@Suite("Request content in the cache key", .play, .clientProtocols)
struct ContentKeyTests {
    private static let type = [("Content-Type", "application/json")]

    private func play(_ origin: ScriptedOrigin, contentLimit: Int = 64 << 10) throws -> ProxyPlay {
        try ProxyPlay(origin) {
            var route = Route()
            route.name = "search"
            route.pattern = RoutePattern("/search")
            route.methods = [.post]
            route.contentLimitBytes = contentLimit
            $0.routes = [route]
            $0.downstream.requestBufferBytes = 100
        }
    }

    @Test("a stored response rescues if the upstream failed while the content was arriving")
    func rescued() throws {
        let origin = ScriptedOrigin { _ in [.json("[1]")] }
        let play = try play(origin)
        _ = try play.request("POST", "/search", Self.type, content: "{\"a\":1}")
        let client = try play.client()
        client.send("POST /search HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\"")
        #expect(try play.waitFor(held, 4))
        origin.down()
        // The soft deadline applies to the upstream. It starts when the content is complete.
        play.time.advance(by: .seconds(10))
        client.send(":1}")
        let response = client.readResponse()
        #expect(response?.text == "[1]" && response?["Age"] != nil)
        #expect(try play.metric("cistern_requests_total{result=\"rescued\",method=\"POST\",status_class=\"2xx\"}") == 1)
        #expect(try play.waitFor(held, 0))
    }

    @Test("a route may buffer more content for the key; longer content is forwarded and not stored")
    func limits() throws {
        let play = try play(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }, contentLimit: 1_000)
        for (length, isKept) in [(900, true), (1_001, false)] {
            let text = "\"" + String(repeating: "x", count: length - 2) + "\""
            _ = try play.request("POST", "/search", Self.type, content: text)
            let again = try play.request("POST", "/search", Self.type, content: text)
            #expect((again["Cache-Status"]?.contains("hit") == true) == isKept)
        }
        #expect(try play.metric(count("streamed_too_long")) == 2 && play.metric(count("whole")) == 2)
    }

    @Test("concurrent requests with equal content are collapsed; with different content they are not")
    func collapsed() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { [.pass(gate), .json(String(decoding: $0.content, as: UTF8.self), ["Cache-Control: max-age=60"])] }
        let play = try play(origin)
        let clients = try ["[1, 2]", "[1,2]", "[3]"].map { content in
            let client = try play.client()
            client.send(
                "QUERY /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: \(content.utf8.count)\r\n\r\n" + content)
            return client
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        gate.open()
        let texts = clients.map { $0.readResponse()?.text }
        #expect(texts[0] == texts[1] && texts[1]?.contains("2") == true && texts[2] == "[3]")
        #expect(origin.requests.count == 2)
        #expect(try play.waitFor(held, 0))
    }
}
