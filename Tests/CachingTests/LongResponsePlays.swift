// Plays of long responses: the client receives them while they arrive, and the store gets them if they are good.

import CachePolicy
import CacheStore
import Downstream
import HTTP2
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

/// Content in two parts, between which the origin waits.
struct LongContent: Sendable, CustomTestStringConvertible {
    let testDescription: String
    var parts: (String, String) = LongContent.good
    var isChunked = false

    init(_ name: String, isChunked: Bool = false, parts: (String, String) = LongContent.good) {
        (testDescription, self.isChunked, self.parts) = (name, isChunked, parts)
    }

    static let good = ("{\"a\":\"" + String(repeating: "x", count: 6_000), String(repeating: "y", count: 6_000) + "\"}")
    static let forms = [LongContent("with its length"), LongContent("of unknown length", isChunked: true)]

    var text: String { parts.0 + parts.1 }

    /// - Parameters:
    ///   - gate: the origin waits for it after the first part.
    ///   - isCut: whether the origin closes the connection instead of sending the second part.
    func steps(_ gate: Gate? = nil, _ lines: [String] = [], isCut: Bool = false) -> [OriginStep] {
        func piece(_ text: String) -> String { isChunked ? "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n" : text }
        let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(text.utf8.count)"
        let head = (["HTTP/1.1 200 OK", "Content-Type: application/json", framing] + lines).joined(separator: "\r\n") + "\r\n\r\n"
        let end = isChunked ? "0\r\n\r\n" : ""
        return [.send(head + piece(parts.0))] + (gate.map { [.pass($0)] } ?? []) + (isCut ? [.cut] : [.send(piece(parts.1) + end)])
    }
}

/// One request whose response is read in two steps.
private enum Download {
    case http1(TestClient)
    case http2(HTTP2TestClient, Int32)

    init(_ play: ProxyPlay, _ target: String = "/a", _ fields: [(String, String)] = []) throws {
        if ProxyPlay.clientProtocol.speaksHTTP2 {
            let client = try play.http2Client()
            self = .http2(client, try #require(client.begin("GET", target, fields)))
        } else {
            let client = try play.client()
            client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0): \($1)\r\n" }.joined() + "\r\n")
            self = .http1(client)
        }
    }

    /// Waits for the first bytes of the response.
    func hasBegun() -> Bool {
        switch self {
        case .http1(let client): client.hasInput(within: 10_000)
        case .http2(let client, let stream): !client.content(of: stream, atLeast: 1).isEmpty
        }
    }

    /// Makes the end of the connection a reset.
    func endsWithReset() {
        switch self {
        case .http1(let client): client.endsWithReset()
        case .http2(let client, _): client.socket.endsWithReset()
        }
    }

    func response() -> TestResponse? {
        switch self {
        case .http1(let client): client.readResponse()
        case .http2(let client, let stream): client.response(of: stream)
        }
    }

    /// Whether the response ended by a reset: of the stream, or by the end of the connection.
    func isReset() -> Bool {
        guard response()?.isComplete == false else { return false }
        return switch self {
        case .http1(let client): client.tls != nil || client.isClosedByServer()
        case .http2(let client, let stream): client.resetCode(of: stream) == .internalError
        }
    }
}

@Suite("Long responses", .play, .clientProtocols, .upstreams)
struct LongResponsePlays {
    private static let fresh = ["Cache-Control: max-age=60"]

