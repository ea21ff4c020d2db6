// Tests of No-Vary-Search: what the upstream states about the arguments of a path is remembered.

import CachePolicy
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("No-Vary-Search", .play, .clientProtocols)
struct SearchVariancePlays {
    private let field = "No-Vary-Search: params=(\"utm\" \"session\")"

    /// Numbers its responses and sends these fields.
    private func counting(_ fields: String...) -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { _ in [.json("{\"n\":\(counter.next())}", ["Cache-Control: max-age=60"] + fields)] }
    }

    /// Numbers its responses; only the second one has the field.
    private func secondSaysSo() -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { _ in
            let number = counter.next()
            return [.json("\(number)", ["Cache-Control: max-age=60"] + (number == 2 ? ["No-Vary-Search: params=(\"utm\")"] : []))]
        }
    }

    private func isHit(_ answer: TestResponse) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    @Test("arguments excluded by No-Vary-Search do not affect the match, also after a restart")
    func found() throws {
        let origin = counting(field)
        let play = try ProxyPlay(origin)
        let first = try play.get("/a?id=1&utm=x")
        #expect(!isHit(first))
        for target in ["/a?id=1&utm=y", "/a?id=1", "/a?session=7&id=1", "/a?id=1&utm=x"] {
            let again = try play.get(target)
            #expect(isHit(again) && again.text == first.text, "\(target)")
        }
        #expect(try play.request("HEAD", "/a?id=1&utm=z")["Cache-Status"]?.contains("; hit") == true)
        #expect(!isHit(try play.get("/a?id=2&utm=x")))
        #expect(!isHit(try play.get("/b?id=1&utm=x")))
        try play.restart()
        #expect(try play.get("/a?utm=later&id=1").text == first.text)
        #expect(origin.requests.count == 3)
    }

    @Test(
        "with No-Vary-Search absent, invalid or disabled, arguments match exactly", arguments: [nil, "params=(utm)", "params"])
    func exact(value: String?) throws {
        let origin = value.map { counting("No-Vary-Search: \($0)") } ?? counting()
        let play = try ProxyPlay(origin) { if value == "params" { $0.policy.usesNoVarySearch = false } }
        _ = try play.get("/a?utm=x")
        #expect(!isHit(try play.get("/a?utm=y")))
        #expect(isHit(try play.get("/a?utm=x")))
    }

    @Test("only responses with No-Vary-Search match other arguments; the latest response decides")
    func changes() throws {
        let play = try ProxyPlay(secondSaysSo())
        #expect(try play.get("/a").text == "1")
        // The response without the field still matches its own target only.
        #expect(try play.get("/a?utm=x").text == "2")
        #expect(try play.get("/a?utm=y").text == "2")
        #expect(try play.get("/a").text == "1")
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a?utm=y").text == "3")
        // The new response lacks the field, so it matches its own target only.
        #expect(try play.get("/a?utm=y").text == "3")
        #expect(try play.get("/a?utm=z").text == "4")
    }

    @Test("of two fresh matching responses the more recent one is served (RFC 9111 §4)")
    func mostRecent() throws {
        let play = try ProxyPlay(secondSaysSo())
        #expect(try play.get("/a").text == "1")
        play.time.advance(by: .seconds(1))
        #expect(try play.get("/a?utm=x").text == "2")
        #expect(try play.get("/a").text == "2")
        play.time.advance(by: .seconds(1))
        // A response for one target only, which is also the latest for that target.
        #expect(try play.get("/a?utm=x", [("Cache-Control", "no-cache")]).text == "3")
        #expect(try play.get("/a?utm=x").text == "3")
    }

    @Test("a write to one spelling invalidates the response for all spellings")
    func invalidation() throws {
        let origin = counting(field)
        let play = try ProxyPlay(origin)
        for fields in [[], [("Authorization", "Bearer x")]] {
            _ = try play.get("/a?id=1&utm=x", fields)
            #expect(isHit(try play.get("/a?id=1&utm=y", fields)))
            play.time.advance(by: .seconds(1))
            _ = try play.request("DELETE", "/a?id=1&utm=z")
            play.time.advance(by: .seconds(1))
            #expect(!isHit(try play.get("/a?id=1&utm=y", fields)))
        }
    }

    @Test("No-Vary-Search does not cross partitions or variants")
    func partitions() throws {
        let origin = counting(field, "Vary: Accept-Language")
        let play = try ProxyPlay(origin)
        _ = try play.get("/a?utm=x", [("Authorization", "Bearer x")])
        #expect(isHit(try play.get("/a?utm=y", [("Authorization", "Bearer x")])))
        #expect(!isHit(try play.get("/a?utm=y", [("Authorization", "Bearer y")])))
        #expect(!isHit(try play.get("/a?utm=y", [("Authorization", "Bearer x"), ("Accept-Language", "de")])))
    }

    @Test("a response stored under another spelling rescues; its 304 makes it fresh for all spellings")
    func rescue() throws {
        let origin = ScriptedOrigin { request in
            let fields = ["Cache-Control: max-age=60", field, "ETag: \"1\""]
            return request["If-None-Match"] == nil
                ? [.json("[1]", fields)] : [.send("HTTP/1.1 304 Not Modified\r\n" + fields.joined(separator: "\r\n") + "\r\n\r\n")]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a?utm=x")
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a?utm=y").text == "[1]")
        #expect(isHit(try play.get("/a?utm=z")))
        #expect(origin.requests.count == 2)
        play.time.advance(by: .seconds(61))
        origin.down()
        #expect(try play.get("/a?utm=w").text == "[1]")
    }

    @Test("purging or inspecting one spelling addresses the shared response; other targets are unaffected", arguments: [false, true])
    func purging(isSoft: Bool) throws {
        let counter = Counter()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let says = request.target.hasPrefix("/a") ? ["No-Vary-Search: params=(\"x\")"] : []
                return [.json("{\"n\":\(counter.next())}", ["Cache-Control: max-age=60", "Vary: Accept-Language"] + says)]
            })
        for target in ["/a?x=1&y=2", "/a?x=1&y=3", "/b?x=1&y=2"] { _ = try play.get(target) }
        #expect(try play.get("/a?y=2&x=9").text == "{\"n\":1}")
        for (target, count) in [("/a?x=5", 0), ("/a/b?x=1&y=2", 0), ("/b?y=2", 0), ("/a?x=7&y=2", 1), ("/b?x=1&y=2", 1)] {
            let argument = target.replacing("&", with: "%26")
            let listed = JSONValue(try play.admin("GET", "/-/entries?target=\(argument)").content)
            #expect(listed?["entries"]?.array?.count == count, "\(target)")
            let purged = JSONValue(try play.admin("POST", "/-/purge?target=\(argument)&soft=\(isSoft)").content)
            #expect(purged?["purged"] == .integer(count), "\(target)")
        }
        #expect(try play.get("/a?x=1&y=2").text == "{\"n\":4}")
        #expect(try play.get("/a?x=8&y=3").text == "{\"n\":2}")
    }
}
