// Tests of the main promise: for every kind of failure the last good response is served, and a bad response never replaces it.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

struct Failure: Sendable, CustomTestStringConvertible {
    let name: String
    let steps: [OriginStep]
    /// Whether the failure is detected by a timeout, which needs the clock to move.
    var isSlow = false
    /// Whether the failure exists in HTTP/1.1 only.
    var isOfHTTP1 = false

    var testDescription: String { name }

    static let all: [Failure] = [
        Failure(name: "500", steps: [.json("{\"error\":1}", status: "500 Internal Server Error")]),
        Failure(name: "502", steps: [.json("{}", status: "502 Bad Gateway")]),
        Failure(name: "503", steps: [.json("{}", status: "503 Service Unavailable")]),
        Failure(name: "504", steps: [.json("{}", status: "504 Gateway Timeout")]),
        Failure(name: "429", steps: [.json("{}", status: "429 Too Many Requests")]),
        Failure(name: "invalid JSON", steps: [.json("{\"id\":")]),
        Failure(name: "text before the JSON", steps: [.json("Warning: x in y.php\n{\"id\":1}")]),
        Failure(name: "two texts", steps: [.json("{\"id\":1}{\"id\":1}")]),
        Failure(name: "empty content", steps: [.json("")]),
        Failure(name: "HTML instead of JSON", steps: [.answer("<html>Wi-Fi</html>", type: "text/html")]),
        Failure(name: "unrequested 206", steps: [.json("{\"id\":1}", status: "206 Partial Content", ["Content-Range: bytes 0-7/100"])]),
        Failure(name: "login redirect", steps: [.send("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")]),
        Failure(name: "closed without a response", steps: [.close]),
        Failure(name: "reset without a response", steps: [.reset]),
        Failure(name: "closed in the head", steps: [.send("HTTP/1.1 200 OK\r\nContent-Ty"), .close]),
        Failure(
            name: "reset in the content",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\""), .reset]),
        Failure(
            name: "cut by length",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\":1}"), .close]),
        Failure(
            name: "cut by chunk",
            steps: [
                .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n"), .close,
            ]),
        Failure(
            name: "bad chunk",
            steps: [
                .send(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{\"id\":1}\r\n0\r\n\r\n")
            ], isOfHTTP1: true),
        Failure(
            name: "two lengths",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\nContent-Length: 9\r\n\r\n{\"id\":1}")]),
        Failure(
            name: "length and chunks",
            steps: [
                .send(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n0\r\n\r\n"
                )
            ], isOfHTTP1: true),
        Failure(name: "garbage", steps: [.sendBytes([0x16, 0x03, 0x01, 0x00, 0xff, 0xfe, 0x0d, 0x0a, 0x0d, 0x0a]), .close]),
        Failure(name: "a control character in a field", steps: [.send("HTTP/1.1 200 OK\r\nX: a\u{1}b\r\nContent-Length: 2\r\n\r\n{}")]),
        Failure(
            name: "a folded line before the first field", steps: [.send("HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 2\r\n\r\n{}")]),
        Failure(
            name: "HTTP/2 in words", steps: [.send("HTTP/2.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")],
            isOfHTTP1: true),
        Failure(
            name: "chunks in HTTP/1.0",
            steps: [
                .send("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
                .close,
            ], isOfHTTP1: true),
        Failure(name: "CR in the reason phrase", steps: [.json("{}", status: "200 O\rSet-Cookie: a=b")], isOfHTTP1: true),
        Failure(name: "5,000 fields", steps: [.json("{}", [String](repeating: "a: b", count: 5_000))]),
        Failure(name: "an unrequested transfer coding", steps: [.json("{}", ["Content-Encoding: br"])]),
        Failure(name: "HTML without a Content-Type", steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>")]),
        Failure(
            name: "a second response after the content",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n")],
            isOfHTTP1: true),
        Failure(name: "captive portal", steps: [.json("{}", status: "511 Network Authentication Required")]),
        Failure(name: "invalid gzip", steps: [.json("{\"id\":1}", ["Content-Encoding: gzip"])]),
        Failure(name: "an incomplete number", steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n12"), .close]),
        Failure(name: "no response in time", steps: [.hang], isSlow: true),
        Failure(
            name: "content that stalls",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\""), .hang], isSlow: true),
    ]
}

