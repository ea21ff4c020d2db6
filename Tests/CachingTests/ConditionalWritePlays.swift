// Plays of requests with entity tags that Cistern changed or made, and with tags of the upstream.

import HTTPCore
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Conditional requests to the upstream", .play)
struct ConditionalWritePlays {
    private static let text = "[\"" + String(repeating: "abc", count: 700) + "\"]"
    private static let gzip = [("Accept-Encoding", "gzip")]
    private static let tags = ["/weak": "W/\"2\"", "/ending": "\"x~cistern\"", "/own": nil]

    /// The origin sends the tag `"x"`, except for the targets in `tags`. It compares If-None-Match as text.
    private func play(_ control: String = "max-age=60") throws -> ProxyPlay {
        try ProxyPlay(
            ScriptedOrigin { request in
                guard request.method == "GET" else { return [.json("{}")] }
                let tag: String? = if let known = Self.tags[request.target] { known } else { "\"x\"" }
                let fields = ["Cache-Control: \(control)"] + (tag.map { ["ETag: \($0)"] } ?? [])
                guard tag == nil || request["If-None-Match"] != tag else {
                    return [.send("HTTP/1.1 304 Not Modified\r\n\(fields.joined(separator: "\r\n"))\r\n\r\n")]
                }
                return [.json(Self.text, fields)]
            })
    }

    /// Sends a write, and returns the value of If-Match that the origin received; nil if it received none.
    private func written(_ play: ProxyPlay, _ target: String, _ tag: String, _ fields: [(String, String)] = []) throws -> String? {
        #expect(try play.request("PATCH", target, [("If-Match", tag)] + fields, content: "1").status == 200)
        return play.origin.requests.last?["If-Match"]
    }

    @Test("the tag of a response reaches the upstream as the upstream sent it, whatever is stored", arguments: ["max-age=60", "no-store"])
    func upstreamTags(control: String) throws {
        let play = try play(control)
        for (target, weakened, original) in [
            ("/weak", "W/\"2\"", "W/\"2\""), ("/a", "W/\"x~cistern\"", "\"x\""), ("/ending", "W/\"x~cistern~cistern\"", "\"x~cistern\""),
        ] {
            for (fields, tag) in [(Self.gzip, weakened), ([], original)] {
                let response = try play.get(target, fields)
                #expect(response["ETag"] == tag && response["Vary"] == "Accept-Encoding", "\(target)")
                // The first write invalidates the stored response.
                for target in [target, target, "/unread"] { #expect(try written(play, target, tag, fields) == original) }
            }
        }
    }

    @Test("a tag that Cistern made is not passed on; other tags and * are")
    func own() throws {
        let play = try play()
        let tag = try #require(try play.get("/own")["ETag"])
        #expect(tag.hasPrefix("W/\"cistern~"))
        for (value, passed) in [(tag, nil), ("\"mine\", \(tag)", "\"mine\""), ("*", "*")] as [(String, String?)] {
            _ = try play.get("/own")
            for target in ["/own", "/unread\(value.count)"] { #expect(try written(play, target, value) == passed) }
        }
        #expect(try written(play, "/own", tag) == tag, "a write has followed")
        _ = try play.get("/own")
        let former = "W/\"cistern~ffffffffffffffffffffffffffffffff\""
        #expect(try written(play, "/own", former) == former)
    }

    @Test("a tag that Cistern made is passed on after the write of another user, which the client has not seen")
    func otherUser() throws {
        let play = try play()
        let (one, other) = ([("Authorization", "Bearer one")], [("Authorization", "Bearer other")])
        let tag = try #require(try play.get("/own", one)["ETag"])
        play.time.advance(by: .milliseconds(5))
        #expect(try play.request("PUT", "/own", other, content: "2").status == 200)
        _ = try play.get("/own", other)
        #expect(try written(play, "/own", tag, one) == tag)
    }

    @Test("a client with a weakened tag gets a 304 with it, from the store and from the upstream", arguments: ["max-age=60", "no-store"])
    func unchanged(control: String) throws {
        let play = try play(control)
        let tag = try #require(try play.get("/a", Self.gzip)["ETag"])
        // The first request with a precondition shows that the response is not stored; later ones are passed on with it.
        for _ in 0..<2 { _ = try play.get("/a", Self.gzip + [("If-None-Match", tag)]) }
        let same = try play.get("/a", Self.gzip + [("If-None-Match", "\"other\", \(tag)")])
        let again = try play.get("/a", Self.gzip + [("If-None-Match", tag)])
        #expect(again.status == 304 && again.all("ETag") == [tag])
        guard control == "no-store" else { return #expect(same.status == 304 && play.origin.requests.count == 1) }
        #expect(play.origin.requests.suffix(2).map { $0["If-None-Match"] } == ["\"other\", \"x\"", "\"x\""])
    }

    @Test("a weakened tag in If-Range reaches the upstream unchanged, so that it never joins content in two codings")
    func ranges() throws {
        let play = try play("no-store")
        let tag = try #require(try play.get("/a", Self.gzip)["ETag"])
        _ = try play.get("/a", Self.gzip + [("Range", "bytes=0-3"), ("If-Range", tag)])
        #expect(play.origin.requests.last?["If-Range"] == tag)
    }
}
