// Tables of ignored parts, echoed values and moved dates.

import HTTPCore
import JSON
import TestSupport
import Testing

@testable import Archives

private let json = "Content-Type: application/json"
private let form = "Content-Type: application/x-www-form-urlencoded"

@Suite("Rules of a replay")
struct ReplayRulesTests {
    private static let secrets = SecretRedaction(fields: [])

    struct Row: CustomTestStringConvertible {
        let rules: [String]
        let recorded: [String]
        /// Requests in order, each with the number of its response; nil for none.
        let steps: [(request: String, number: Int?)]
        var vary = ""

        var testDescription: String { rules.joined(separator: " ") }
    }

    static let rows: [Row] = [
        Row(
            rules: ["arguments=nonce,ts"], recorded: ["GET /a?nonce=1&x=1", "GET /a?x=2"],
            steps: [("GET /a?x=1&ts=9;8%00", 0), ("GET /a?nonce=%zz&x=2", 1), ("GET /a?nonces=1&x=1", nil), ("GET /b?nonce=1", nil)]),
        Row(rules: ["arguments=*"], recorded: ["GET /a?x=1"], steps: [("GET /a?y=%3B", 0), ("GET /a", 0), ("POST /a", nil)]),
        Row(
            rules: ["arguments=nonce"], recorded: ["POST /a\n\(form)\n\nx=1&nonce=7"],
            steps: [
                ("POST /a\n\(form)\n\nnonce=8&x=1", 0), ("POST /a\n\(form)\n\nnonce=8&x=2", nil),
                ("POST /a\n\(form)\n\nx=1&nonce=a%3Bx=2;b", 0),
            ]),
        Row(
            rules: ["body=/requestId", "body=/items/0/at"],
            recorded: [
                "POST /a\n\(json)\n\n{\"requestId\":\"r1\",\"x\":1,\"items\":[{\"at\":5}]}",
                "POST /a\n\(json)\n\n{\"requestId\":\"r2\",\"x\":2,\"items\":[{\"at\":6}]}",
            ],
            steps: [
                ("POST /a\n\(json)\n\n{\"items\":[{\"at\":7}],\"x\":2,\"requestId\":[]}", 1),
                ("POST /a\n\(json)\n\n{\"x\":1,\"items\":[{}]}", 0), ("POST /a\n\(json)\n\n{\"x\":3,\"items\":[{}]}", nil),
                ("POST /a\n\(json)\n\n{\"requestId\":\"r1\"", nil),
            ]),
        Row(
            rules: ["body=*"], recorded: ["POST /a\n\(json)\n\n{\"a\":1}"],
            steps: [("POST /a\n\(json)\n\n{", 0), ("POST /a", 0), ("PUT /a", nil)]),
        Row(
            rules: ["body=/id"], recorded: ["POST /a\n\(json)\n\n{\"id\":1}", "POST /a\n\(json)\n\n{\"id\":2}"],
            steps: [("POST /a\n\(json)\n\n{\"id\":2}", 0), ("POST /a\n\(json)\n\n{\"id\":2}", 1), ("POST /a\n\(json)\n\n{\"id\":3}", 1)]),
        Row(
            rules: ["fields=Accept-Language,range"],
            recorded: ["GET /a\nAccept-Language: de", "GET /a\nAccept-Language: fr\nRange: bytes=0-1"],
            steps: [("GET /a\nAccept-Language: fr", 0), ("GET /a\nRange: bytes=5-6", 1)], vary: "Vary: Accept-Language"),
        Row(
            rules: ["fields=*"], recorded: ["GET /a\nAuthorization: Bearer REDACTED", "GET /a"],
            steps: [("GET /a", 0), ("GET /a\nAuthorization: Bearer x", 1)]),
        Row(rules: ["arguments=password"], recorded: ["GET /a?password=REDACTED"], steps: [("GET /a", 0)]),
    ]

