// Archives of other recorders. Each row is a handmade entry in the published format of one recorder.

import HTTPCore
import JSON
import Testing

@testable import Archives

struct EntryRow: CustomTestStringConvertible {
    let sentence: String
    let entry: String
    var expected: Expected

    enum Expected: Equatable {
        /// Status, response field lines, content, request content.
        case exchange(Int, [String], content: String, sent: String = "")
        case fault(ArchiveFault)
    }

    var isMalformed: Bool { if case .fault(.malformed) = expected { true } else { false } }

    var testDescription: String { sentence }
}

@Suite("Archives of other tools")
struct ForeignArchiveTests {
    private static func lines(_ fields: Fields) -> [String] {
        (0..<fields.count).map {
            String(decoding: fields.name(at: $0), as: UTF8.self) + ": " + String(decoding: fields.value(at: $0), as: UTF8.self)
        }
    }

    static let rows: [EntryRow] = [
        EntryRow(
            sentence: "Chromium: pseudo fields of HTTP/2, members with an underscore, base64, a coding that is off already",
            entry: #"""
                {"_connectionId": "4117", "_initiator": {"type": "script"}, "_priority": "High", "_resourceType": "fetch", "cache": {},
                 "connection": "443", "startedDateTime": "2025-06-15T15:06:00.125Z", "time": 103.25, "serverIPAddress": "[2001:db8::1]",
                 "request": {"method": "GET", "url": "https://api.test/users", "httpVersion": "http/2.0", "bodySize": 0, "headersSize": -1,
                  "headers": [{"name": ":authority", "value": "api.test"}, {"name": ":method", "value": "GET"}, {"name": "accept", "value": "*/*"}],
                  "queryString": [], "cookies": []},
                 "response": {"status": 200, "statusText": "", "httpVersion": "http/2.0", "_transferSize": 221, "_error": null,
                  "headers": [{"name": ":status", "value": "200"}, {"name": "content-encoding", "value": "br"},
                   {"name": "content-type", "value": "application/json"}, {"name": "set-cookie", "value": "a=1; Path=/\nb=2"}],
                  "content": {"size": 7, "mimeType": "application/json", "text": "eyJhIjoxfQ==", "encoding": "base64"},
                  "redirectURL": "", "cookies": [], "headersSize": -1, "bodySize": -1},
                 "timings": {"blocked": 1.2, "_blocked_queueing": 0.9, "send": 0.1, "wait": 100, "receive": 2}}
                """#,
            expected: .exchange(
                200, ["content-encoding: br", "content-type: application/json", "set-cookie: a=1; Path=/", "set-cookie: b=2"],
                content: #"{"a":1}"#)),
        EntryRow(
            sentence: "Chromium: a request that was blocked has status 0",
            entry: #"""
                {"request": {"method": "GET", "url": "https://api.test/a", "headers": []},
                 "response": {"status": 0, "statusText": "", "headers": [], "content": {"size": 0, "mimeType": "x-unknown"},
                  "_error": "net::ERR_BLOCKED_BY_CLIENT"}}
                """#, expected: .fault(.unusable(.noResponse))),
        EntryRow(
            sentence: "Chromium: a content that it did not keep any more",
            entry: #"""
                {"request": {"method": "GET", "url": "https://api.test/a", "headers": []},
                 "response": {"status": 200, "headers": [], "content": {"size": 4711, "mimeType": "application/json"}}}
                """#, expected: .fault(.unusable(.noContent))),
        EntryRow(
            sentence: "Chromium: a WebSocket",
            entry: #"""
                {"_resourceType": "websocket", "_webSocketMessages": [{"type": "send", "time": 1.5, "opcode": 1, "data": "hi"}],
                 "request": {"method": "GET", "url": "wss://api.test/live", "headers": []},
                 "response": {"status": 101, "statusText": "Switching Protocols", "headers": [], "content": {"size": 0}}}
                """#, expected: .fault(.unusable(.webSocket))),
        EntryRow(
            sentence: "Firefox: a form with its arguments as text and as a list; without a time",
            entry: #"""
                {"pageref": "page_1", "startedDateTime": "2025-06-15T17:06:00.125+02:00",
                 "request": {"method": "POST", "url": "https://api.test/login", "httpVersion": "HTTP/2",
                  "headers": [{"name": "Content-Type", "value": "application/x-www-form-urlencoded"}], "cookies": [], "queryString": [],
                  "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a", "value": "1"}], "text": "a=1"}},
                 "response": {"status": 204, "statusText": "No Content", "headers": [], "cookies": [], "content": {"mimeType": "text/plain",
                  "size": 0, "text": ""}, "redirectURL": "", "bodySize": 310}}
                """#, expected: .exchange(204, ["Content-Type: text/plain"], content: "", sent: "a=1")),
        EntryRow(
            sentence: "Firefox: a content that is cut at its limit",
            entry: #"""
                {"request": {"method": "GET", "url": "https://api.test/long", "headers": []},
                 "response": {"status": 200, "headers": [], "content": {"mimeType": "application/json", "size": 3145728, "text": "[1, 2, 3"}}}
                """#, expected: .fault(.unusable(.cutContent))),
        EntryRow(
            sentence: "Firefox: contents that were not to be recorded",
            entry: #"""
                {"request": {"method": "GET", "url": "https://api.test/a", "headers": []},
                 "response": {"status": 200, "headers": [], "content": {"mimeType": "application/json", "size": 12,
                  "comment": "Response bodies are not included."}}}
                """#, expected: .fault(.unusable(.noContent))),
        EntryRow(
            sentence: "mitmproxy: the size is that of the coded content, which may exceed the decoded size",
            entry: #"""
                {"startedDateTime": "2025-06-15T15:06:00.125000+00:00", "time": 12.5, "cache": {}, "serverIPAddress": "192.0.2.1",
                 "request": {"method": "POST", "url": "https://api.test/a", "httpVersion": "HTTP/1.1", "cookies": [],
                  "headers": [{"name": "Host", "value": "api.test"}, {"name": "Content-Type", "value": "application/json"}],
                  "queryString": [], "headersSize": 88, "bodySize": 7, "postData": {"mimeType": "application/json", "text": "{\"q\":1}",
                   "params": []}},
                 "response": {"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "cookies": [],
                  "headers": [{"name": "Content-Type", "value": "application/json"}, {"name": "Content-Encoding", "value": "gzip"}],
                  "content": {"size": 27, "compression": -20, "mimeType": "application/json", "text": "{\"a\":1}"},
                  "redirectURL": "", "headersSize": 70, "bodySize": 27}, "timings": {"connect": -1, "ssl": -1, "send": 1, "receive": 2, "wait": 3}}
                """#,
            expected: .exchange(200, ["Content-Type: application/json", "Content-Encoding: gzip"], content: #"{"a":1}"#, sent: #"{"q":1}"#)),
        EntryRow(
            sentence: "Playwright: unknown sizes and its own time format",
            entry: #"""
                {"startedDateTime": "2025-06-15T15:06:00.125Z", "time": -1, "_frameref": "frame@1", "_monotonicTime": 5.1,
                 "request": {"method": "GET", "url": "http://api.test/a", "httpVersion": "HTTP/1.1", "headers": [], "cookies": [],
                  "queryString": [], "headersSize": -1, "bodySize": -1},
                 "response": {"status": 200, "statusText": "OK", "headers": [{"name": "Content-Type", "value": "text/plain"}],
                  "content": {"size": -1, "mimeType": "text/plain", "text": "hi"}, "headersSize": -1, "bodySize": -1, "redirectURL": "",
                  "_transferSize": -1}}
                """#, expected: .exchange(200, ["Content-Type: text/plain"], content: "hi")),
        EntryRow(
            sentence: "Playwright: contents in files of their own",
            entry: #"""
                {"request": {"method": "GET", "url": "http://api.test/a", "headers": []},
                 "response": {"status": 200, "headers": [], "content": {"size": 9, "mimeType": "text/plain", "_file": "../../etc/passwd"}}}
                """#, expected: .fault(.unusable(.contentElsewhere))),
        EntryRow(
            sentence: "a form of which only the arguments are there",
            entry: #"""
                {"request": {"method": "POST", "url": "http://api.test/a",
                  "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a b", "value": "ü"}, {"name": "c"}]}},
                 "response": {"status": 200}}
                """#, expected: .exchange(200, [], content: "", sent: "a%20b=%C3%BC&c=")),
        EntryRow(
            sentence: "invalid fields are omitted",
            entry: #"""
                {"request": {"method": "GET", "url": "http://api.test/a", "headers": null},
                 "response": {"status": 200, "headers": [{"name": "A B", "value": "x"}, {"name": "C", "value": "x\u0000y"}, {"name": "", "value": ""},
                  {"name": "D", "value": "x\r\nE: f"}]}}
                """#, expected: .exchange(200, [], content: "")),
        EntryRow(sentence: "no object", entry: "7", expected: .fault(.malformed("request is missing"))),
        EntryRow(
            sentence: "no method", entry: #"{"request": {"method": "G E T", "url": "http://a/"}, "response": {"status": 200}}"#,
            expected: .fault(.malformed("request.method is missing or not a method"))),
        EntryRow(
            sentence: "no URL", entry: #"{"request": {"method": "GET", "url": 1}, "response": {"status": 200}}"#,
            expected: .fault(.malformed("request.url is missing"))),
        EntryRow(
            sentence: "an invalid status", entry: #"{"request": {"method": "GET", "url": "http://a/"}, "response": {"status": 1e30}}"#,
            expected: .fault(.malformed("response.status is missing or not a number"))),
        EntryRow(
            sentence: "a field without a value",
            entry: #"{"request": {"method": "GET", "url": "http://a/", "headers": [{"name": "a"}]}, "response": {"status": 200}}"#,
            expected: .fault(.malformed("request.headers[0] has no name or no value"))),
        EntryRow(
            sentence: "something that is not base64",
            entry: #"""
                {"request": {"method": "GET", "url": "http://a/"}, "response": {"status": 200,
                 "content": {"text": "%%%", "encoding": "base64"}}}
                """#, expected: .fault(.malformed("response.content.text is not base64"))),
    ]

    @Test("an archive entry of another tool is parsed, or rejected with its fault", arguments: rows)
    func entries(row: EntryRow) throws {
        let entry = try #require(JSONValue(Array(row.entry.utf8)))
        do throws(ArchiveFault) {
            let exchange = try ArchivedExchange(entry)
            let found = EntryRow.Expected.exchange(
                Int(exchange.response.status.rawValue), Self.lines(exchange.response.fields),
                content: String(decoding: exchange.content, as: UTF8.self), sent: String(decoding: exchange.requestContent, as: UTF8.self))
            #expect(found == row.expected)
        } catch {
            #expect(.fault(error) == row.expected)
        }
    }

    private static func archive(_ entries: [String], more: String = "") -> [UInt8] {
        Array("{\"log\": {\(more)\"entries\": [\(entries.joined(separator: ",\n"))]}}".utf8)
    }

    private static func recording(_ archive: [UInt8], origins: [String] = []) throws -> Recording {
        try Recording(
            ArchiveReader(archive), origins: origins.compactMap { ArchiveOrigin($0) }, secrets: SecretRedaction(fields: []),
            now: 1_800_000_000)
    }

    private static func entry(_ url: String, status: Int = 200, _ more: String = "") -> String {
        #"{"request": {"method": "GET", "url": "\#(url)"}, "response": {"status": \#(status)\#(more)}}"#
    }

    @Test("usable entries are replayed, and the others are counted by reason")
    func recordings() throws {
        let usable = Self.rows.filter { !$0.isMalformed }.map(\.entry)
        let all = try Self.recording(Self.archive(usable + [Self.entry("http://api.test/a", status: 304)]))
        #expect(all.responses.count == 6 && all.requests.count == 6)
        #expect(all.omitted.values.reduce(0, +) == 7)
        #expect(all.omitted["a WebSocket connection has no response that could be replayed"] == 1)
        #expect(all.origins.map(\.description) == ["https://api.test", "http://api.test"])
        #expect(String(decoding: all.responses[0].head, as: UTF8.self).contains("content-encoding") == false)
    }

    @Test("the recorded or named upstream determines the target of each request")
    func origins() throws {
        let entries = ["https://a.test/v1/x?y=1#z", "https://a.test/v1", "https://b.test/x", "https://a.test/v2/x"].map { Self.entry($0) }
        let own = try Self.recording(Self.archive(entries, more: #""_cistern": {"upstream": "https://A.test/v1"}, "#))
        #expect(own.requests.map(\.request.shown) == ["GET /x?y=1", "GET /"])
        #expect(own.omitted == ["the request went to another origin": 2])
        let named = try Self.recording(Self.archive(entries), origins: ["https://b.test/", "https://a.test/v2"])
        #expect(named.requests.map(\.request.shown) == ["GET /x", "GET /x"])
        #expect(try Self.recording(Self.archive(entries)).requests.count == 4)
        for url in ["ftp://a", "a.test", "http://", "https:///x"] { #expect(ArchiveOrigin(url) == nil) }
    }

    @Test(
        "a replayed cookie applies to the replay's host, and its expiry is shifted to the present",
        arguments: [
            ("a=1; Domain=api.test; Path=/", "a=1; Path=/"), ("a=1;Secure; expires=Sun, 15 Jun 2025 16:06:00 GMT", "a=1;Secure"),
            ("a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"), ("domain=1; x", "domain=1; x"),
            ("a=1; Expires=whenever; Max-Age=60", "a=1; Expires=whenever; Max-Age=60"),
        ])
    func cookies(cookie: String, sent: String) {
        let made = ReplayResponse.cookie(Array(cookie.utf8), recordedAt: 1_750_000_000, now: 1_800_000_000)
        #expect(String(decoding: made, as: UTF8.self) == sent)
    }

    @Test("connection fields, Date, Age and the recorded host are removed from a replayed response")
    func heads() throws {
        let fields = [
            ("Connection", "X-Hop, close"), ("X-Hop", "1"), ("Transfer-Encoding", "chunked"), ("Content-Length", "99"), ("Age", "7"),
            ("Date", "Sun, 15 Jun 2025 15:06:00 GMT"), ("Location", "https://a.test/v1/next?x=1"), ("ETag", "\"e\""),
        ].map { #"{"name": "\#($0.0)", "value": "\#($0.1.replacing("\"", with: "\\\""))"}"# }.joined(separator: ",")
        let entry = Self.entry("https://a.test/v1/x", status: 201, #", "headers": [\#(fields)]"#)
        let response = try Self.recording(Self.archive([entry]), origins: ["https://a.test/v1"]).responses[0]
        #expect(String(decoding: response.head, as: UTF8.self) == "HTTP/1.1 201 Created\r\nETag: \"e\"\r\nLocation: /next?x=1\r\n")
        #expect(response.recordedLength == 99 && response.status == 201)
    }
}