@Suite("Rescue: a stored response is served when the upstream fails", .play, .clientProtocols)
struct RescueTests {
    @Test("a failure serves the stored response unchanged, and the next good response replaces it", .upstreams, arguments: Failure.all)
    func rescued(_ failure: Failure) throws {
        guard !failure.isOfHTTP1 || ProxyPlay.upstream == .http1 else { return }
        let good = "{\"id\": 1, \"text\": \"ä\"}"
        let origin = ScriptedOrigin { _ in [.json(good)] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/users/1").text == good)

        origin.react { _ in failure.steps }
        let client = try play.client(getting: "/users/1")
        if failure.isSlow { moveClock(play, until: client) }
        let answer = try #require(client.readResponse())
        #expect(answer.status == 200)
        #expect(answer.text == good)
        #expect(answer["Age"] != nil)
        #expect(answer["Cache-Status"]?.hasPrefix("cistern; ") == true)
        #expect(try play.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 1)

        origin.react { _ in [.json("{\"id\":2}")] }
        #expect(try play.get("/users/1").text == "{\"id\":2}")
    }

    @Test("an uncached failure yields one clear error and is not stored", .upstreams, arguments: Failure.all.filter { $0.name != "429" })
    func nothingStored(_ failure: Failure) throws {
        guard !failure.isOfHTTP1 || ProxyPlay.upstream == .http1 else { return }
        let origin = ScriptedOrigin { _ in failure.steps }
        let play = try ProxyPlay(origin)
        let client = try play.client(getting: "/users/1")
        if failure.isSlow { moveClock(play, until: client) }
        _ = try #require(client.readResponse())
        origin.down()
        let answer = try play.get("/users/1")
        #expect(answer.status == 502)
        #expect(answer["Proxy-Status"] == "cistern; error=connection_refused")
        #expect(answer["Content-Type"] == "text/plain; charset=utf-8")
    }

    @Test("an unrequested 304 or 206 is replaced by a stored response", arguments: ["206 Partial Content", "304 Not Modified"])
    func unrequestedResponses(_ status: String) throws {
        let origin = ScriptedOrigin { _ in [.send("HTTP/1.1 \(status)\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"), .close] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").status == (status.hasPrefix("206") ? 206 : 502))
        origin.react { _ in [.json("{\"id\":1}")] }
        #expect(try play.get("/a").status == 200)
        // The stored response has no validators, so the request has no conditions.
        origin.react { _ in [.send("HTTP/1.1 \(status)\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"), .close] }
        #expect(try play.get("/a").text == "{\"id\":1}")
        origin.react { _ in [.json("{\"id\":2}")] }
        #expect(try play.get("/a").text == "{\"id\":2}")
    }

    @Test("unsolicited data on an idle connection is not used as the next response")
    func unsolicitedData() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in
            request.target == "/next"
                ? [.json("{}")]
                : [.json("{\"id\":1}"), .pass(gate), .send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\"poison\"")]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        gate.open()
        for _ in 0..<200 { _ = try play.get("/healthz") }
        #expect(try play.get("/next").text == "{}")
    }

    @Test("a name that does not resolve is a failure like any other, also at startup")
    func unresolvable() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [] }) { $0.upstream.host = "nowhere.invalid" }
        let answer = try play.get("/users")
        #expect(answer.status == 502)
        #expect(answer["Proxy-Status"] == "cistern; error=dns_error; details=\"Name or service not known\"")
    }

    @Test("stored responses survive a restart while the upstream is down")
    func restart() throws {
        let origin = ScriptedOrigin { request in [.json("{\"target\":\"\(request.target)\"}")] }
        let play = try ProxyPlay(origin)
        for number in 0..<50 { _ = try play.get("/items/\(number)") }
        origin.down()
        try play.restart()
        for number in 0..<50 {
            let answer = try play.get("/items/\(number)")
            #expect(answer.status == 200)
            #expect(answer.text == "{\"target\":\"/items/\(number)\"}")
        }
    }

    @Test("a rescue overrides no-cache and must-revalidate, except in strict mode; no-store always applies")
    func policies() throws {
        for (control, rescued, strict) in [
            ("no-cache", 200, 502), ("must-revalidate", 200, 502), ("proxy-revalidate", 200, 502), ("s-maxage=0", 200, 502),
            ("no-store", 502, 502),
            ("private", 502, 502), ("max-age=0", 200, 200),
        ] {
            for (isStrict, expected) in [(false, rescued), (true, strict)] {
                let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: \(control)"])] }
                let play = try ProxyPlay(origin) { if isStrict { $0.policy.strictness = .strict } }
                #expect(try play.get("/a").status == 200)
                origin.down()
                #expect(try play.get("/a").status == expected, "\(control), strict: \(isStrict)")
            }
        }
    }

    @Test("a write sent on a dead connection is not retried")
    func writesOnce() throws {
        let origin = ScriptedOrigin { request in request.method == "GET" ? [.json("{}")] : [.close] }
        let play = try ProxyPlay(origin)
        for (method, content) in [("POST", nil), ("POST", "a=1"), ("PATCH", "{}")] as [(String, String?)] {
            _ = try play.get("/a")
            #expect(try play.request(method, "/a", content: content).status == 502)
        }
        #expect(origin.requests.filter { $0.method != "GET" }.count == 3)
    }

    @Test("HEAD is rescued from the stored GET response, without content")
    func head() throws {
        let origin = ScriptedOrigin { _ in [.json("{\"id\":1}")] }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        origin.down()
        let answer = try play.request("HEAD", "/a")
        #expect(answer.status == 200)
        #expect(answer["Content-Length"] == "8")
        #expect(try play.get("/a").text == "{\"id\":1}")
    }

    /// Moves the clock until the client has a response.
    private func moveClock(_ play: ProxyPlay, until client: TestClient) {
        while !client.hasInput(within: 10) { play.time.advance(by: .seconds(2)) }
    }
}
