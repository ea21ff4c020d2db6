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

    @Test("a 304 or 206 to a write is passed on and invalidates the target", .upstreams, arguments: ["POST", "PUT", "DELETE", "FROB"])
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
}