    private func play(
        holding limit: Int = 5_000, buffering bufferLimit: Int = 8 << 20, _ script: @escaping ScriptedOrigin.Script
    ) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin(script)) { ($0.content.holdLimitBytes, $0.content.bufferLimitBytes) = (limit, bufferLimit) }
    }

    private func why(_ play: ProxyPlay) throws -> JSONValue? {
        JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
    }

    private func isStored(_ play: ProxyPlay, _ target: String = "/a") throws -> Bool {
        play.origin.down()
        return try play.get(target).status == 200
    }

    @Test(
        "a client receives the first bytes before the upstream has sent the rest, and the response is stored",
        arguments: LongContent.forms)
    func good(_ content: LongContent) throws {
        let gate = Gate()
        let play = try play { _ in content.steps(gate, Self.fresh) }
        let download = try Download(play)
        #expect(download.hasBegun())
        gate.open()
        let response = try #require(download.response())
        #expect(response.isComplete && response.text == content.text)
        #expect(response["Cache-Status"] == "cistern; fwd=uri-miss" && response["ETag"] == nil)
        #expect(try why(play)?["stored"]?.bool == true)
        let hit = try play.get("/a")
        #expect(hit.text == content.text && hit["ETag"] != nil && hit["Cache-Status"]?.hasPrefix("cistern; hit; ttl=") == true)
        #expect(play.origin.requests.count == 1)
        #expect(try play.metric("cistern_long_responses_total") == 1)
        play.time.advance(by: .seconds(120))
        play.origin.down()
        #expect(try play.get("/a").text == content.text)
    }

    @Test("a client that accepts gzip gets the pieces compressed, unless many have arrived already", arguments: LongContent.forms)
    func coding(_ content: LongContent) throws {
        let play = try play { _ in content.steps() }
        let plain = try play.get("/a")
        #expect(plain.text == content.text && plain["Vary"] == "Accept-Encoding")
        let coded = try play.get("/b", [("Accept-Encoding", "gzip")])
        #expect(coded["Content-Encoding"] == (content.isChunked ? nil : "gzip") && coded["Vary"] == "Accept-Encoding")
        #expect(coded.isComplete && (coded.content.count < content.text.utf8.count) == !content.isChunked)
        play.origin.down()
        for target in ["/a", "/b"] { #expect(try play.get(target).text == content.text) }
    }

    @Test("a response that breaks off is reset and not stored", arguments: LongContent.forms)
    func broken(_ content: LongContent) throws {
        let gate = Gate()
        let play = try play { _ in content.steps(gate, isCut: true) }
        let download = try Download(play)
        #expect(download.hasBegun())
        gate.open()
        #expect(download.isReset())
        #expect(try play.metric("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"2xx\"}") == 1)
        #expect(try why(play)?["decision"]?.string == "failed")
        #expect(try !isStored(play))
    }

    @Test(
        "complete content that is not valid JSON, or ends early, is passed on and not stored, as if it were short",
        arguments: LongContent.forms, ["\", \"n\": NaN}", "\""])
    func invalid(_ content: LongContent, end: String) throws {
        var content = content
        content.parts.1 = end
        let play = try play { [content] _ in content.steps() }
        let response = try play.get("/a")
        #expect(response.isComplete && response.text == content.text)
        #expect(try why(play)?["not_stored"]?.string == "invalid_json")
        #expect(try play.metric("cistern_not_stored_total{reason=\"invalid_json\"}") == 1)
        #expect(try !isStored(play))
    }

    @Test("where a stored response may be served, a long one is held until it is good", arguments: LongContent.forms)
    func rescued(_ content: LongContent) throws {
        var cut = content
        cut.parts.1 = "\""
        for steps in [content.steps(isCut: true), cut.steps()] {
            let play = try play { _ in [.json("1")] }
            #expect(try play.get("/a").text == "1")
            play.origin.react { _ in steps }
            let rescue = try play.get("/a")
            #expect(rescue.isComplete && rescue.text == "1" && rescue["Cache-Status"]?.contains("detail=") == true)
            play.origin.react { _ in content.steps() }
            let response = try play.get("/a")
            #expect(response.text == content.text && response["Cache-Status"] == "cistern; fwd=stale; stored")
            #expect(try play.metric("cistern_long_responses_total") == 0)
        }
    }

    @Test("a response up to the limit is held: if it breaks off, the client gets 502", arguments: LongContent.forms)
    func held(_ content: LongContent) throws {
        let play = try play(holding: content.text.utf8.count) { _ in content.steps(isCut: true) }
        #expect(try play.get("/a").status == 502)
        #expect(try play.metric("cistern_long_responses_total") == 0)
    }

    @Test("a client with a condition still gets a 304", arguments: LongContent.forms)
    func condition(_ content: LongContent) throws {
        let play = try play { _ in content.steps(nil, ["ETag: \"1\""]) }
        #expect(try play.get("/a", [("If-None-Match", "\"1\"")]).status == 304)
        #expect(try isStored(play))
    }

    @Test("concurrent requests wait for the end: they share a good response, and send their own request after a bad one")
    func followers() throws {
        for isCut in [false, true] {
            let (gate, content) = (Gate(), LongContent.forms[1])
            let play = try play { $0.target == "/a" ? content.steps(gate, isCut: isCut) : [.json("1")] }
            let leader = try Download(play)
            #expect(leader.hasBegun())
            let follower = try Download(play)
            #expect(try play.waitFor("cistern_collapsed_waiting", 1))
            play.origin.react { _ in content.steps() }
            gate.open()
            #expect(leader.response()?.isComplete == !isCut)
            let response = try #require(follower.response())
            #expect(response.isComplete && response.text == content.text)
            #expect(response["Cache-Status"]?.contains("collapsed") == !isCut)
            #expect(play.origin.requests.count == (isCut ? 2 : 1))
        }
    }

    @Test("if its client disconnects, the response is still stored", arguments: LongContent.forms)
    func abandoned(_ content: LongContent) throws {
        let gate = Gate()
        let play = try play { _ in content.steps(gate) }
        do {
            let download = try Download(play)
            #expect(download.hasBegun())
            download.endsWithReset()
        }
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
        gate.open()
        #expect(try play.waitFor("cistern_stored_total", 1))
        #expect(try isStored(play))
    }

    @Test("a response of unknown length above the buffer limit is passed on completely and not stored")
    func tooLarge() throws {
        let content = LongContent.forms[1]
        let play = try play(buffering: 8_000) { _ in content.steps() }
        let response = try play.get("/a")
        #expect(response.isComplete && response.text == content.text)
        #expect(try why(play)?["not_stored"]?.string == "too_large")
        #expect(try !isStored(play))
    }

    /// Exceeds the buffers of the kernel.
    private static func large(isChunked: Bool) -> LongContent {
        let half = String(repeating: "0123456789abcdef", count: 3 << 16)
        return LongContent("", isChunked: isChunked, parts: ("{\"a\":\"" + half, half + "\"}"))
    }

    @Test("a slow client does not delay the store", arguments: [false, true])
    func slowClient(isChunked: Bool) throws {
        let content = Self.large(isChunked: isChunked)
        let play = try ProxyPlay(ScriptedOrigin { _ in content.steps(nil, Self.fresh) }) {
            $0.store?.capacityBytes = 64 << 20
            $0.store?.segmentBytes = 8 << 20
        }
        let slow = try play.client(getting: "/a")
        #expect(slow.hasInput(within: 10_000))
        #expect(try play.waitFor("cistern_stored_total", 1))
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
        let response = slow.readResponse()
        #expect(response?.isComplete == true && response?.text == content.text)
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
        #expect(try play.metric("cistern_long_responses_total") == 1)
    }

    @Test("a client that leaves more unread than the memory permits is cut off, and the response is stored")
    func tooSlowClient() throws {
        let content = Self.large(isChunked: false)
        let play = try ProxyPlay(ScriptedOrigin { _ in content.steps() }) {
            $0.downstream.unsentLimitBytes = 1 << 20
            $0.store?.capacityBytes = 64 << 20
            $0.store?.segmentBytes = 8 << 20
        }
        let slow = try play.client(getting: "/a")
        #expect(slow.hasInput(within: 10_000))
        #expect(try play.waitFor("cistern_stored_total", 1))
        #expect(slow.readResponse()?.isComplete != true)
        #expect(try play.waitFor("cistern_connections_cut_total", 1))
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
    }
}

@Suite("Long responses that end with the connection", .play, .clientProtocols)
struct UndelimitedResponsePlays {
    @Test("JSON that ends early is reset and not stored, because nothing shows that it is complete", arguments: [true, false])
    func end(isWhole: Bool) throws {
        let text = isWhole ? LongContent.good.0 + LongContent.good.1 : LongContent.good.0
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\(text)"), .close] }
        ) { $0.content.holdLimitBytes = 5_000 }
        let download = try Download(play)
        let response = try #require(download.response())
        #expect(response.isComplete == isWhole && response.text == text)
        play.origin.down()
        #expect(try play.get("/a").status == (isWhole ? 200 : 502))
    }
}
