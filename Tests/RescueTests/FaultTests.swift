// Tests of faults that are injected between the proxy and its upstream. Clients see the effects of an outage.

import Administration
import HTTPCore
import JSON
import TestSupport
import Testing
import Upstream

@testable import ReverseProxy

@Suite("Injected faults", .play)
struct FaultTests {
    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("{\"n\":1}", ["Cache-Control: max-age=1"])] }) { settings in
            settings.admin.allowsFaults = true
            configure(&settings)
        }
    }

    private func add(_ play: ProxyPlay, _ query: String) throws {
        let response = try play.admin("POST", "/-/faults?\(query)")
        #expect(response.status == 200, "\(response.text)")
    }

    struct Row: CustomTestStringConvertible {
        let testDescription: String
        let query: String
        /// Number of requests at the origin, for a path without a stored response.
        let status: Int
        let asked: Int

        init(_ sentence: String, _ query: String, _ status: Int, asked: Int = 0) {
            (testDescription, self.query, self.status, self.asked) = (sentence, query, status, asked)
        }
    }

    @Test(
        "a fault is rescued with a stored response and fails without one; removing the fault restores normal service",
        arguments: [
            Row("refused", "effect=refuse", 502), Row("reset", "effect=reset", 502), Row("a status", "effect=status&status=503", 503),
            Row("broken JSON", "effect=bad_json", 200), Row("cut", "effect=cut", 502, asked: 2),
        ])
    func effects(_ row: Row) throws {
        let play = try play { $0.upstream.failure.isOn = false }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(10))
        try add(play, row.query)
        let rescued = try play.get("/a")
        #expect(rescued.status == 200 && rescued.text == "{\"n\":1}" && rescued["Cache-Status"]?.hasSuffix("; fault-injected") == true)
        #expect(try play.get("/b").status == row.status)
        #expect(play.origin.requests.count == 1 + row.asked)
        let kind = String(row.query.split(separator: "&")[0].dropFirst("effect=".count))
        #expect(try play.metric("cistern_injected_faults_total{kind=\"\(kind)\"}") == 2)
        let why = try play.admin("GET", "/-/why?last=1")
        #expect(why.text.contains("A fault was injected"))
        let exchange = JSONValue(why.content)?["exchanges"]?.array?.first
        #expect(exchange?["advice"] == .array([]) && (kind == "status" || exchange?["not_stored"] != "no_store"), "\(why.text)")
        let failure = JSONValue(try play.admin("GET", "/-/upstream").content)?["last_failure"]
        #expect(failure?["cause"] != nil && failure?["advice"] == .null, "an injected failure needs no other settings")
        if row.status == 502 { #expect(failure?["details"] == "injected") }
        #expect(try play.admin("DELETE", "/-/faults").text.contains("1"))
        let after = try play.get("/b")
        #expect(after.status == 200 && after["Cache-Status"] == "cistern; fwd=uri-miss; stored")
    }

    @Test("a fault affects only its paths, and only until it expires")
    func bounded() throws {
        let play = try play { $0.shards = 2 }
        try add(play, "path=/orders/**&effect=refuse&for=60")
        #expect(try play.get("/orders/1").status == 502)
        #expect(try play.get("/users/1").status == 200)
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/orders/2").status == 200)
        #expect(JSONValue(try play.admin("GET", "/-/faults").content)?["faults"]?.array?.isEmpty == true)
    }

    @Test("a delay fault is applied, limited by the upstream timeout")
    func delayed() throws {
        let play = try play { $0.upstream.firstByteTimeout = .seconds(3) }
        try add(play, "path=/a&delay=2000")
        try add(play, "path=/b&delay=5000")
        #expect(try wait(play, "/a").response.text == "{\"n\":1}")
        for method in ["GET", "POST"] {
            let late = try wait(play, "/b", method)
            #expect(late.response.status == 504 && (3_000...4_000).contains(late.after), "\(method) \(late.after)")
        }
        #expect(play.origin.requests.count == 1)
    }

    /// Moves the clock until a response arrives. Returns the elapsed time in milliseconds.
    private func wait(_ play: ProxyPlay, _ target: String, _ method: String = "GET") throws -> (response: TestResponse, after: Int) {
        let content = method == "GET" ? "\r\n" : "Content-Length: 2\r\n\r\n{}"
        let client = try play.client(sending: "\(method) \(target) HTTP/1.1\r\nHost: a\r\n\(content)")
        var passed = 0
        while !client.hasInput(within: 20) {
            play.time.advance(by: .milliseconds(100))
            passed += 100
        }
        return (try #require(client.readResponse()), passed)
    }

    @Test("a head and content that arrive together are delayed together and cut after the delay", arguments: [false, true])
    func together(isSplit: Bool) throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
        let play = try ProxyPlay(ScriptedOrigin { _ in isSplit ? [.send(head), .send("{\"n\":2}")] : [.send(head + "{\"n\":2}")] }) {
            $0.admin.allowsFaults = true
            $0.upstream.failure.isOn = false
        }
        try add(play, "path=/delayed&delay=300")
        try add(play, "path=/slow&effect=slow&rate=10")
        try add(play, "path=/cut&delay=300&effect=cut")
        let delayed = try wait(play, "/delayed")
        #expect(delayed.response.text == "{\"n\":2}" && delayed.after >= 300)
        let slow = try wait(play, "/slow")
        #expect(slow.response.text == "{\"n\":2}" && slow.after >= 600)
        #expect(try wait(play, "/cut").response.status == 502)
    }

    @Test("slowed content arrives complete")
    func slow() throws {
        let content = "[" + String(repeating: "1,", count: 50_000) + "1]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(content, ["Cache-Control: no-store"])] }) { $0.admin.allowsFaults = true }
        try add(play, "effect=slow&rate=1000000000")
        #expect(try play.get("/a").text == content)
    }

    @Test("a fault without permission or with invalid parameters is refused and has no effect")
    func refused() throws {
        let play = try play { $0.admin.allowsFaults = false }
        #expect(try play.admin("POST", "/-/faults?effect=refuse").status == 403)
        let open = try self.play()
        for query in [
            "", "effect=nonsense", "effect=status", "effect=status&status=99", "effect=status&status=204", "effect=slow", "delay=-1",
            "delay=2&delay_to=1", "effect=refuse&percent=0", "effect=refuse&percent=101", "effect=refuse&for=0", "effect=refuse&for=90000",
            "effect=refuse&path=a", "effect=refuse&path=/a?b", "effect=refuse&rates=1", "delay=99999999999999999999",
        ] {
            #expect(try open.admin("POST", "/-/faults?\(query)").status == 400, "\(query)")
        }
        #expect(try open.admin("DELETE", "/-/faults/7").status == 404)
        #expect(try open.get("/a").status == 200)
    }
}
