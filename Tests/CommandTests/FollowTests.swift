// Tests of `cistern why --follow` with the real binary: exchanges are printed as they occur.

import Glibc
import TestSupport
import Testing

/// A running command whose output is read line by line.
private final class ReadCommand {
    private let pipe: UnsafeMutablePointer<FILE>

    init(_ arguments: String) throws {
        // Ends on its own if a test is broken.
        guard let pipe = popen("timeout 60 \(CommandLineTool.path) \(arguments) 2>&1", "re") else { throw CommandLineTool.NotRun() }
        self.pipe = pipe
    }

    /// The next line; nil at the end.
    func line() -> String? {
        var line = [CChar](repeating: 0, count: 1 << 16)
        guard fgets(&line, Int32(line.count), pipe) != nil else { return nil }
        return String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: "\n").first.map(
            String.init) ?? ""
    }

    /// The next line that contains a text; nil at the end.
    func line(with text: String) -> String? {
        while let line = line() { if line.contains(text) { return line } }
        return nil
    }

    /// Stops reading, and waits for the command.
    func leave() -> Int32 { pclose(pipe) }
}

@Suite("why --follow", .slow, .play)
struct FollowTests {
    private let play: ProxyPlay

    init() throws {
        play = try ProxyPlay(
            ScriptedOrigin { request in
                request.target.hasPrefix("/bad") ? [.json("{}", status: "500 Oh")] : [.json("{}", ["Cache-Control: max-age=60"])]
            })
    }

    private func follow(_ options: String) throws -> ReadCommand {
        try ReadCommand("why --follow \(options) --admin unix:\(play.adminSocket)")
    }

    @Test("follow prints the last exchanges oldest first, then each new exchange once")
    func order() throws {
        for target in ["/1", "/2", "/3"] { _ = try play.get(target) }
        let following = try follow("--last 2")
        for target in ["/2", "/3"] { #expect(following.line(with: "GET ")?.contains("GET \(target)  200 miss") == true) }
        for target in ["/4", "/4", "/5"] {
            _ = try play.get(target)
            #expect(following.line(with: "GET ")?.contains("GET \(target)  200 ") == true)
        }
        // A closed output ends the command even without new exchanges.
        _ = following.leave()
    }

    @Test("filters also apply to new exchanges")
    func filters() throws {
        for target in ["/good", "/bad/1", "/good", "/good/2", "/bad/2"] { _ = try play.get(target) }
        let following = try follow("--status 5xx --path /bad --result miss,error --reason nothing_stored --slower 0")
        for target in ["/bad/1", "/bad/2"] { #expect(following.line(with: "GET ")?.contains("GET \(target)  500 miss") == true) }
        _ = try play.get("/good/3")
        _ = try play.get("/bad/last")
        #expect(following.line(with: "GET ")?.contains("GET /bad/last  500 miss") == true)
        _ = following.leave()
    }

    @Test("with --json each exchange is one line")
    func lines() throws {
        _ = try play.get("/1")
        let following = try follow("--json --last 1")
        #expect(following.line()?.contains("\"target\":\"/1\"") == true)
        _ = try play.get("/2")
        #expect(following.line().map { $0.hasPrefix("{") && $0.hasSuffix("}") && $0.contains("\"target\":\"/2\"") } == true)
        _ = following.leave()
    }

    @Test("following ends with a message and exit code 1 when Cistern stops")
    func end() throws {
        _ = try play.get("/1")
        let following = try follow("--last 1")
        #expect(following.line(with: "/1") != nil)
        play.stop()
        #expect(following.line(with: "no Cistern responds") != nil)
        #expect(following.leave() >> 8 == 1)
    }

    @Test("filters work without --follow, and invalid filters are rejected")
    func once() throws {
        let tool = CommandLineTool(play: play)
        for target in ["/1", "/bad/1", "/1"] { _ = try play.get(target) }
        #expect(try tool.run("why --result hit").lines.filter { $0.contains("GET ") }.count == 1)
        #expect(try tool.run("why --status 500").text.contains("GET /bad/1"))
        let rows: [(arguments: String, status: Int32, text: String)] = [
            ("why --status 404", 1, "no such exchange is recorded"), ("why --reason nostore", 1, "No reason is called"),
            ("why --result fine", 1, "result must be"), ("why --status 5", 1, "status must be"),
            ("why --slower soon", 64, "--slower must be"),
            ("why --last 0", 64, "--last must be"), ("why 0-1 --follow", 64, "Give either an ID or"),
            ("why 0-1 --status 200", 64, "Give either an ID or"),
        ]
        for row in rows {
            let outcome = try tool.run(row.arguments)
            #expect(outcome.status == row.status && outcome.text.contains(row.text), "\(row): \(outcome.text)")
        }
    }
}
