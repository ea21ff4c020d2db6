// Tests replays and imports of recordings by Chromium, Firefox, Playwright and mitmproxy of a web app (Tests/Recordings), with the real
// binary.

import CacheStore
import TestSupport
import Testing

@Suite("Recordings of other tools", .slow, .play, .enabled(if: TestTools.has("curl")))
struct ForeignRecordingTests {
    private static let directory = #filePath.dropLast("CommandTests/ForeignRecordingTests.swift".count) + "Recordings/"
    private static let app = "http://127.0.0.1:18701"

    struct Recorder: CustomTestStringConvertible {
        let name: String
        /// Whether the recording contains the CORS fields of a browser's requests.
        var isOfABrowser = true
        /// Whether it has content that the app never read.
        var hasUnreadContents = true
        var hasBinaryContents = true
        /// Number of responses that an import stores.
        let stored: Int

        var testDescription: String { name }
        var file: String { directory + name + ".har" }
    }

    static let recorders = [
        Recorder(name: "chromium", stored: 2), Recorder(name: "firefox", stored: 2),
        Recorder(name: "playwright", hasUnreadContents: false, hasBinaryContents: false, stored: 2),
        Recorder(name: "mitmproxy", isOfABrowser: false, stored: 2),
    ]

    @Test("a replay gives the same responses as the recorded API", arguments: recorders)
    func replay(_ recorder: Recorder) throws {
        let temporary = TestTools.temporaryDirectory()
        let replay = try RunningCommand("replay \(recorder.file) --origin http://127.0.0.1:18700", in: temporary.path)
        let json = [("Content-Type", "application/json")]
        let recorded = try replay.request("POST", "/login", json, content: #"{"password":"secret-word","user":"ada"}"#)
        #expect(recorded.status == 200 && recorded.text.contains("\"name\":\"Ada\""))
        #expect(try replay.get("/users").text.contains("Ada Löwe 19"))
        #expect(try replay.get("/search?a=%C3%BC&b=2&c=x+y").text == #"{"query": "b=2&a=%C3%BC&c=x+y"}"#)
        // Also if the recorded response was a 304 that confirmed the browser's copy.
        #expect(try replay.get("/me", [("Authorization", "Bearer any")]).text == #"{"name":"Ada"}"#)
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        #expect(try replay.request("POST", "/form", form, content: "b+c=%C3%BC&a=1").status == 201)
        #expect(try replay.get("/logo.png").content.count == 70)
        let moved = try replay.get("/moved")
        #expect(moved.status == 302 && moved["Location"] == "/users")
        #expect(try replay.get("/empty").status == 204)
        #expect(try replay.get("/missing").text.hasPrefix(recorder.hasUnreadContents ? "{\"error\"" : "GET /missing was not recorded"))
        #expect(try replay.request("HEAD", "/users").status == 200)
        #expect(try replay.request("DELETE", "/users/1").status == 204)
        try checkText(replay)
        try checkPreflight(replay, recorder)
    }

    /// Text is sent in the charset of its media type, however the recorder stored it.
    private func checkText(_ replay: RunningCommand) throws {
        for target in ["/text", "/latin"] {
            let text = try replay.get(target)
            let isLatin = text["Content-Type"]?.contains("8859") == true
            #expect(text.content == (isLatin ? [0x47, 0x72, 0xfc, 0xdf, 0x65, 0x0a] : Array("Grüße\n".utf8)))
        }
    }

    private func checkPreflight(_ replay: RunningCommand, _ recorder: Recorder) throws {
        let asking = [("Origin", Self.app), ("Access-Control-Request-Method", "PUT")]
        let preflight = try replay.request("OPTIONS", "/search", asking)
        #expect(preflight.status == (recorder.isOfABrowser ? 200 : 404))
        #expect(preflight["Access-Control-Allow-Origin"] == (recorder.isOfABrowser ? Self.app : nil))
    }

    @Test(
        "binary request content is compared byte by byte if the recording contains it", arguments: recorders
    )
    func binary(_ recorder: Recorder) throws {
        let temporary = TestTools.temporaryDirectory()
        for (bytes, isRecorded) in [(#"\0\377\1\376"#, true), (#"\0\377\1\377"#, false)] {
            // Browsers send no content type for binary data.
            let type = recorder.isOfABrowser ? "" : "application/octet-stream"
            let send = #"printf "\#(bytes)" | curl -s -H Content-Type:\#(type) --data-binary @- $API_URL/binary"#
            try TestTools.write(send, to: temporary.path + "/send.sh")
            let outcome = try CommandLineTool.run("replay \(recorder.file) -- sh \(temporary.path)/send.sh")
            #expect(outcome.text.contains(#"{"got": 4}"#) == (isRecorded || !recorder.hasBinaryContents), "\(outcome.text)")
        }
    }

    @Test("strict order follows the browser's order, with preflights in any position", arguments: ["chromium", "firefox"])
    func strictOrder(name: String) throws {
        let temporary = TestTools.temporaryDirectory()
        let file = Self.directory + name + ".har"
        let replay = try RunningCommand("replay \(file) --origin http://127.0.0.1:18700 --strict-order", in: temporary.path)
        let asking = [("Origin", Self.app), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
        for _ in 0..<2 { #expect(try replay.request("OPTIONS", "/login", asking).status / 100 == 2) }
        let json = [("Content-Type", "application/json")]
        #expect(try replay.request("POST", "/login", json, content: #"{"user":"ada","password":"secret-word"}"#).status == 200)
        #expect(try replay.get("/search").status == 404)
        #expect(try replay.get("/users").status == 200)
    }

    @Test("an import stores cacheable responses and counts the rest", arguments: recorders)
    func importing(_ recorder: Recorder) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let tool = CommandLineTool(play: play)
        let outcome = try tool.run("import \(recorder.file) --origin http://127.0.0.1:18700")
        #expect(
            outcome.status == 0 && outcome.lines.first?.hasPrefix("\(recorder.stored) of ") == true, "\(recorder.name): \(outcome.text)")
        play.origin.down()
        let origin = recorder.isOfABrowser ? [("Origin", Self.app)] : []
        #expect(try play.get("/users", origin).text.contains("Ada Löwe 19"))
    }
}
