// Tests of `record … -- command` and `replay … -- command`, and of CORS in replays, with the real binary.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("record and replay with a command", .slow, .play, .enabled(if: TestTools.has("curl")))
struct ServedCommandTests {
    private let temporary = TestTools.temporaryDirectory()
    private var har: String { temporary.path + "/api.har" }

    private func record(_ script: String, _ options: String = "") throws -> CommandLineTool.Outcome {
        let origin = ScriptedOrigin { request in
            let allowed = request["Origin"].map { ["Access-Control-Allow-Origin: \($0)", "Vary: Origin"] } ?? []
            return [.json("{\"target\":\"\(request.target)\"}", allowed)]
        }
        return try CommandLineTool.run(
            "record --upstream http://127.0.0.1:\(origin.port) --har \(har) --log-level error \(options) -- sh -c '\(script)'")
    }

    @Test("the command gets the address in its environment, and its exit code is passed on")
    func exitCodes() throws {
        let recorded = try record("curl -s $BASE/users; exit 7", "--env BASE")
        #expect(recorded.status == 7 && recorded.text.hasPrefix("{\"target\":\"/users\"}1 exchanges recorded in \(har)"))
        let rows: [(options: String, script: String, status: Int32, text: String)] = [
            ("", "curl -s $API_URL/users", 0, "{\"target\":\"/users\"}1 request served, 0 without"),
            ("", "curl -s $API_URL/users; exit 3", 3, "1 request served, 0 without"),
            ("", "curl -s $API_URL/user", 2, "The most similar recorded request is GET /users."),
            // An unrecorded request fails the run unless the command fails.
            ("--once", "curl -s $API_URL/user", 2, "0 requests served, 1 without a recorded response"),
            ("--once", "curl -s $API_URL/user; exit 9", 9, "0 requests served, 1 without a recorded response"),
            ("--env BASE", "curl -s $BASE/users", 0, "{\"target\":\"/users\"}"),
            ("", "kill -9 $$", 137, "0 requests served"), ("", "kill -INT $$", 130, "0 requests served"),
            ("--env CISTERN_URL", "true", 64, "not begin with CISTERN_"), ("--env 1", "true", 64, "--env must be a name"),
        ]
        for row in rows {
            let outcome = try CommandLineTool.run("replay \(har) \(row.options) -- sh -c '\(row.script)'")
            #expect(outcome.status == row.status && outcome.text.contains(row.text), "\(row): \(outcome)")
        }
        let none = try CommandLineTool.run("replay \(har) -- cistern-test-no-such-program")
        #expect(none.status == 127 && none.text.contains("cistern: cistern-test-no-such-program: No such file or directory"))
    }

    @Test("if nothing was recorded, the exit code is that of the command, or else 1")
    func nothingRecorded() throws {
        #expect(try record("true").status == 1)
        let failed = try record("exit 6")
        #expect(failed.status == 6 && failed.text.contains("0 exchanges recorded: \(har) is not written"))
    }

    @Test("a signal is forwarded to the command, and the report is still printed")
    func signals() throws {
        #expect(try record("curl -s $API_URL/users").status == 0)
        let outcome = try CommandLineTool.run(
            "replay \(har) -- sh -c 'trap \"exit 5\" TERM; kill -TERM $PPID; while :; do :; done'")
        #expect(outcome.status == 5 && outcome.text.contains("0 requests served"))
    }

    @Test("scripts of a recorded origin can read error responses and get preflights allowed; other origins cannot")
    func recordedOrigin() throws {
        #expect(try record("curl -s -H Origin:http://app.test $API_URL/users").status == 0)
        let replay = try RunningCommand("replay \(har) --once", in: temporary.path)
        let asking = [("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "Authorization")]
        for (origin, allowed) in [("http://app.test", "http://app.test"), ("http://other.test", nil)] {
            let preflight = try replay.request("OPTIONS", "/users", [("Origin", origin)] + asking)
            #expect(preflight.status == (allowed == nil ? 404 : 200) && preflight["Access-Control-Allow-Origin"] == allowed)
            #expect(preflight["Access-Control-Allow-Methods"] == allowed.map { _ in "PUT" })
            #expect(preflight["Access-Control-Allow-Headers"] == allowed.map { _ in "authorization" })
            let unknown = try replay.get("/user", [("Origin", origin)])
            #expect(unknown.status == 404 && unknown["Access-Control-Allow-Origin"] == allowed && unknown["Vary"] == "Origin")
        }
        // A preflight does not count as a request.
        #expect(replay.stop().text.contains("0 requests served, 3 without a recorded response"))
    }

    @Test("--allow-origin gives another origin access, also to responses recorded for a different one")
    func givenOrigin() throws {
        #expect(try record("curl -s -H Origin:http://app.test $API_URL/users").status == 0)
        let replay = try RunningCommand("replay \(har) --allow-origin http://localhost:3000", in: temporary.path)
        for (origin, allowed) in [("http://localhost:3000", "http://localhost:3000"), ("http://app.test", nil)] {
            for target in ["/users", "/user"] {
                let response = try replay.get(target, [("Origin", origin)])
                #expect(response.status == (target == "/users" ? 200 : 404) && response["Access-Control-Allow-Origin"] == allowed)
            }
        }
        let asking = [("Origin", "http://localhost:3000"), ("Access-Control-Request-Method", "DELETE")]
        let preflight = try replay.request("OPTIONS", "/anything", asking)
        #expect(preflight.status == 200 && preflight["Access-Control-Allow-Methods"] == "DELETE")
        #expect(preflight["Access-Control-Allow-Credentials"] == "true")
        #expect(replay.stop().status == 2)
        let refused = try CommandLineTool.run("replay \(har) --allow-origin http://localhost:3000/")
        #expect(refused.status == 64 && refused.text.contains("is not an origin"))
    }
}
