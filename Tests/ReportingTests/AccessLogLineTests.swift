// Tests of the lines of the access log: their content in each format, and that client input never breaks a line.

import Decisions
import Explanation
import Figures
import HTTPCore
import JSON
import Testing
import Upstream

@Suite("Access log lines")
struct AccessLogLineTests {
    private static func head(_ target: String = "/users/1?q=a", _ fields: [(String, String)] = []) -> RequestHead {
        var lines = Fields()
        for (name, value) in fields { lines.append(name: name, value: value) }
        return RequestHead(method: .get, target: Array(target.utf8)[...], version: .http11, fields: lines)
    }

    private static let record = {
        var record = ExchangeRecord(.rescued, .get, status: 200)
        (record.wall, record.durationMicroseconds, record.bodyBytes, record.age) = (1_700_000_000_007, 1_234, 17, 60)
        (record.upstream.microseconds, record.upstream.failure) = (1_000, .transfer(UpstreamError.allCases[0]))
        (record.upstream.status, record.upstream.spoken) = (503, .http1)
        (record.upstream.times.resolved, record.upstream.times.connected, record.upstream.times.secured) = (10, 30, 0)
        (record.upstream.times.sent, record.upstream.times.firstByte) = (40, 940)
        return record
    }()

    private func line(
        _ head: RequestHead = Self.head(), _ format: AccessLog.Format = .json, _ fields: [AccessField] = AccessField.usual
    ) -> String {
        var line = AccessLogLine(head)
        line.client = AccessLogLine.Client(Array("192.0.2.1".utf8), subject: "CN=a b", tls: "TLSv1.3")
        line.name = Array("id-1".utf8)
        (line.api, line.route, line.upstreamAddress) = ("shop", "users", "api.test:8443")
        return String(decoding: line.make(Self.record, format, fields), as: UTF8.self)
    }

    @Test("JSON contains all requested fields in the requested order")
    func all() throws {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        let head = Self.head(
            "/users/1?q=a&api_key=s3cret",
            [
                ("User-Agent", "curl/8 \"x\""), ("Referer", "https://u:s3cret@a.test/b?token=s3cret#c"),
                ("traceparent", "00-\(trace)-00f067aa0ba902b7-00"),
            ])
        let cause = MetricNames.rescueCauses[0]
        #expect(
            line(head, .json, AccessField.allCases)
                == #"{"time":1700000000.007,"client":"192.0.2.1","client_subject":"CN=a b","request_id":"id-1","trace_id":"\#(trace)","#
                + #""api":"shop","route":"users","method":"GET","path":"/users/1","query":"q=a&api_key=REDACTED","protocol":"HTTP/1.1","#
                + #""tls":"TLSv1.3","user_agent":"curl/8 \"x\"","referer":"https://a.test/b","status":200,"bytes":17,"duration_us":1234,"#
                + #""result":"rescued","reason":"\#(cause)","age":60,"upstream_us":1000,"upstream_status":503,"#
                + #""upstream_address":"api.test:8443","upstream_protocol":"HTTP/1.1","upstream_resolve_us":10,"upstream_connect_us":20,"#
                + #""upstream_tls_us":0,"upstream_wait_us":900}"# + "\n")
        #expect(line(head, .json, [.status, .client]) == #"{"status":200,"client":"192.0.2.1"}"# + "\n")
        #expect(line(head, .json, [.query]) == #"{"query":"q=a&api_key=REDACTED"}"# + "\n")
    }

    @Test("fields without a value are omitted, wherever they stand")
    func nothing() {
        let line = AccessLogLine(Self.head("/"))
        let record = ExchangeRecord(.error, .get, status: 502)
        let text = { (fields: [AccessField]) in String(decoding: line.make(record, .json, fields), as: UTF8.self) }
        #expect(text([.age, .query, .status, .userAgent, .bytes, .upstreamPhases, .tls]) == #"{"status":502,"bytes":0}"# + "\n")
        #expect(text([.age, .traceID, .upstreamAddress]) == "{}\n")
        #expect(text([.client]) == #"{"client":"unix"}"# + "\n")
    }

    @Test("the default fields contain no query and no personal data except the client address")
    func usual() throws {
        let text = line(Self.head("/users/1?q=a", [("User-Agent", "curl"), ("Referer", "/b")]))
        for word in ["q=a", "curl", "referer", "upstream_wait_us"] { #expect(!text.contains(word)) }
        #expect(JSONValue(Array(text.utf8))?["request_id"] == "id-1")
    }

    @Test("lines in the common and combined formats")
    func common() {
        let head = Self.head("/users/1?token=a&q=b", [("User-Agent", "curl/8"), ("Referer", "/b?c")])
        let start = #"192.0.2.1 - CN=a_b [14/Nov/2023:22:13:20 +0000] "GET /users/1"#
        #expect(line(head, .common) == start + #" HTTP/1.1" 200 17 rescued "# + MetricNames.rescueCauses[0] + "\n")
        #expect(line(head, .combined) == start + #" HTTP/1.1" 200 17 "/b" "curl/8""# + "\n")
        #expect(line(head, .combined, [.query]) == start + #"?token=REDACTED&q=b HTTP/1.1" 200 17 "/b" "curl/8""# + "\n")
        #expect(line(Self.head("/users/1"), .combined) == start + #" HTTP/1.1" 200 17 "-" "-""# + "\n")
    }

    @Test(
        "any client input yields one line and valid JSON",
        arguments: ["/a\"b\\c", "/\u{7f}\u{1}\n", "/ü\u{202e}", "/a?b=\"&c=\n", "/?%74oken=s3cret&to%4ben=s3cret&%zz=s3cret"])
    func hostile(target: String) {
        let word = String(target.prefix { $0 != "?" })
        let head = Self.head(target, [("User-Agent", word), ("Referer", word + "?s3cret")])
        for format in AccessLog.Format.allCases {
            let text = line(head, format, AccessField.allCases)
            #expect(text.count { $0 == "\n" } == 1 && text.hasSuffix("\n"))
            #expect(!text.contains("s3cret") && text.utf8.allSatisfy { $0 == 0x0a || (0x20..<0x7f).contains($0) })
            if format == .json { #expect(JSONValue(Array(text.utf8))?["path"] != nil) }
        }
    }

    @Test("long values from clients are truncated")
    func long() {
        let long = String(repeating: "x", count: 5_000)
        #expect(line(Self.head("/", [("User-Agent", long)]), .json, [.userAgent]).count == 1_024 + #"{"user_agent":""}"#.count + 1)
    }
}
