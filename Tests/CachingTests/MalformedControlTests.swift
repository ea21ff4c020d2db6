// Tests that responses with malformed Cache-Control or Vary are not served to other users.

import CachePolicy
import HTTPCore
import ReverseProxy
import TestSupport
import Testing

@Suite("Malformed Cache-Control and Vary", .play)
struct MalformedControlTests {
    @Test(
        "a directive behind another separator than a comma prevents storing for everyone",
        arguments: ["private; max-age=600", "max-age=600; private", "no-store; no-cache", "no-store;", "max-age=60,\u{a0}private"])
    func response(_ control: String) throws {
        let count = Counter()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\(count.next())", ["Cache-Control: \(control)"])] })
        let first = try play.get("/a")
        for _ in 0..<2 {
            let next = try play.get("/a")
            #expect(next.text != first.text && next["Cache-Status"]?.contains("stored") != true, "\(next)")
        }
        play.origin.down()
        #expect(try play.get("/a").status == 502)
    }

    @Test("a malformed no-store of a request prevents storing, and a malformed no-cache prevents a hit")
    func request() throws {
        let count = Counter()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\(count.next())", ["Cache-Control: max-age=60"])] })
        #expect(try play.get("/a", [("Cache-Control", "no-store; x")]).text == "1")
        #expect(try play.get("/a").text == "2")
        #expect(try play.get("/a").text == "2")
        #expect(try play.get("/a", [("Cache-Control", "max-age=60; no-cache")]).text == "3")
    }

    @Test("Vary with a semicolon separates variants")
    func vary() throws {
        let origin = ScriptedOrigin { request in
            [.json("\"\(request["X-Color"] ?? "-")\"", ["Cache-Control: max-age=60", "Vary: Accept; X-Color"])]
        }
        let play = try ProxyPlay(origin) { $0.policy.harmlessFields.append("x-color") }
        for tenant in ["a", "b", "a"] { #expect(try play.get("/a", [("X-Color", tenant)]).text == "\"\(tenant)\"") }
        #expect(play.origin.requests.count == 2)
    }
}
