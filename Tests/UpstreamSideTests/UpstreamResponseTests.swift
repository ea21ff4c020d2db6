// Tests of responses that are badly framed, unrequested or excessive. They are not used and do not replace a stored response, and their
// connection is closed.

import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// A bad response of the upstream.
struct BadResponse: Sendable, CustomTestStringConvertible {
    let name: String
    let steps: [OriginStep]
    /// Error in Proxy-Status if nothing is stored; nil if the response is forwarded.
    var error: String?

    var testDescription: String { name }

    private static func raw(_ name: String, _ text: String, error: String? = "http_protocol_error") -> BadResponse {
        BadResponse(name: name, steps: [.send(text)], error: error)
    }

    private static let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

    static let all: [BadResponse] = [
        raw("bytes after content with Content-Length", json + "Content-Length: 1\r\n\r\n12"),
        raw("a second answer after the first", json + "Content-Length: 2\r\n\r\n{}" + json + "Content-Length: 3\r\n\r\n[6]"),
        raw("bytes after the last chunk", json + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nmore"),
        raw("an unrequested 101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
        raw("an unrequested 304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", error: nil),
        raw("a flood of 103", String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 30) + json + "Content-Length: 2\r\n\r\n{}"),
        raw("a signed length", json + "Content-Length: +2\r\n\r\n{}"),
        raw("a list of lengths", json + "Content-Length: 2, 2\r\n\r\n{}"),
        raw("a huge length", json + "Content-Length: 99999999999999999999\r\n\r\n{}"),
        raw("an unknown coding", json + "Transfer-Encoding: xyz\r\n\r\n{}", error: "http_response_transfer_coding"),
        raw(
            "an empty coding beside a length", json + "Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}",
            error: "http_response_transfer_coding"),
        raw(
            "chunked twice", json + "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            error: "http_response_transfer_coding"),
        raw("a chunk size with a sign", json + "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n"),
        raw("a chunk size that overflows", json + "Transfer-Encoding: chunked\r\n\r\n1ffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        raw("a folded line", json + "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"),
        raw("a NUL in a field", json + "X: a\u{0}b\r\nContent-Length: 2\r\n\r\n{}"),
        raw("a bare CR in a field", json + "X: a\rb\r\nContent-Length: 2\r\n\r\n{}"),
        raw("a head without end", json + "X: \(String(repeating: "a", count: 80_000))\r\n\r\n", error: "http_response_header_section_size"),
        raw("HTTP/0.9", "{\"id\":1}"),
        raw("an unknown version", "HTTP/3.7 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
        raw("a status of two digits", "HTTP/1.1 20 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
    ]
}

@Suite("Unusable upstream responses", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct UpstreamResponseTests {
    private static let good = "{\"good\":true}"

    private func origin(_ isTLS: Bool, _ script: @escaping ScriptedOrigin.Script) -> ScriptedOrigin {
        ScriptedOrigin(tls: isTLS ? SharedCertificates.tls : nil, script)
    }

    private func play(_ origin: ScriptedOrigin, _ isTLS: Bool) throws -> ProxyPlay {
        try ProxyPlay(origin) {
            $0.upstream.isTLS = isTLS
            if isTLS { $0.upstream.caFile = SharedCertificates.authority }
        }
    }

    @Test("the stored response is served, and the connection is not reused", arguments: BadResponse.all, [false, true])
    func rescued(_ bad: BadResponse, isTLS: Bool) throws {
        let origin = origin(isTLS) { _ in [.json(Self.good)] }
        let play = try play(origin, isTLS)
        _ = try play.get("/a")
        origin.react { _ in bad.steps + [.close] }
        let answer = try play.get("/a")
        #expect(answer.status == 200)
        #expect(answer.text == Self.good)
        origin.react { _ in [.json("[2]")] }
        #expect(try play.get("/b").text == "[2]")
        origin.down()
        #expect(try play.get("/a").text == Self.good)
    }

    @Test(
        "without a stored response the error names the fault, and the next response is not mixed up", arguments: BadResponse.all,
        [false, true])
    func failed(_ bad: BadResponse, isTLS: Bool) throws {
        let origin = origin(isTLS) { request in request.target == "/bad" ? bad.steps : [.json("\"\(request.target)\"")] }
        let play = try play(origin, isTLS)
        let answer = try play.get("/bad")
        if let error = bad.error {
            #expect(answer.status == 502)
            #expect(answer["Proxy-Status"]?.hasPrefix("cistern; error=\(error); details=\"") == true)
            _ = try play.get("/other")
            #expect(try play.metric("cistern_upstream_connections_total") == 2)
        }
        #expect(try play.get("/next").text == "\"/next\"")
        origin.down()
        #expect(try play.get("/bad").status == 502)
    }

    /// Responses with a head that can be forwarded before the fault is detected.
    private static let brokenBehindHead = BadResponse.all.filter { bad in
        ["bytes after", "a second answer", "a chunk size"].contains { bad.name.hasPrefix($0) }
    }

    @Test(
        "an invalid response that would be streamed yields an error instead of a truncated response",
        arguments: brokenBehindHead, [false, true])
    func brokenAtOnce(_ bad: BadResponse, isTLS: Bool) throws {
        let origin = origin(isTLS) { request in request.target == "/bad" ? bad.steps + [.close] : [.json("\"\(request.target)\"")] }
        let play = try play(origin, isTLS)
        for method in ["POST", "DELETE"] {
            let client = try play.client()
            let answer = try #require(client.request(method, "/bad"))
            #expect(answer.status == 502)
            #expect(answer["Proxy-Status"]?.hasPrefix("cistern; error=http_protocol_error; details=\"") == true)
            #expect(client.request("POST", "/next")?.text == "\"/next\"")
        }
        #expect(origin.requests.map(\.target) == ["/bad", "/next", "/bad", "/next"])
    }
}