    @Test("ignored parts are not compared, and equal requests keep their order", arguments: rows)
    func ignored(row: Row) throws {
        let rules = try ReplayRules(ignore: row.rules, echo: [])
        let vary = Spelt.fields(row.vary.isEmpty ? [] : [row.vary])
        var replay = Replay(row.recorded.map { (Spelt.request($0, Self.secrets, rules), vary) }, order: .repeating)
        for step in row.steps {
            let decision = replay.respond(to: Spelt.request(step.request, Self.secrets, rules))
            let number: Int? = if case .serve(let number) = decision { number } else { nil }
            #expect(number == step.number, "\(step)")
        }
    }

    @Test(
        "a wrong value gets a sentence",
        arguments: [
            (["nonce"], [], [], "--ignore nonce: give arguments=NAME,NAME"), (["arguments="], [], [], "--ignore arguments=: give"),
            (["arguments=a,,b"], [], [], "give arguments="), (["fields=a b"], [], [], "give arguments="),
            (["body"], [], [], "give arguments="), (["body=requestId"], [], [], "--ignore body=requestId is not a JSON pointer (RFC 6901)"),
            (["body=/~2"], [], [], "is not a JSON pointer"), (["body="], [], [], "is not a JSON pointer"),
            ([], ["/~"], [], "--echo /~ is not"), ([], [""], [], "--echo : give a JSON pointer"), ([], [], ["x"], "--shift-epoch x is not"),
            ([], [], ["/x"], "--shift-epoch needs --shift-dates"), ([], [], ["/x", "/x"], "--shift-epoch /x is given twice"),
            ([], ["*"], [], "--echo *: give a JSON pointer"), ([], ["a*"], [], "the name of one argument"),
            (["arguments=" + (0...64).map { "a\($0)" }.joined(separator: ",")], [], [], "more than 64"),
        ] as [([String], [String], [String], String)])
    func mistakes(ignore: [String], echo: [String], epochs: [String], sentence: String) {
        let mistake = #expect(throws: ReplayRules.Mistake.self) { try ReplayRules(ignore: ignore, echo: echo, epochs: epochs) }
        #expect(mistake?.description.contains(sentence) == true, "\(mistake?.description ?? "")")
    }

    // MARK: Echoes

    struct Echo: CustomTestStringConvertible {
        let echo: String
        let recorded: String
        let response: String
        let request: String
        let expected: String

        var testDescription: String { "\(echo): \(request)" }
    }

