// Tests of responses to writes: each is passed on, whatever its status, and invalidates every spelling of the target.

import CachePolicy
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Responses to writes", .play, .clientProtocols)
struct WriteResponsePlays {
    private static let good = OriginStep.json("1", ["Cache-Control: max-age=600", "ETag: \"a\""])

    private func isHit(_ play: ProxyPlay, _ target: String) throws -> Bool {
        try play.get(target)["Cache-Status"]?.contains("; hit") == true
    }

    @Test("a 304 or 206 to a write is passed on and makes the target stale", .upstreams, arguments: ["POST", "PUT", "DELETE", "FROB"])
    func unasked(method: String) throws {
        let origin = ScriptedOrigin { request in
            if request.method == "GET" { return [Self.good] }
            return request.target == "/a"
                ? [.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX-Written: yes\r\n\r\n")]
                : [.json("{\"part\":1}", status: "206 Partial Content", ["Content-Range: bytes 0-9/20"])]
        }
        let play = try ProxyPlay(origin)
        for target in ["/a", "/b"] {
            _ = try play.get(target)
            #expect(try isHit(play, target))
        }
        let notModified = try play.request(method, "/a", content: "{}")
        #expect(notModified.status == 304 && notModified["X-Written"] == "yes" && notModified.content.isEmpty)
        let part = try play.request(method, "/b", content: "{}")
        #expect(part.status == 206 && part.text == "{\"part\":1}" && part["Content-Range"] == "bytes 0-9/20")
        for target in ["/a", "/b"] { #expect(try !isHit(play, target)) }
        #expect(try play.metric("cistern_upstream_up") == 1)
    }

    struct Content: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let content: String
        /// Whether the stored response remains for rescues.
        let isKept: Bool
        var type = "application/json"
        var isChunked = false
        var mustHave: [String] = []
        var mustNotHave: [String] = []
        var strictness = Strictness.rescue

        init(_ name: String, _ content: String, isKept: Bool, _ change: (inout Content) -> Void = { _ in }) {
            (testDescription, self.content, self.isKept) = (name, content, isKept)
            change(&self)
        }

        var step: OriginStep {
            guard isChunked else { return .answer(content, type: type) }
            let chunk = "\(String(content.utf8.count, radix: 16))\r\n\(content)\r\n0\r\n\r\n"
            return .send("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
        }
    }

    private static let contents = [
        Content("invalid JSON", "{\"a\":", isKept: true),
        Content("invalid JSON in chunks", "maintenance", isKept: true) { $0.isChunked = true },
        Content("invalid JSON, with policy strict", "{\"a\":", isKept: false) { $0.strictness = .strict },
        Content("JSON", "{\"a\":1}", isKept: false), Content("JSON in chunks", "{\"a\":1}", isKept: false) { $0.isChunked = true },
        Content("empty JSON", "", isKept: false), Content("a scalar", "1", isKept: false),
        Content("plain text", "{\"a\":", isKept: false) { $0.type = "text/plain" },
        Content("an unwanted value", "{\"error\":1}", isKept: true) { $0.mustNotHave = ["/error"] },
        Content("an unwanted value in chunks", "{\"error\":1}", isKept: true) { ($0.mustNotHave, $0.isChunked) = (["/error"], true) },
        Content("no unwanted value", "{\"a\":1}", isKept: false) { $0.mustNotHave = ["/error"] },
        Content("a missing value", "{\"a\":1}", isKept: false) { $0.mustHave = ["/data"] },
        Content("a required value", "{\"data\":2}", isKept: false) { $0.mustHave = ["/data"] },
    ]

    @Test("a response to a write whose content is bad makes the target stale, and a good one removes it", arguments: contents)
    func content(row: Content) throws {
        let good = OriginStep.json("{\"data\":1}", ["Cache-Control: max-age=600"])
        let play = try ProxyPlay(ScriptedOrigin { $0.method == "GET" ? [good] : [row.step] }) {
            $0.otherRoute.good.mustHave = row.mustHave.compactMap { JSONPointer($0) }
            $0.otherRoute.good.mustNotHave = row.mustNotHave.compactMap { JSONPointer($0) }
            $0.policy.strictness = row.strictness
        }
        _ = try play.get("/a")
        #expect(try isHit(play, "/a"))
        play.time.advance(by: .milliseconds(5))
        #expect(try play.request("POST", "/a", content: "{}").text == row.content)
        play.time.advance(by: .milliseconds(5))
        play.origin.down()
        #expect(try !isHit(play, "/a"))
        #expect(try (play.get("/a").status == 200) == row.isKept)
    }

    @Test("a response to a write without a length is not held until its end")
    func slowContent() throws {
        let gate = Gate()
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send(head + "4\r\n[1,2\r\n"), .pass(gate), .send("1\r\n]\r\n0\r\n\r\n")] })
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        #expect(client.readResponseHead()?.status == 200)
        #expect(client.readChunk() == Array("[1,2".utf8))
        gate.open()
        #expect(client.readChunk() == Array("]".utf8))
    }

    @Test("a successful request with an unknown method makes the response stale, and a write removes it", arguments: ["FROB", "PUT"])
    func unknownMethod(method: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [Self.good] })
        for user in ["alice", "bob"] { #expect(try play.get("/a", [("Authorization", user)]).status == 200) }
        #expect(try play.request(method, "/a", [("Authorization", "eve")]).status == 200)
        for user in ["alice", "bob"] {
            #expect(try play.get("/a", [("Authorization", user)])["Cache-Status"]?.contains("; hit") == false)
            #expect(try play.request(method, "/a").status == 200)
        }
        play.origin.down()
        for user in ["alice", "bob"] {
            #expect(try play.get("/a", [("Authorization", user)]).status == (method == "FROB" ? 200 : 502))
        }
    }

    @Test(
        "a write to a target with dot segments invalidates the target that it leads to",
        arguments: ["/x/../a", "/./a", "/x/%2E%2e/a", "/x/.%2e/a", "/../a"])
    func dotSegments(target: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { request in request.method == "GET" ? [Self.good] : [.json("{}")] })
        _ = try play.get("/a")
        #expect(try isHit(play, "/a"))
        #expect(try play.request("PUT", target, content: "{}").status == 200)
        #expect(play.origin.requests.last?.target == target)
        #expect(try !isHit(play, "/a"))
    }

    @Test(
        "dot segments in Location and Content-Location are resolved",
        arguments: ["Location: /x/../a", "Content-Location: ../a", "Location: ./%2e/../a", "Location: /b/%2E%2E/a#part"])
    func dotSegmentsInReferences(line: String) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in request.method == "GET" ? [Self.good] : [.json("{}", status: "201 Created", [line])] })
        for target in ["/a", "/x/a"] { _ = try play.get(target) }
        #expect(try play.request("POST", "/x/b", content: "{}").status == 201)
        #expect(try !isHit(play, "/a"))
        #expect(try isHit(play, "/x/a"))
    }

    @Test("a failed write, and one whose route spares its target, invalidate no spelling of the target")
    func spared() throws {
        let origin = ScriptedOrigin { request in
            request.method == "GET" ? [Self.good] : [.json("{}", status: request.target.contains("/a") ? "409 Conflict" : "200 OK")]
        }
        let play = try ProxyPlay(origin) { settings in
            var route = Route()
            route.name = "spared"
            route.pattern = RoutePattern("/spared/**")
            route.invalidatesTarget = false
            settings.routes = [route]
        }
        for target in ["/a", "/spared/b"] { _ = try play.get(target) }
        #expect(try play.request("PUT", "/x/../a", content: "{}").status == 409)
        #expect(try play.request("PUT", "/spared/./b", content: "{}").status == 200)
        for target in ["/a", "/spared/b"] { #expect(try isHit(play, target)) }
    }
}
