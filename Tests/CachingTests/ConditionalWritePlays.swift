// Plays of conditional writes with entity tags that Cistern changed or made, and with weak tags of the upstream.

import HTTPCore
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Conditional writes", .play)
struct ConditionalWritePlays {
    private static let text = "[\"" + String(repeating: "abc", count: 700) + "\"]"
    private static let gzip = [("Accept-Encoding", "gzip")]

    /// The origin sends the tag `"x"`, except for the targets in `tags`.
    private func play() throws -> ProxyPlay {
        let tags = ["/weak": "W/\"2\"", "/newer": "\"y\"", "/own": nil]
        return try ProxyPlay(
            ScriptedOrigin { request in
                guard request.method == "GET" else { return [.json("{}")] }
                let tag: String? = if let known = tags[request.target] { known } else { "\"x\"" }
                return [.json(Self.text, ["Cache-Control: max-age=60"] + (tag.map { ["ETag: \($0)"] } ?? []))]
            })
    }

    /// Sends a write, and returns the value of If-Match that the origin received; nil if it received none.
    private func written(_ play: ProxyPlay, _ target: String, _ tag: String, _ fields: [(String, String)] = []) throws -> String? {
        #expect(try play.request("PATCH", target, [("If-Match", tag)] + fields, content: "1").status == 200)
        return play.origin.requests.last?["If-Match"]
    }

    @Test("a weak tag of the upstream is passed on unchanged, before and after the write has invalidated the stored response")
    func weak() throws {
        let play = try play()
        let tag = try #require(try play.get("/weak")["ETag"])
        #expect(tag == "W/\"2\"")
        for target in ["/weak", "/weak", "/unread"] { #expect(try written(play, target, tag) == tag) }
    }

    @Test("a strong tag that Cistern weakened becomes strong, also if the upstream sends weak tags for other targets")
    func weakened() throws {
        let play = try play()
        _ = try play.get("/weak")
        let tag = try #require(try play.get("/a", Self.gzip)["ETag"])
        #expect(tag == "W/\"x\"")
        _ = try play.get("/newer", Self.gzip)
        #expect(try written(play, "/newer", tag) == tag)
        #expect(try written(play, "/a", tag, Self.gzip) == "\"x\"")
    }

    @Test("a current tag that Cistern made is not passed on; other tags and * are")
    func own() throws {
        let play = try play()
        for (value, passed) in [("OWN", nil), ("\"mine\"", "\"mine\""), ("*", "*")] as [(String, String?)] {
            let tag = try #require(try play.get("/own")["ETag"])
            #expect(tag.hasPrefix("W/\""))
            #expect(try written(play, "/own", value == "OWN" ? tag : value) == passed)
        }
        _ = try play.get("/own")
        let former = "W/\"ffffffffffffffffffffffffffffffff\""
        #expect(try written(play, "/own", former) == former)
    }

    @Test("the stored response of another user decides nothing")
    func partition() throws {
        let play = try play()
        let (one, other) = ([("Authorization", "Bearer one")], [("Authorization", "Bearer other")])
        let tag = try #require(try play.get("/own", one)["ETag"])
        #expect(try written(play, "/own", tag, other) != nil)
        _ = try play.get("/own", one)
        #expect(try written(play, "/own", tag, one) == nil)
    }
}
