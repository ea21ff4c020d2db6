// Tests of an export whose admin interface, played by a script, ends or fails in the middle.

import CacheStore
import TestSupport
import Testing

@Suite("Failed exports", .play)
struct ExportFailureTests {
    private let temporary = TestTools.temporaryDirectory()

    private static let entry = #"""
        {"id":"ID","upstream":"http://api.test","upstream_target":"/ID","status":200,"requested_at":"2025-06-15T15:06:00Z",
         "stored_at":"2025-06-15T15:06:00Z","fields":[],"freshness":{}}
        """#
    private static let missing = OriginStep.answer(
        #"{"detail":"No response is stored under this id."}"#, type: "application/problem+json", status: "404 Not Found")

    /// Exports two responses into an existing file.
    /// - Parameters:
    ///   - path: where the interface performs the steps instead of its usual response.
    ///   - steps: steps before the end of the connection.
    private func export(_ path: String, _ steps: [OriginStep]) throws -> (outcome: CommandLineTool.Outcome, archive: String) {
        let interface = ScriptedOrigin(unixSocket: temporary.path + "/admin.sock") { request in
            let called = String(request.target.prefix { $0 != "?" })
            guard called != path else { return steps + [.close] }
            let id = called.contains("/one") ? "one" : "two"
            return switch called {
            case "/-/stats": [.json(#"{"version":"1"}"#), .close]
            case "/-/entries": [.json(#"{"entries":[{"id":"one"},{"id":"two"}],"next":null}"#), .close]
            case "/-/entries/\(id)": [.json(Self.entry.replacing("ID", with: id)), .close]
            default: [.answer("{}", type: "application/octet-stream"), .close]
            }
        }
        let file = temporary.path + "/kept.har"
        try TestTools.write("kept", to: file)
        let outcome = try CommandLineTool.run("export --har \(file) --admin unix:\(temporary.path)/admin.sock")
        #expect(!interface.requests.isEmpty)
        return (outcome, String(decoding: try TestTools.readBytes(file), as: UTF8.self))
    }

    @Test(
        "an export keeps the existing archive and ends with code 1 if a response is missing, cut or an error",
        arguments: ["/-/entries", "/-/entries/two", "/-/entries/two/content"],
        [
            ([], "did not send a valid HTTP response"),
            ([.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")], "closed the connection before the end of a response"),
            ([.json(#"{"detail":"The store is closed."}"#, status: "503 Service Unavailable")], "The store is closed."),
            // Not of Cistern, which describes its errors.
            ([.answer("", type: "text/plain", status: "404 Not Found")], "returned 404"),
        ] as [(steps: [OriginStep], sentence: String)])
    func failed(path: String, failure: (steps: [OriginStep], sentence: String)) throws {
        let (outcome, archive) = try export(path, failure.steps)
        #expect(outcome.status == 1 && outcome.text.contains(failure.sentence), "\(outcome)")
        #expect(archive == "kept")
    }

    @Test("a response that is removed during an export is omitted and counted", arguments: ["/-/entries/two", "/-/entries/two/content"])
    func removed(path: String) throws {
        let (outcome, archive) = try export(path, [Self.missing])
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.lines == ["1 responses written, 1 omitted:", "  1 removed during the export, or damaged on disk"])
        #expect(archive.contains("http://api.test/one") && !archive.contains("http://api.test/two"))
    }
}
