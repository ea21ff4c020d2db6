// Tests `cistern import` with archives whose recorder removed credentials.

import TestSupport
import Testing

@Suite("Import of archives without credentials", .play)
struct SanitizedArchiveTests {
    private static func entry(_ target: String, _ port: UInt16, _ request: String = "") -> String {
        """
        {"request": {"method": "GET", "url": "http://127.0.0.1:\(port)\(target)", "headers": []\(request)},
         "response": {"status": 200, "headers": [{"name": "Content-Type", "value": "application/json"}], "content": {"text": "1"}}}
        """
    }

    private static func run(
        _ play: ProxyPlay, _ entries: [String], creator: String = "WebInspector", _ options: String = ""
    ) throws -> String {
        let file = play.directory + "/import.har"
        try TestTools.write(
            "{\"log\": {\"creator\": {\"name\": \"\(creator)\"}, \"entries\": [\(entries.joined(separator: ","))]}}", to: file)
        let outcome = try CommandLineTool(play: play).run("import \(file) \(options)")
        #expect(outcome.status == 0)
        return outcome.text
    }

    @Test("an import warns if a browser's archive has no credentials at all")
    func warning() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let port = play.origin.port
        let plain = Self.entry("/a", port)
        let warned = try Self.run(play, [plain])
        #expect(warned.hasPrefix("1 of 1 responses stored\n") && warned.contains("warning: no request has a Cookie or Authorization field"))
        let cookie = Self.entry("/b", port, #", "cookies": [{"name": "sid", "value": "1"}]"#)
        let signedIn = """
            {"request": {"method": "GET", "url": "http://a/", "headers": [{"name": "authorization", "value": "x"}]},
             "response": {"status": 200}}
            """
        for (entries, creator, options) in [
            ([plain, cookie], "WebInspector", ""), ([plain, signedIn], "WebInspector", ""), ([plain], "Firefox", ""),
            ([plain], "WebInspector", "--shared"), ([Self.entry("/c", 1)], "WebInspector", ""),
        ] {
            #expect(try !Self.run(play, entries, creator: creator, options).contains("warning"), "\(creator) \(options)")
        }
    }

    @Test("a response to a request with cookies in request.cookies only is not served to others")
    func cookies() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\"fetched\"")] })
        let cookie = #", "cookies": [{"name": "sid", "value": "abc"}, {"name": "theme", "value": "dark"}]"#
        let unreadable = Self.entry("/lost", play.origin.port, #", "cookies": [{"name": "sid"}]"#)
        let text = try Self.run(play, [Self.entry("/me", play.origin.port, cookie), unreadable])
        #expect(text == "1 of 2 responses stored\n  1 omitted: redacted\n", "\(text)")
        play.origin.down()
        #expect(try play.get("/me").status == 502 && play.get("/me", [("Cookie", "sid=other")]).status == 502)
        #expect(try play.get("/me", [("Cookie", "theme=dark; sid=abc")]).text == "1")
        #expect(try play.get("/lost").status == 502)
    }
}
