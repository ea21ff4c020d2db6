// Plays of replays for tests, with the real binary: ignored and echoed values, moved dates, captured requests, reports, and filters.

import CacheStore
import Glibc
import HTTPCore
import JSON
import TestSupport
import Testing

@Suite("replay for tests", .slow, .play)
struct ReplayPlays {
    private let temporary = TestTools.temporaryDirectory()
    private var har: String { temporary.path + "/api.har" }
    private static let json = [("Content-Type", "application/json")]

    /// Repeats the request ID of the content.
    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let id = JSONValue(request.content)?["requestId"]?.string ?? "none"
            let path = request.target.prefix { $0 != "?" }
            return [.json("{\"target\":\"\(path)\",\"requestId\":\"\(id)\",\"access_token\":\"tell-nobody\"}", ["ETag: \"a\""])]
        }
    }

    private func record(_ origin: ScriptedOrigin, _ options: String = "", _ send: (RunningCommand) throws -> Void) throws -> String {
        let record = try RunningCommand("record --upstream http://127.0.0.1:\(origin.port) --har \(har) \(options)", in: temporary.path)
        try send(record)
        let outcome = record.stop()
        #expect(outcome.status == 0)
        return outcome.text
    }

    private func requests(of file: String) throws -> [String] {
        let archive = try #require(JSONValue(try TestTools.readBytes(file)))
        return (archive["log"]?["entries"]?.array ?? []).map { $0["request"]?["url"]?.string ?? "" }
    }

    @Test("a test with new identifiers in each run is replayed, and the report names what does not match")
    func ignored() throws {
        let origin = Self.origin()
        _ = try record(origin) { record throws in
            #expect(try record.request("POST", "/pay", Self.json, content: #"{"requestId":"r1","amount":5}"#).status == 200)
            for target in ["/items?nonce=1&page=2", "/never"] { #expect(try record.get(target).status == 200) }
        }
        origin.down()
        let report = temporary.path + "/report.json"
        let replay = try RunningCommand("replay \(har) --ignore arguments=nonce --echo /requestId --report \(report)", in: temporary.path)
        let paid = try replay.request("POST", "/pay", Self.json, content: #"{"amount":5,"requestId":"a longer ID"}"#)
        #expect(paid.text == #"{"target":"/pay","requestId":"a longer ID","access_token":"REDACTED"}"#)
        #expect(paid["ETag"] == "W/\"a\"" && paid.isComplete)
        #expect(try replay.get("/items?page=2&nonce=77").status == 200)
        #expect(try replay.get("/items?page=3&nonce=77").status == 404)
        let other = try replay.request("POST", "/pay", Self.json, content: #"{"amount":6,"requestId":"r1"}"#)
        #expect(other.status == 404 && other.text.contains("was recorded, but with other content. It differs at /amount. "))
        let outcome = replay.stop()
        #expect(outcome.status == 2 && outcome.text.contains("2 requests served, 2 without a recorded response, 1 recorded response was"))
        #expect(outcome.text.contains("  1 × POST /pay (other content; POST /pay differs in its content at /amount)"))
        #expect(outcome.text.hasSuffix("Never requested:\n  GET /never\n"))
        let read = try #require(JSONValue(try TestTools.readBytes(report)))
        let missed = try #require(read["without_response"]?.array)
        #expect(missed.map { $0["target"]?.string } == ["/items?page=3&nonce=77", "/pay"])
        #expect(read["never_requested"]?.array?.first?["target"]?.string == "/never")
    }

    @Test("with --strict, recorded responses that were never requested set the exit code; a failed command's exit code takes precedence")
    func strict() throws {
        _ = try record(Self.origin()) { _ = try $0.get("/a") }
        let rows = [
            ("", 0), ("--strict", 2), ("--strict-order", 2), ("--strict -- sh -c 'exit 7'", 7), ("-- true", 0), ("--strict -- true", 2),
            ("-- sh -c 'curl -s $API_URL/b'", 2), ("--allow-missing -- sh -c 'curl -s $API_URL/b'", 0),
            ("--strict --allow-missing -- sh -c 'curl -s $API_URL/b'", 2),
        ]
        for (options, status) in rows {
            let outcome =
                options.contains("--") && options.contains("-- ")
                ? try CommandLineTool.run("replay \(har) \(options)").status
                : try RunningCommand("replay \(har) \(options)", in: temporary.path).stop().status
            #expect(outcome == Int32(status), "\(options)")
        }
    }

    @Test("dates move by the age of the recording, and differences between them stay")
    func dates() throws {
        let entry = { (minute: Int) in
            """
            {"startedDateTime":"2020-01-01T00:0\(minute):00Z","time":1,"request":{"method":"GET","url":"http://a/\(minute)","headers":[]},
             "response":{"status":200,"headers":[{"name":"Content-Type","value":"application/json"},
             {"name":"Last-Modified","value":"Wed, 01 Jan 2020 00:0\(minute):00 GMT"}],
             "content":{"text":"{\\"at\\":\\"2020-01-01T00:0\(minute):00.5Z\\"}"}}}
            """
        }
        try TestTools.write("{\"log\":{\"entries\":[\(entry(0)),\(entry(3))]}}", to: har)
        let replay = try RunningCommand("replay \(har) --shift-dates", in: temporary.path)
        let times = try ["/0", "/3"].map { target in
            let response = try replay.get(target)
            let content = try #require(JSONValue(response.content)?["at"]?.string)
            let field = try #require(response["Last-Modified"].flatMap { HTTPDate.parse(Array($0.utf8)[...], now: 0) })
            let time = try #require(RFC3339.parse(content))
            #expect(time == field * 1_000 + 500 && content.hasSuffix(".5Z"))
            return time
        }
        #expect(times[1] - times[0] == 180_000 && times[0] > 1_700_000_000_000)
        #expect(replay.stop().status == 0)
        try TestTools.write("{\"log\":{\"entries\":[\(entry(0).replacing("startedDateTime", with: "x"))]}}", to: har)
        let undated = try CommandLineTool.run("replay \(har) --shift-dates")
        #expect(undated.status == 1 && undated.text.contains("no entry has a valid startedDateTime, which --shift-dates needs"))
    }

    @Test("requests that were not recorded are captured from the one upstream, replayed, and added to the archive without secrets")
    func captured() throws {
        let origin = Self.origin()
        _ = try record(origin) { _ = try $0.get("/a") }
        let capture = "replay \(har) --capture-missing http://127.0.0.1:\(origin.port)"
        let replay = try RunningCommand(capture, in: temporary.path)
        #expect(try replay.get("/a").status == 200)
        #expect(origin.requests.count == 1)
        // The first response is the upstream's. Later ones are those of the archive.
        for token in ["tell-nobody", "REDACTED", "REDACTED"] { #expect(try replay.get("/b?token=mine").text.contains(token)) }
        let content = #"{"requestId":"r9","password":"tell-nobody"}"#
        for _ in 0..<2 { #expect(try replay.request("POST", "/c", Self.json, content: content).text.contains("\"r9\"")) }
        // Neither the target nor Host selects another upstream.
        #expect(try replay.request("GET", "http://other.test:9/d", [("Host", "other.test:9")]).status == 200)
        #expect(try replay.get("//other.test/e", [("X-Forwarded-Host", "other.test")]).status == 200)
        let sent = origin.requests.dropFirst()
        #expect(sent.map(\.target) == ["/b?token=mine", "/c", "/d", "//other.test/e"])
        #expect(sent.allSatisfy { $0["Host"] == "127.0.0.1:\(origin.port)" && $0["X-Forwarded-Host"] == nil })
        #expect(try replay.request("TRACE", "/a").text.contains("TRACE is refused"))
        let outcome = replay.stop()
        #expect(outcome.status == 2 && outcome.text.contains("4 exchanges added to \(har)"))
        #expect(outcome.text.contains("4 captured, 1 without a recorded response"))
        let archive = String(decoding: try TestTools.readBytes(har), as: UTF8.self)
        #expect(!archive.contains("tell-nobody") && !archive.contains("=mine"))
        origin.down()

        let later = try RunningCommand("replay \(har) --strict", in: temporary.path)
        for target in ["/a", "/b?token=any", "/d", "//other.test/e"] { #expect(try later.get(target).status == 200) }
        #expect(try later.request("POST", "/c", Self.json, content: content).text.contains("\"r9\""))
        #expect(later.stop().status == 0)
    }

    @Test("captured exchanges get the base URL of the recording, so that one replay serves both")
    func otherUpstream() throws {
        let (recorded, staging) = (Self.origin(), Self.origin())
        _ = try record(recorded) { _ = try $0.get("/a") }
        staging.react { _ in [.answer("", type: "text/plain", status: "302 Found", ["Location: http://127.0.0.1:\(staging.port)/a"])] }
        let replay = try RunningCommand("replay \(har) --capture-missing http://127.0.0.1:\(staging.port)", in: temporary.path)
        for _ in 0..<2 { #expect(try replay.get("/moved")["Location"] == "/a") }
        #expect(replay.stop().status == 0 && staging.requests.count == 1)
        #expect(try requests(of: har) == ["/a", "/moved"].map { "http://127.0.0.1:\(recorded.port)\($0)" })
        let later = try RunningCommand("replay \(har) --strict", in: temporary.path)
        #expect(try later.get("/a").status == 200)
        #expect(try later.get("/moved")["Location"] == "/a")
        #expect(later.stop().status == 0)
    }

    @Test("without an archive, the first capture writes one; a failing or slow upstream affects only the requests to it")
    func upstreamDown() throws {
        let origin = Self.origin()
        let replay = try RunningCommand("replay \(har) --capture-missing http://127.0.0.1:\(origin.port)", in: temporary.path)
        #expect(try replay.get("/a").status == 200)
        origin.down()
        let refused = try replay.get("/b")
        #expect(refused.status == 404)
        let sentence = "GET /b was not recorded. The most similar recorded request is GET /a. The upstream sent no complete response: "
        #expect(refused.text.contains(sentence))
        #expect(refused.text.contains("connection_refused"))
        origin.up()
        origin.react { _ in [.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), .cut] }
        #expect(try replay.get("/b").text.contains("The upstream sent no complete response"))
        let gate = Gate()
        origin.react { _ in [.pass(gate), .json("{\"b\":1}")] }
        let slow = try TestClient(port: replay.port)
        slow.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(origin.waitForRequests(3))
        // Recorded responses do not wait for the upstream.
        #expect(try replay.get("/a").status == 200)
        gate.open()
        #expect(slow.readResponse()?.text == "{\"b\":1}")
        // A replay that stops does not wait for the upstream.
        origin.react { _ in [.hang] }
        let waiting = try TestClient(port: replay.port)
        waiting.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(origin.waitForRequests(4))
        let outcome = replay.stop()
        #expect(outcome.status == 2 && outcome.text.contains("2 exchanges added") && outcome.text.contains("  2 × GET /b (not recorded"))
        #expect(try requests(of: har) == ["/a", "/b"].map { "http://127.0.0.1:\(origin.port)\($0)" })
        let later = try RunningCommand("replay \(har) --strict", in: temporary.path)
        for target in ["/a", "/b"] { #expect(try later.get(target).status == 200) }
        #expect(later.stop().status == 0)
    }

    @Test("an upstream that forwards to the replay is recognized")
    func loop() throws {
        let port = TestTools.freePort()
        try TestTools.write("{\"log\":{\"entries\":[]}}", to: har)
        let outcome = try CommandLineTool.run(
            "replay \(har) --capture-missing http://127.0.0.1:\(port) --listen 127.0.0.1:\(port) -- sh -c 'curl -s $API_URL/a'")
        #expect(outcome.status == 2 && outcome.text.contains("The request has returned to this proxy"))
    }

    @Test("only selected requests are recorded")
    func filters() throws {
        let origin = Self.origin()
        let text = try record(origin, "--only /orders/** --except /orders/health --methods get,post") { record throws in
            for target in ["/orders/1", "/orders/health", "/users"] { #expect(try record.get(target).status == 200) }
            #expect(try record.request("DELETE", "/orders/1").status == 200)
        }
        #expect(text.contains("1 exchanges recorded; omitted: 3 because the filters exclude the request"))
        #expect(try requests(of: har) == ["http://127.0.0.1:\(origin.port)/orders/1"])
    }

    @Test(
        "wrong values are reported in a sentence",
        arguments: [
            ("replay x --ignore nonce", 64, "--ignore nonce: give arguments=NAME,NAME"),
            ("replay x --ignore body=a", 64, "--ignore body=a is not a JSON pointer"), ("replay x --echo /~", 64, "--echo /~ is not"),
            ("replay x --shift-epoch /a", 64, "--shift-epoch needs --shift-dates"),
            ("replay x --echo '*'", 64, "--echo *: give a JSON pointer"),
            ("replay x --with-secrets", 64, "--with-secrets needs --capture-missing"),
            ("replay x --report ./x", 64, "--report must not be the archive"),
            ("replay x --capture-missing api.example.com", 64, "--capture-missing has no scheme"),
            ("replay x --capture-missing http://a --once", 64, "--capture-missing is not possible with --once"),
            ("replay \(#filePath).none --ignore arguments=a", 1, "No such file"),
            ("record --har x --upstream http://a --only a", 64, "--only a: the path must begin with /"),
            ("record --har x --upstream http://a --methods ,", 64, "--methods ,: give names"),
        ])
    func mistakes(arguments: String, status: Int32, sentence: String) throws {
        let outcome = try CommandLineTool.run(arguments)
        #expect(outcome.status == status && outcome.text.contains(sentence), "\(outcome)")
    }

    @Test("a report that cannot be written is noticed at the start")
    func noReport() throws {
        _ = try record(Self.origin()) { _ = try $0.get("/a") }
        let outcome = try CommandLineTool.run("replay \(har) --report /none/report.json")
        #expect(outcome.status == 1 && outcome.text.contains("/none/report.json: No such file or directory"))
    }
}
