// Plays of `replay --capture-missing`, with the real binary: archives that change meanwhile, files that cannot be written, clients that
// leave, and responses that cannot be captured.

import CacheStore
import Glibc
import JSON
import TestSupport
import Testing

@Suite("replay --capture-missing", .slow, .play)
struct CapturePlays {
    private let temporary = TestTools.temporaryDirectory()
    private let other = TestTools.temporaryDirectory()
    private var har: String { temporary.path + "/api.har" }

    private func write(_ urls: [String], more: String = "") throws {
        let entries = urls.map { "{\"request\":{\"method\":\"GET\",\"url\":\"\($0)\"},\"response\":{\"status\":200}}" }
        try TestTools.write("{\"log\":{\(more)\"entries\":[\(entries.joined(separator: ","))]}}", to: har)
    }

    private func urls() throws -> [String] {
        let archive = try #require(JSONValue(try TestTools.readBytes(har)))
        return (archive["log"]?["entries"]?.array ?? []).map { $0["request"]?["url"]?.string ?? "" }
    }

    private func capture(from origin: ScriptedOrigin, _ options: String = "", in directory: String? = nil) throws -> RunningCommand {
        try RunningCommand(
            "replay \(har) --capture-missing http://127.0.0.1:\(origin.port)\(options)", in: directory ?? temporary.path)
    }

    @Test("edits of the archive and captures of another replay are kept, also behind a symbolic link, with the mode of the file")
    func concurrent() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        try write(["http://a.test/a"])
        let real = other.path + "/real.har"
        #expect(rename(har, real) == 0 && symlink(real, har) == 0 && chmod(real, 0o644) == 0)
        let (one, two) = (try capture(from: origin), try capture(from: origin, in: other.path))
        #expect(try one.get("/b").status == 200)
        #expect(try two.get("/c").status == 200)
        #expect(one.stop().status == 0 && two.stop().status == 0)
        #expect(try urls() == ["a", "b", "c"].map { "http://a.test/\($0)" })
        var status = stat()
        #expect(lstat(har, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
        #expect(stat(real, &status) == 0 && status.st_mode & 0o777 == 0o644)
    }

    @Test("if the archive becomes invalid meanwhile, captured exchanges are written to another file")
    func invalid() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        try write(["http://a.test/a"])
        let replay = try capture(from: origin)
        #expect(try replay.get("/b").status == 200)
        try TestTools.write("{", to: har)
        let outcome = replay.stop()
        #expect(outcome.status == 1 && outcome.text.contains("the captured exchanges are in "))
        #expect(try TestTools.read(har) == "{")
        #expect(try TestTools.read(har + ".captured").contains("/b"))
    }

    @Test("a report that cannot be written does not lose captured exchanges")
    func noReport() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let reports = other.path + "/reports"
        #expect(mkdir(reports, 0o700) == 0)
        let replay = try capture(from: origin, " --report \(reports)/report.json")
        #expect(try replay.get("/b").status == 200)
        #expect(rename(reports, other.path + "/moved") == 0)
        let outcome = replay.stop()
        #expect(outcome.status == 1 && outcome.text.contains("1 exchanges added") && outcome.text.contains("report.json"))
        #expect(try urls() == ["http://127.0.0.1:\(origin.port)/b"])
    }

    @Test("a response that cannot be captured is sent if it is complete for the client, and is reported with the reason")
    func notCaptured() throws {
        let origin = ScriptedOrigin { request in
            guard request.target == "/cut" else { return [.answer("data: 1\n\n", type: "text/event-stream")] }
            return [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":"), .close]
        }
        let report = temporary.path + "/report.json"
        let replay = try capture(from: origin, " --report \(report)")
        let cut = try replay.get("/cut")
        #expect(cut.status == 200 && cut.text == "{\"a\":")
        let events = try replay.get("/events")
        #expect(events.status == 404 && events.text.contains("An event stream cannot be captured."))
        let outcome = replay.stop()
        #expect(outcome.status == 2 && outcome.text.contains("(not recorded; not captured: The connection ended within the JSON content"))
        let missed = try #require(JSONValue(try TestTools.readBytes(report))?["without_response"]?.array)
        #expect(missed.count == 2 && missed.allSatisfy { $0["not_captured"]?.string?.isEmpty == false })
        #expect(access(har, F_OK) != 0)
    }

    @Test("fields and members that the recording redacted are redacted in captures, too")
    func secrets() throws {
        let origin = ScriptedOrigin { _ in [.json(#"{"iban":"tell-nobody"}"#, ["X-Customer: tell-nobody"])] }
        let record = try RunningCommand(
            "record --upstream http://127.0.0.1:\(origin.port) --har \(har) --secret iban --secret x-customer", in: temporary.path)
        #expect(try record.get("/a").status == 200)
        #expect(record.stop().status == 0)
        let replay = try capture(from: origin)
        #expect(try replay.request("GET", "/b", [("X-Customer", "tell-nobody")]).text.contains("tell-nobody"))
        #expect(replay.stop().status == 0)
        let archive = try TestTools.read(har)
        #expect(archive.contains("/b") && !archive.contains("tell-nobody"))
    }

    @Test("a request whose client has left is reported")
    func clientLeft() throws {
        let origin = ScriptedOrigin { _ in [.hang] }
        let replay = try capture(from: origin)
        do {
            let client = try TestClient(port: replay.port)
            client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            #expect(origin.waitForRequests(1))
        }
        let outcome = replay.stop()
        #expect(outcome.status == 2 && outcome.text.contains("  1 × POST /b (not recorded; not captured: The replay stopped before"))
        origin.down()
    }

    @Test("concurrent equal requests are captured once if they are safe")
    func equal() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("{}")] }
        let replay = try capture(from: origin)
        let clients = try (0..<4).map { _ in try TestClient(port: replay.port) }
        for (number, client) in clients.enumerated() {
            client.send("\(number < 2 ? "GET" : "POST") /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        }
        #expect(origin.waitForRequests(4))
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "{}") }
        let outcome = replay.stop()
        #expect(outcome.status == 0 && outcome.text.contains("3 exchanges added"))
    }

    @Test(
        "captured exchanges match in later replays, whatever upstream the archive names",
        arguments: ["", "\"_cistern\":{\"upstream\":\"ftp://a.test\"},", "\"_cistern\":{\"upstream\":\"http://a.test/\"},"])
    func base(more: String) throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        try write(["http://a.test/a"], more: more)
        let replay = try capture(from: origin, "/v1")
        #expect(try replay.get("/b").status == 200)
        #expect(replay.stop().status == 0 && origin.requests.map(\.target) == ["/v1/b"])
        #expect(try urls() == ["http://a.test/a", "http://a.test/b"])
        try checkStrict(["/a", "/b"])
    }

    @Test("the captures of an archive without usable entries, and of a new archive, match in later replays")
    func newBase() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        for entries in ["{\"request\":{\"method\":\"GET\",\"url\":\"http://a.test/a\"},\"response\":{\"status\":0}}", ""] {
            try TestTools.write("{\"log\":{\"entries\":[\(entries)]}}", to: har)
            let replay = try capture(from: origin, "/v1")
            #expect(try replay.get("/b").status == 200)
            #expect(replay.stop().status == 0)
            try checkStrict(["/b"])
        }
    }

    private func checkStrict(_ targets: [String]) throws {
        let later = try RunningCommand("replay \(har) --strict", in: temporary.path)
        for target in targets { #expect(try later.get(target).status == 200) }
        #expect(later.stop().status == 0)
    }
}
