// Tests of filters for exchanges, and of pages with newer exchanges.

import Explanation
import Figures
import JSON
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Filtering and following exchanges", .play)
struct WhyFilterTests {
    private func targets(_ play: ProxyPlay, _ query: String) throws -> [String] {
        let response = try play.admin("GET", "/-/why?\(query)")
        #expect(response.status == 200, "\(query): \(response.text)")
        return try #require(JSONValue(response.content)?["exchanges"]?.array).compactMap { $0["target"]?.string }
    }

    @Test("exchanges are filtered by result, reason, status, class, time and path, alone and combined")
    func filters() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                switch request.target {
                case "/secret": [.json("{}", ["Cache-Control: no-store"])]
                case "/missing": [.json("{}", status: "404 Not Found")]
                default: [.json("{}", ["Cache-Control: max-age=60"])]
                }
            })
        for target in ["/a", "/a", "/secret", "/missing"] { _ = try play.get(target) }
        play.time.advance(by: .seconds(100))
        play.origin.down()
        for target in ["/a", "/none"] { _ = try play.get(target) }
        let rows: [(query: String, targets: [String])] = [
            ("", ["/none", "/a", "/missing", "/secret", "/a", "/a"]), ("result=hit", ["/a"]), ("result=rescued,error", ["/none", "/a"]),
            ("reason=no_store", ["/secret"]), ("reason=connection_refused", ["/none", "/a"]), ("reason=fresh", ["/a"]),
            ("reason=nothing_stored", ["/missing", "/secret", "/a"]), ("status=404", ["/missing"]), ("status=5xx", ["/none"]),
            ("status=2xx&path=/a&last=1", ["/a"]), ("result=error&status=2xx", []), ("reason=connection_refused&result=rescued", ["/a"]),
            ("slower=0&path=/s", ["/secret"]), ("slower=86400000", []),
        ]
        for row in rows { #expect(try targets(play, row.query) == row.targets, "\(row.query)") }
    }

    @Test("guessing a secret in a path filter reveals nothing")
    func secrets() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        _ = try play.get("/a?q=1&token=abc")
        for guess in ["a", "x", ""] {
            let found = try targets(play, "path=/a%3Fq=1%26token=\(guess)")
            #expect(found == ["/a?q=1&token=REDACTED"], "\(guess)")
        }
        #expect(try targets(play, "path=/a%3Fq=2") == [])
    }

    @Test(
        "an invalid filter gets 400 with the valid ones",
        arguments: [
            ("result=hits", "hit,miss,"), ("reason=nostore", "no_store"), ("slower=1s", "slower"), ("slower=-1", "slower"),
            ("status=5x", "5xx"),
            ("status=50", "5xx"), ("status=0xx", "5xx"), ("status=5000", "5xx"), ("status=+12", "5xx"), ("after=1", "next"),
            ("after=x.1", "next"), ("after=1.-1", "next"), ("after=", "next"),
        ])
    func mistakes(query: String, word: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let response = try play.admin("GET", "/-/why?\(query)")
        #expect(response.status == 400 && response.text.contains(word), "\(response.text)")
    }

    @Test("every reason that why reports is a valid filter")
    func reasons() throws {
        #expect(WhyFilter.reasons.isSuperset(of: ["no_store", "connection_refused", "key_failing", "offline", "refresh_ahead"]))
        #expect(WhyFilter.reasons.allSatisfy { $0.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" } })
    }

    @Test("exchanges since an earlier page are returned once, oldest first, from all event loops")
    func following() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { $0.shards = 2 }
        _ = try play.get("/before")
        var next = try #require(JSONValue(try play.admin("GET", "/-/why").content)?["next"]?.string)
        var seen: [String] = []
        for round in 0..<5 {
            for one in 0..<4 { _ = try play.client().get("/\(round)/\(one)") }
            let page = try #require(JSONValue(try play.admin("GET", "/-/why?after=\(next)").content))
            #expect(page["missed"]?.integer == 0)
            // Exchanges of one moment have no order, because each loop has its own records.
            seen += (page["exchanges"]?.array?.compactMap { $0["target"]?.string } ?? []).sorted()
            next = try #require(page["next"]?.string)
        }
        #expect(seen == (0..<5).flatMap { round in (0..<4).map { "/\(round)/\($0)" } })
        // A cursor of another process: all remembered exchanges are returned.
        #expect(try targets(play, "after=1.999999").count == 21)
    }

    @Test("unmatched records are skipped for good, pages end at their limit, and missed records are reported")
    func ring() {
        let ring = WhyRing(shard: 1, capacity: 10)
        func append(_ count: Int) {
            for _ in 0..<count {
                var record = ExchangeRecord(.miss, .get)
                record.number = ring.nextNumber()
                record.status = record.number % 2 == 0 ? 200 : 503
                ring.append(&record, target: Array("/\(record.number)".utf8)[...])
            }
        }
        func look(_ after: Int, limit: Int = 100, statuses: ClosedRange<UInt16>? = nil) -> (numbers: [UInt64], next: Int, missed: Int) {
            var filter = WhyFilter()
            filter.statuses = statuses
            var search = WhyRing.Search(limit: limit, filter: filter, after: [999, after])
            while ring.searchMore(&search) {}
            return (search.records.map(\.exchange.number), search.next, search.missed)
        }
        append(4)
        #expect(look(0) == ([1, 2, 3, 4], 4, 0))
        #expect(look(1, limit: 2) == ([2, 3], 3, 0))
        #expect(look(0, statuses: 500...599) == ([1, 3], 4, 0))
        #expect(look(4) == ([], 4, 0))
        append(11)
        #expect(look(4, limit: 3) == ([6, 7, 8], 8, 1))
        // A number beyond the newest record comes from another process.
        #expect(look(99) == ([], 15, 0))
        var newest = WhyRing.Search(limit: 1)
        while ring.searchMore(&newest) {}
        #expect(newest.records.map(\.exchange.number) == [15] && newest.next == 15)
    }

    @Test("one event loop turn returns at most a hundred records and examines a thousand", arguments: [true, false])
    func pieces(isAhead: Bool) {
        let ring = WhyRing(shard: 0, capacity: 5_000)
        for number in 1...4_500 {
            var record = ExchangeRecord(.miss, .get)
            record.number = ring.nextNumber()
            record.status = number <= 2_000 ? 200 : 503
            ring.append(&record, target: Array("/\(number)".utf8)[...])
        }
        func turns(_ limit: Int, _ change: (inout WhyFilter) -> Void = { _ in }) -> (turns: Int, found: [Int]) {
            var filter = WhyFilter()
            change(&filter)
            var search = WhyRing.Search(limit: limit, filter: filter, after: isAhead ? [0] : nil)
            var turns = 1
            while ring.searchMore(&search) { turns += 1 }
            #expect(search.records.map(\.exchange.number) == search.pieces.flatMap { $0.map(\.exchange.number) })
            return (turns, search.pieces.map(\.count))
        }
        let all = turns(10_000)
        #expect(all.turns >= 45 && all.found.max() ?? 0 <= 100 && all.found.reduce(0, +) == 4_500)
        #expect(turns(250).found.reduce(0, +) == 250)
        let none = turns(10) { $0.statuses = 404...404 }
        #expect(none.turns == 5 && none.found.isEmpty)
        // Filtering by reason takes longer.
        let reasons = turns(10) { $0.reason = "client_left" }
        #expect(reasons.turns == 45 && reasons.found.isEmpty)
    }
}
