// Tests of responses to writes: each is passed on, whatever its status, and invalidates every spelling of the target.

import CachePolicy
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