    @Test(
        "values of the request replace the recorded ones in the response, as JSON",
        arguments: [
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":\"r\\u0031\"}", response: #"{"r1":"r1", "list":["r1","r12"]}"#,
                request: "POST /a\n\(json)\n\n{\"id\":\"n\\\"\\u00e4\"}", expected: #"{"r1":"n\"\u00e4", "list":["n\"\u00e4","r12"]}"#),
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":7}", response: #"{"id":7,"count":7}"#,
                request: "POST /a\n\(json)\n\n{\"id\":\"x\"}", expected: #"{"id":"x","count":7}"#),
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":\"r\"}", response: #"{"id":"r"}"#,
                request: "POST /a\n\(json)\n\n{\"id\":{\"x\":1}}", expected: #"{"id":"r"}"#),
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":\"r\"}", response: #"{"id":"r"}"#, request: "POST /a\n\(json)\n\n{}",
                expected: #"{"id":"r"}"#),
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":\"r\"}", response: #"{"id":"r"}"#,
                request: "POST /a\n\(json)\n\n{\"id\":\"\(String(repeating: "x", count: 4_095))\"}", expected: #"{"id":"r"}"#),
            Echo(
                echo: "nonce", recorded: "GET /a?nonce=a+b", response: #"{"n":"a b"}"#, request: "GET /a?nonce=%22%0A%C3%A4",
                expected: #"{"n":"\"\nä"}"#),
            Echo(
                echo: "nonce", recorded: "POST /a\n\(form)\n\nnonce=1", response: #""1""#, request: "POST /a\n\(form)\n\nnonce=2",
                expected: #""2""#),
            Echo(
                echo: "token", recorded: "GET /a?token=REDACTED", response: #"{"token":"REDACTED"}"#, request: "GET /a?token=secret",
                expected: #"{"token":"REDACTED"}"#),
            Echo(
                echo: "/id", recorded: "POST /a\n\(json)\n\n{\"id\":\"r\"}", response: #"{"id":"r""#,
                request: "POST /a\n\(json)\n\n{\"id\":\"n\"}", expected: #"{"id":"r""#),
        ])
    func echoes(row: Echo) throws {
        let rules = try ReplayRules(ignore: [], echo: [row.echo])
        let fields = Spelt.fields([json, "ETag: \"a\"", "Content-Digest: x", "Content-Length: 3"])
        let recorded = Spelt.request(row.recorded, Self.secrets, rules)
        let response = ReplayResponse(
            Self.exchange(fields, row.response), origins: [], now: 0, rules, echoed: recorded.echoed)
        let request = Spelt.request(row.request, Self.secrets, rules)
        var replay = Replay([(recorded, fields)], order: .repeating)
        #expect(replay.respond(to: request) == .serve(0))
        #expect(String(decoding: response.echoing(request).content, as: UTF8.self) == row.expected)
        let head = String(decoding: response.head, as: UTF8.self)
        if row.expected != row.response { #expect(head.contains("ETag: W/\"a\"\r\n") && !head.contains("Content-Digest")) }
        #expect(!head.contains("Content-Length"))
    }

    private static func exchange(_ fields: Fields, _ content: String, status: Status = 200) -> ArchivedExchange {
        ArchivedExchange(
            method: Array("GET".utf8), url: "http://a/", requestFields: Fields(), requestContent: [],
            response: ResponseHead(status: status, fields: fields), content: Array(content.utf8), isDecoded: false, started: nil,
            duration: 0)
    }

    @Test("an echoed date replaces the recorded one, also if dates move and lengths before it change")
    func echoedDate() throws {
        let rules = try ReplayRules(ignore: [], echo: ["/at", "/n"], shiftsDates: true, epochs: ["/e", "/n"])
        let post = { (at: String, n: String) in "POST /a\n\(json)\n\n{\"at\":\"\(at)\",\"n\":\(n)}" }
        let recorded = Spelt.request(post("2023-11-14", "999999999"), Self.secrets, rules)
        let content = #"{"e":999999999,"n":999999999,"x":["2023-11-14","2023-11-15"]}"#
        // A day later.
        let shift = DateShift(from: 1_700_000_000, to: 1_700_086_400)
        let response = ReplayResponse(
            Self.exchange(Spelt.fields([json]), content), origins: [], now: 0, rules, shift: shift, echoed: recorded.echoed)
        let echoed = response.echoing(Spelt.request(post("2024-02-02", "7"), Self.secrets, rules)).content
        #expect(String(decoding: echoed, as: UTF8.self) == #"{"e":1000086399,"n":7,"x":["2024-02-02","2023-11-16"]}"#)
        let kept = response.echoing(Spelt.request("POST /a\n\(json)\n\n{}", Self.secrets, rules)).content
        #expect(String(decoding: kept, as: UTF8.self) == #"{"e":1000086399,"n":1000086399,"x":["2023-11-15","2023-11-16"]}"#)
    }

    // MARK: Dates

    @Test(
        "dates of a response move: fields, strings in JSON, and numbers at pointers",
        arguments: [
            (
                #"{"at":"2026-11-21T06:30:00\u002b01:00","d":"2026-11-21","n":1700000000}"#,
                #"{"at":"2026-11-21T07:30:00\u002b01:00","d":"2026-11-21","n":1700003600}"#
            ),
            (#"{"n":1700000000123}"#, #"{"n":1700003600123}"#), (#"{"n":999999999.25}"#, #"{"n":1000003599.25}"#),
            (#"{"n":"1700000000"}"#, #"{"n":"1700000000"}"#), (#"{"n":1e9}"#, #"{"n":1e9}"#), (#"{"n":-5}"#, #"{"n":-5}"#),
            (#"{"2026-11-21T06:30:00Z":"on 2026-11-21T06:30:00Z"}"#, #"{"2026-11-21T06:30:00Z":"on 2026-11-21T06:30:00Z"}"#),
            (#""Sun, 06 Nov 1994 08:49:37 GMT""#, #""Sun, 06 Nov 1994 09:49:37 GMT""#),
            (#"{"a":"2026-11-21T06:30:00Z""#, #"{"a":"2026-11-21T06:30:00Z""#),
        ])
    func dates(content: String, expected: String) throws {
        let rules = try ReplayRules(ignore: [], echo: [], shiftsDates: true, epochs: ["/n"])
        let fields = Spelt.fields([
            json, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "X-At: 2026-11-21T06:30:00Z", "X-Text: Sun, 06 Nov", "ETag: \"a\"",
            "Repr-Digest: x",
        ])
        // An hour within one day.
        let shift = DateShift(from: 1_700_000_000, to: 1_700_003_600)
        let response = ReplayResponse(Self.exchange(fields, content), origins: [], now: 0, rules, shift: shift)
        #expect(String(decoding: response.content, as: UTF8.self) == expected)
        let head = String(decoding: response.head, as: UTF8.self)
        for line in ["Last-Modified: Sun, 06 Nov 1994 09:49:37 GMT", "X-At: 2026-11-21T07:30:00Z", "X-Text: Sun, 06 Nov"] {
            #expect(head.contains("\(line)\r\n"))
        }
        #expect(head.contains("ETag: \(content == expected ? "" : "W/")\"a\"\r\n") && head.contains("Repr-Digest") == (content == expected))
        let part = ReplayResponse(Self.exchange(fields, content, status: 206), origins: [], now: 0, rules, shift: shift)
        #expect(String(decoding: part.content, as: UTF8.self) == content)
    }

    @Test("in random JSON, only dates change, and they return when they move back")
    func randomDates() {
        let texts = [
            #""2026-11-21T06:30:00Z""#, #""2026-11-21""#, #""2026-11-21T06:30:00.123456+02:00""#, #""Sun, 06 Nov 1994 08:49:37 GMT""#,
            #""2026-11-21x""#, #""\u0032026-11-21""#, #""plain""#, "1700000000", "true", "null", #""\"2026-11-21\"""#,
        ]
        RandomSchedules.run(1_000) {
            $0
        } end: { generator in
            let items = (0..<generator.below(12)).map { _ in
                "\(generator.pick(texts.filter { $0.first == "\"" })) : \(generator.pick(texts))"
            }
            let content = Array("{ \(items.joined(separator: ",\n")) }".utf8)
            let (from, to) = (Int64(generator.below(1_900_000_000)), Int64(generator.below(1_900_000_000)))
            let moved = DateShift(from: from, to: to).move(content: content, epochs: []).content
            try demand(moved.count == content.count && JSONTextChecker.check(moved.span) == .valid, "no valid JSON of equal length")
            for index in content.indices where moved[index] != content[index] {
                let isInName = String(decoding: content[index...].prefix { $0 != 0x2c && $0 != 0x7d }, as: UTF8.self).contains(" : ")
                try demand(!isInName, "a name changed")
            }
            try demand(DateShift(from: to, to: from).move(content: moved, epochs: []).content == content, "the dates do not return")
        }
    }

    @Test("all exchanges of a session move by one duration, and exchanges captured days later form another session")
    func sessions() {
        let day: Int64 = 86_400_000
        let second = 10 + 3 * day / 1_000
        let started = [nil, 5_000, 9_000, nil, 5_000 + day, 10_000 + 3 * day, 6_000]
        #expect(Recording.sessions(started.map { ($0, nil) }) == [nil, 5, 5, 5, 5, second, second])
    }

    @Test("the captures of each replay form a session, also without a pause between them")
    func capturedSessions() {
        let exchanges: [(Int64?, String?)] = [(5_000, nil), (9_000, "a"), (11_000, "a"), (nil, "b"), (13_000, "b"), (14_000, nil)]
        #expect(Recording.sessions(exchanges) == [5, 9, 9, nil, 13, 14])
    }
}

@Suite("Reports and filters of recordings")
struct ReplayReportTests {
    private static let secrets = SecretRedaction(fields: [])

    @Test("the report names requests without a recorded response, the part that differs, and recorded responses that were never requested")
    func report() throws {
        let recorded = ["GET /a?x=1", "POST /b\n\(json)\n\n{\"a\":1}", "GET /c"].map { (Spelt.request($0, Self.secrets), Fields()) }
        var replay = Replay(recorded, order: .repeating)
        for request in ["GET /a?x=1", "GET /a?x=2", "GET /a?x=2", "POST /b\n\(json)\n\n{\"a\":2}", "PUT /c", "GET /cc?token=mine"] {
            _ = replay.respond(to: Spelt.request(request, Self.secrets))
        }
        #expect(
            replay.reportText == """
                1 request served, 5 without a recorded response, 2 recorded responses were never requested
                Without a recorded response:
                  2 × GET /a?x=2 (not recorded; GET /a?x=1 differs in its arguments)
                  1 × POST /b (other content; POST /b differs in its content at /a)
                  1 × PUT /c (not recorded; GET /c differs in its method)
                  1 × GET /cc?token=REDACTED (not recorded; GET /c differs in its path)
                Never requested:
                  POST /b
                  GET /c
                """)
        let report = try #require(JSONValue(replay.report))
        #expect(report["served"]?.integer == 1 && report["refused"]?.integer == 5 && report["unused"]?.integer == 2)
        let missed = try #require(report["without_response"]?.array)
        #expect(missed.count == 4 && missed[0]["count"]?.integer == 2 && missed[0]["nearest"]?["differs"]?.string == "arguments")
        #expect(report["never_requested"]?.array?.last?["number"]?.integer == 3)
    }

    @Test(
        "the pointer of the first different JSON value is named, and ignoring it makes the request match",
        arguments: [
            (#"{"a":1,"b":{"c":[1,2]}}"#, #"{"a":1,"b":{"c":[1,3]}}"#, "/b/c/1"), (#"{"a":1}"#, #"{"a":1,"n/~":2}"#, "/n~1~0"),
            (#"{"b":1,"a":1}"#, #"{"a":1}"#, "/b"), (#"[1,2]"#, "[1]", "/1"), (#"{"z":1}"#, #"{"a":1,"z":1}"#, "/a"),
            (#"{"a":[]}"#, #"{"a":{}}"#, "/a"), (#"{"a":{"b":[{"c":1}]},"d":[0,1]}"#, #"{"a":{"b":[{"c":1}]},"d":[0,1,2]}"#, "/d/2"),
            ("[1]", "{}", nil), ("[1]", "[1", nil), ("1", "2", nil),
        ] as [(String, String, String?)])
    func difference(recorded: String, content: String, pointer: String?) throws {
        let request = { (content: String, rules: ReplayRules) in Spelt.request("POST /b\n\(json)\n\n\(content)", Self.secrets, rules) }
        let replay = Replay([(request(recorded, ReplayRules()), Fields())], order: .repeating)
        let other = request(content, ReplayRules())
        let sentence = replay.sentence(.otherContent(nearest: [0]), to: other, replay.difference(.otherContent(nearest: [0]), other))
        #expect(sentence.contains("It differs at ") == (pointer != nil))
        guard let pointer else { return }
        #expect(sentence.contains("It differs at \(pointer). The most similar"))
        let rules = try ReplayRules(ignore: ["body=\(pointer)"], echo: [])
        var ignoring = Replay([(request(recorded, rules), Fields())], order: .repeating)
        #expect(ignoring.respond(to: request(content, rules)) == .serve(0))
    }

    @Test("the number of distinct requests in a report is limited, and all are counted")
    func limit() throws {
        var replay = Replay([(Spelt.request("GET /a", Self.secrets), Fields())], order: .repeating)
        for number in 0..<1_100 { _ = replay.respond(to: Spelt.request("GET /b\(number)", Self.secrets)) }
        #expect(replay.refused == 1_100 && replay.missed.requests.count == MissedRequests.limit)
        #expect(replay.reportText.split(separator: "\n").count < 30 && replay.reportText.contains("  and 980 more\n"))
    }

    @Test("a captured exchange is served from then on, and is not reported as never requested")
    func captured() {
        var replay = Replay([], order: .repeating)
        let request = Spelt.request("GET /a", Self.secrets)
        guard case .refuse(let refusal) = replay.serveIfRecorded(request) else {
            Issue.record("it is recorded")
            return
        }
        #expect(refusal.isUnknown && replay.refused == 0)
        replay.add(request, response: Fields())
        #expect(replay.respond(to: request) == .serve(0) && replay.respond(to: request) == .serve(0))
        #expect(replay.unused == [] && replay.captured == 1)
    }

    @Test("a response that was not captured is reported with the reason, also for a request that was refused before")
    func notCaptured() throws {
        var replay = Replay([], order: .repeating)
        let target = "/" + String(repeating: "a", count: 300)
        let request = Spelt.request("GET \(target)", Self.secrets)
        _ = replay.respond(to: request)
        for _ in 0..<2 { replay.note(.notRecorded(nearest: []), of: request, nil, notCaptured: "Too long.") }
        let report = try #require(JSONValue(replay.report)?["without_response"]?.array)
        #expect(report.map { $0["not_captured"]?.string } == [nil, "Too long."] && report.map { $0["count"]?.integer } == [1, 2])
        #expect(report.allSatisfy { $0["target"]?.string == target })
        #expect(replay.reportText.contains("(not recorded; not captured: Too long.)") && !replay.reportText.contains(target))
    }

    @Test("control characters in names of members do not reach the terminal")
    func controlCharacters() {
        let request = { (name: String) in Spelt.request("POST /b\n\(json)\n\n{\"\(name)\":1}", Self.secrets) }
        var replay = Replay([(request("z"), Fields())], order: .repeating)
        let other = request(#"\u001b[2J\u009b\u202e"#)
        #expect(replay.respond(to: other) == .refuse(.otherContent(nearest: [0])))
        let sentence = replay.sentence(.otherContent(nearest: [0]), to: other, replay.difference(.otherContent(nearest: [0]), other))
        #expect(sentence.contains("It differs at /\u{fffd}[2J\u{fffd}\u{fffd}."))
        #expect(replay.reportText.contains("differs in its content at /\u{fffd}[2J"))
    }

    @Test(
        "only selected requests are recorded",
        arguments: [
            (["/orders/*"], [], "", "GET /orders/1?x=1", true), (["/orders/*"], [], "", "GET /orders/1/items", false),
            (["/orders/**"], ["/orders/*/items"], "", "GET /orders/1/items", false), ([], ["/health"], "", "GET /health?x", false),
            ([], ["/health"], "", "GET /%68ealth", false), ([], ["/health"], "get,post", "POST /orders", true),
            ([], [], "GET,POST", "PUT /orders", false), ([], [], "", "PUT /orders", true),
        ] as [([String], [String], String, String, Bool)])
    func filter(only: [String], except: [String], methods: String, request: String, isSelected: Bool) throws {
        let filter = try RecordingFilter(only: only, except: except, methods: methods)
        let words = request.split(separator: " ").map { Array($0.utf8) }
        let name = words[0]
        let head = RequestHead(method: Method(name.span), target: words[1][...], version: .http11, fields: Fields())
        #expect(filter.selects(head) == isSelected)
    }

    @Test(
        "a wrong filter gets a sentence",
        arguments: [
            (["orders"], [], "", "--only orders: the path must begin with /"), ([], ["/a*"], "", "--except /a*: * must be a whole segment"),
            ([], [], "GET,", "--methods GET,: give names"), ([], [], "G T", "give names"),
        ] as [([String], [String], String, String)])
    func wrongFilter(only: [String], except: [String], methods: String, sentence: String) {
        let mistake = #expect(throws: ReplayRules.Mistake.self) { try RecordingFilter(only: only, except: except, methods: methods) }
        #expect(mistake?.description.contains(sentence) == true, "\(mistake?.description ?? "")")
    }
}
