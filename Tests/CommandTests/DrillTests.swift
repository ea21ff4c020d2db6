// Tests of `cistern drill`: its report on its own, and with mixed traffic through a real proxy.

import Administration
import JSON
import ReverseProxy
import TestSupport
import Testing

@testable import cistern

@Suite("Drill report", .slow, .play)
struct DrillTests {
    private func play() throws -> ProxyPlay {
        try ProxyPlay(
            ScriptedOrigin { request in
                switch request.target {
                case "/html": [.answer("<p>", type: "text/html")]
                case "/events": [.answer("data: 1\n\n", type: "text/event-stream")]
                case "/no-store": [.json("{}", ["Cache-Control: no-store"])]
                case "/fresh": [.json("{}", ["Cache-Control: max-age=60"])]
                default: [.json("{}")]
                }
            }
        ) { $0.admin.allowsFaults = true }
    }

    private func exchanges(_ play: ProxyPlay) throws -> [JSONValue] {
        let page = try play.admin("GET", "/-/why?last=10000").content
        return try #require(JSONValue(page)?["exchanges"]?.array)
    }

    @Test("the report lists rescued and failed requests, causes, and settings that would prevent failures")
    func report() throws {
        let play = try play()
        for target in ["/stored", "/fresh", "/html", "/events", "/no-store", "/stored?page=2"] { _ = try play.get(target) }
        _ = try play.request("POST", "/orders", content: "x")
        var report = DrillReport(before: try exchanges(play))
        #expect(report.text.hasPrefix("No request was recorded"))
        play.time.advance(by: .seconds(61 - 30))
        _ = try play.admin("POST", "/-/faults?path=/**&effect=refuse&for=60")
        for target in ["/stored", "/stored?page=2", "/fresh", "/html", "/events", "/no-store", "/never"] { _ = try play.get(target) }
        _ = try play.get("/stored", [("Authorization", "Bearer other")])
        _ = try play.request("POST", "/orders", content: "x")
        for _ in 0..<2 { report.add(try exchanges(play)) }
        #expect(report.line == "9 requests, 2 rescued, 6 failed")
        let lines = report.text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(lines.first == "METHOD PATH REQUESTS FROM STORE RESCUED OLDEST FAILED")
        for line in [
            "GET /stored 3 0 2 31 s 1", "GET /fresh 1 1 0 - 0", "GET /html 1 0 0 - 1", "POST /orders 1 0 0 - 1",
            "9 requests: 1 from the store as usual, 2 rescued (the oldest 31 s old), 6 failed.", "Why requests failed:",
        ] { #expect(lines.contains(line), "\(line)\n\(report.text)") }
        let reasons: [(sentence: String, path: String, advice: String?)] = [
            ("1 × Writes, and other requests that are not reads, are never rescued.", "POST /orders", nil),
            (
                "1 × Not stored: responses with this media type are not stored.", "GET /html",
                "→ cache.content_types lists the media types that are stored"
            ),
            (
                "1 × Not stored: the response has Cache-Control: no-store.", "GET /no-store",
                "→ routes.freshness.ignore containing no-store: the route's responses are stored although they have no-store. "
                    + "The path has no route: add one, such as routes: [{name: no-store, path: '/no-store', "
                    + "freshness: {ignore: [no-store]}}]"
            ),
            ("1 × Responses are stored, but none for these users, arguments or contents.", "GET /stored", nil),
            (
                "1 × No response was stored, and no earlier request is recorded.", "GET /never",
                "→ cistern warm fetches responses in advance"
            ),
        ]
        for reason in reasons {
            let place = try #require(lines.firstIndex(of: reason.sentence), "\(reason.sentence)\n\(report.text)")
            #expect(lines[place + 1] == reason.path)
            if let advice = reason.advice { #expect(lines[place + 2] == advice) }
        }
        let events = try #require(lines.firstIndex(of: "GET /events"))
        #expect(lines[events - 1].hasPrefix("1 × Not stored: "))
    }

    @Test("exchanges that were evicted from the record before the drill read them are counted")
    func unseen() throws {
        func exchange(_ id: String) -> JSONValue { ["id": .string(id), "method": "GET", "target": "/a", "result": "rescued"] }
        var report = DrillReport(before: [exchange("0-7"), exchange("0-6")])
        report.add([exchange("0-9"), exchange("0-8")])
        #expect(!report.text.contains("more are missing"))
        report.add([exchange("0-15"), exchange("1-2")])
        #expect(report.text.contains("6 more are missing: "))
        #expect(report.line == "4 requests, 4 rescued, 0 failed" && report.text.contains("Every request got a response."))
    }

    @Test("the report summarizes many paths and their causes in a few lines")
    func many() throws {
        var report = DrillReport(before: [])
        let failed = (1...200).map { number -> JSONValue in
            ["id": .string("0-\(number)"), "method": "GET", "target": .string("/p/\(number)"), "result": "error", "found": "nothing"]
        }
        report.add(failed)
        #expect(report.text.contains("and 175 more paths with 175 requests, 175 of them failed\n"))
        #expect(report.text.contains("200 × No response was stored, and no earlier request is recorded.\n"))
        #expect(report.text.contains(", and 197 more\n"))
        #expect(report.text.split(separator: "\n").count < 40)
    }
}
