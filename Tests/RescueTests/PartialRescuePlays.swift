// Tests of range requests and preconditions while the upstream fails: a stored complete response serves a range, also a public one. Only
// the upstream evaluates If-Match.

import CachePolicy
import Downstream
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Ranges and preconditions during an outage", .play, .clientProtocols)
struct PartialRescuePlays {
    private static let range = [("Range", "bytes=0-5")]
    private static let user = [("Authorization", "Bearer x")]

    private func count(_ play: ProxyPlay) throws -> Double? { try play.metric("cistern_rescued_with_shared_total{leave=\"public\"}") }

    @Test("a public stored response serves a range to requests with any credentials when the upstream fails")
    func publicCopy() throws {
        let play = try ProxyPlay(cookieOrigin())
        #expect(try play.get("/public/a").status == 200)
        #expect(try play.get("/plain").status == 200)
        play.origin.react { _ in [.json("{}", status: "503 Trouble")] }
        let failed = try play.get("/public/a", Self.user + Self.range)
        #expect(failed.status == 206 && failed.text == "{\"who\"")
        #expect(failed["Cache-Status"] == "cistern; fwd=bypass; fwd-status=503; detail=server_error/shared:public")
        #expect(try play.get("/plain", Self.user + Self.range).status == 503)
        play.origin.down()
        let refused = try play.get("/public/a", Self.user + Self.range)
        #expect(refused.status == 206 && refused.text == "{\"who\"")
        #expect(try play.request("HEAD", "/public/a", Self.user).status == 200)
        #expect(try count(play) == 3)
        #expect(try play.get("/plain", Self.user + Self.range).status >= 502)
    }

    @Test("a response that is purged during a range request does not serve the range")
    func purged() throws {
        let play = try ProxyPlay(cookieOrigin())
        for target in ["/a", "/b"] { #expect(try play.get(target).status == 200) }
        let socket = play.adminSocket
        play.origin.react { request in
            if request.target == "/a" { _ = try? TestClient(.unix(path: socket)).request("POST", "/-/purge?target=/a") }
            return [.close]
        }
        #expect(try play.get("/a", Self.range).status == 502)
        #expect(try play.get("/b", Self.range).status == 206)
    }

    @Test("a refused precondition is named as the reason, although a response is stored", arguments: ["If-Match", "If-Unmodified-Since"])
    func precondition(_ name: String) throws {
        let play = try ProxyPlay(cookieOrigin())
        #expect(try play.get("/a").status == 200)
        let fields = [(name, name == "If-Match" ? "\"x\"" : "Sun, 06 Nov 1994 08:49:37 GMT")]
        let reason = "only the upstream can evaluate the request's preconditions."
        let stored = try play.get("/a", fields + [("Cache-Control", "only-if-cached")])
        #expect(stored.status == 504 && stored.text.contains("The request has only-if-cached, and \(reason)"))
        play.origin.down()
        let failed = try play.get("/a", fields)
        #expect(failed.status == 502 && failed.text.contains(", and \(reason)"), "\(failed.text)")
        #expect(try play.admin("PUT", "/-/mode?mode=offline").status == 200)
        let offline = try play.get("/a", fields)
        #expect(offline.status == 504 && offline.text.contains("Cistern is in offline mode, and \(reason)"), "\(offline.text)")
        let why = String(decoding: try play.admin("GET", "/-/why?last=1").content, as: UTF8.self)
        #expect(why.contains("preconditions that only the upstream can evaluate. In mode offline"), "\(why)")
        #expect(try play.get("/a").status == 200)
    }
}
