// Tests of recording and replay with the real binary: recorded responses are served without an upstream.

import CacheStore
import Glibc
import Reactor
import TestSupport
import Testing

@Suite("record and replay", .slow, .play)
struct RecordTests {
    private let temporary = TestTools.temporaryDirectory()
    private var har: String { temporary.path + "/api.har" }
    private static let isJSON = ("Content-Type", "application/json")

    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            switch request.target {
            case "/login": [.json("{\"access_token\":\"tell-nobody\",\"name\":\"Ada\"}", ["Set-Cookie: sid=tell-nobody; Path=/"])]
            case "/missing": [.json("{\"error\":1}", status: "404 Not Found")]
            case "/image":
                [.sendBytes(Array("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\n".utf8) + [0xff, 0, 0xfe])]
            case "/moved": [.answer("", type: "text/plain", status: "302 Found", ["Location: http://\(request["Host"] ?? "")/users"])]
            case "/cut": [.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), .cut]
            default: [.json("{\"target\":\"\(request.method) \(request.target.prefix { $0 != "?" })\"}")]
            }
        }
    }

    private func text(_ path: String) throws -> String { String(decoding: try #require(FileContent.read(path)), as: UTF8.self) }

    @Test("recorded exchanges of all methods and statuses are replayed without upstream and secrets, for any credentials")
    func roundTrip() throws {
        let origin = Self.origin()
        let adminPort = TestTools.freePort()
        let record = try RunningCommand(
            "record --upstream http://127.0.0.1:\(origin.port) --har \(har) --secret pet --admin-listen 127.0.0.1:\(adminPort)",
            in: temporary.path)
        let login = #"{"user":"ada","password":"tell-nobody"}"#
        #expect(try record.request("POST", "/login", [Self.isJSON], content: login).text.contains("tell-nobody"))
        #expect(try record.get("/me?api_key=tell-nobody&pet=tell-nobody", [("Authorization", "Bearer tell-nobody")]).status == 200)
        #expect(try record.get("/missing").status == 404)
        #expect(try record.get("/image").content == [0xff, 0, 0xfe])
        #expect(try record.get("/moved")["Location"] == "/users")
        for target in ["/users", "/users"] { #expect(try record.request("DELETE", target).status == 200) }
        #expect(try record.get("/cut").isComplete == false)
        let metrics = try #require(try TestClient(port: adminPort).get("/metrics")).text
        for line in ["recorded\"} 7", "broken_off\"} 1", "no_room\"} 0"] {
            #expect(metrics.contains("cistern_recorded_exchanges_total{result=\"\(line)\n"))
        }
        let recorded = record.stop(SIGINT)
        let summary = "7 exchanges recorded; omitted: 1 because the response was truncated, or the client disconnected before its end"
        #expect(recorded.status == 0 && recorded.text.contains(summary))
        let archive = try text(har)
        #expect(!archive.contains("tell-nobody") && archive.contains(#"{\"access_token\":\"REDACTED\",\"name\":\"Ada\"}"#))
        origin.down()

        let replay = try RunningCommand("replay \(har)", in: temporary.path)
        let another = #"{"password":"another","user":"ada"}"#
        let token = try replay.request("POST", "/login", [Self.isJSON], content: another)
        #expect(token.text == #"{"access_token":"REDACTED","name":"Ada"}"# && token["Set-Cookie"] == "sid=REDACTED; Path=/")
        #expect(try replay.get("/me?pet=b&api_key=a", [("Authorization", "Bearer REDACTED")]).text == "{\"target\":\"GET /me\"}")
        #expect(try replay.get("/missing").text == "{\"error\":1}")
        let image = try replay.get("/image")
        #expect(image.content == [0xff, 0, 0xfe] && image["Content-Type"] == "image/png")
        #expect(try replay.get("/moved")["Location"] == "/users")
        let unknown = try replay.get("/mee")
        #expect(
            unknown.status == 404 && unknown.text.hasPrefix("GET /mee was not recorded. The most similar recorded requests are GET /me"))
        let problem = try replay.get("/mee", [("Accept", "application/json")])
        #expect(problem["Content-Type"] == "application/problem+json" && problem.text.contains("\"nearest\""))
        let replayed = replay.stop()
        #expect(replayed.status == 2 && replayed.text.contains("5 requests served, 2 without a recorded response"))
    }

    @Test("strict and once replays reject unexpected requests, and deviations set the exit code")
    func orders() throws {
        let origin = Self.origin()
        let record = try RunningCommand("record --upstream http://127.0.0.1:\(origin.port) --har \(har)", in: temporary.path)
        for target in ["/a", "/b"] { _ = try record.get(target) }
        #expect(record.stop().status == 0)
        let strict = try RunningCommand("replay \(har) --strict-order", in: temporary.path)
        #expect(try strict.get("/b").text.contains("the next request must be GET /a, number 1 of 2"))
        for target in ["/a", "/b"] { #expect(try strict.get(target).status == 200) }
        #expect(strict.stop().status == 2)
        let short = try RunningCommand("replay \(har) --strict-order --delay recorded", in: temporary.path)
        #expect(try short.get("/a").status == 200)
        let stopped = short.stop()
        #expect(stopped.status == 2 && stopped.text.contains("1 recorded response was never requested"))
        let once = try RunningCommand("replay \(har) --once", in: temporary.path)
        #expect(try once.get("/a").status == 200)
        #expect(once.stop().status == 0)
    }

    @Test("a recording without exchanges does not overwrite an existing file")
    func nothing() throws {
        let origin = Self.origin()
        try TestTools.write("older", to: har)
        let record = try RunningCommand("record --upstream http://127.0.0.1:\(origin.port) --har \(har)", in: temporary.path)
        let outcome = record.stop()
        #expect(outcome.status == 1 && outcome.text.contains("0 exchanges recorded: \(har) is not written"))
        #expect(try text(har) == "older")
    }

    @Test(
        "an invalid archive is reported in one sentence with the position",
        arguments: [
            ("{\"log\":\n tru}", "it is not JSON: line 2, column 5"), ("{}", "log.entries is missing or not a list"),
            ("", "line 1, column 1"),
            ("{\"log\":{\"entries\":[\n{}]}}", "log.entries[0], line 2: request is missing"),
            ("{\"log\":{\"entries\":[7]}}", "log.entries[0], line 1: request is missing"),
            ("{\"log\":{\"entries\":[]}}", "it contains no response that can be served"),
            (
                #"{"log":{"entries":[{"request":{"method":"GET","url":"http://a/"},"response":{"status":0}}]}}"#,
                "omitted: 1 because the request got no response (status 0)"
            ),
        ])
    func broken(archive: String, sentence: String) throws {
        try TestTools.write(archive, to: har)
        let outcome = try CommandLineTool.run("replay \(har) --listen 127.0.0.1:0")
        #expect(outcome.status == 1 && outcome.lines.count == 1)
        #expect(outcome.text.hasPrefix("cistern: \(har): ") && outcome.text.contains(sentence))
    }

    @Test(
        "record and replay report why they cannot start",
        arguments: [
            ("replay /none.har", 1, "/none.har: No such file or directory"),
            ("replay \(#filePath) --listen x", 1, "--listen: \"x\" is not an address"),
            ("record --har /none/x.har --upstream http://127.0.0.1:1", 1, "/none/x.har: No such file or directory"),
            ("record --har x.har", 78, "upstream.url is missing"), ("record --upstream http://127.0.0.1:1", 64, "--har"),
        ])
    func refused(arguments: String, status: Int32, sentence: String) throws {
        let outcome = try CommandLineTool.run(arguments)
        #expect(outcome.status == status && outcome.text.contains(sentence))
    }
}
