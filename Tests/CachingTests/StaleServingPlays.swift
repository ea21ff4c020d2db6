// Tests of stale responses that are served without asking: to HEAD and range requests (RFC 5861 §3), and to `max-stale` within the
// operator's limit. A newer 404 prevents that.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Stale responses served without asking", .play, .clientProtocols)
struct StaleServingPlays {
    private static let notFound = OriginStep.json("{\"error\":\"none\"}", status: "404 Not Found")

    /// An origin that numbers its responses.
    private func start(_ control: String, _ change: @escaping (inout Route) -> Void = { _ in }) throws -> ProxyPlay {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in [.json("{\"n\":\(counter.next())}", ["Cache-Control: \(control)"])] }
        return try ProxyPlay(origin) { change(&$0.otherRoute) }
    }

    private static let reads = [("HEAD", [], 200, ""), ("GET", [("Range", "bytes=0-3")], 206, "{\"n\"")] as [Read]
    typealias Read = (method: String, fields: [(String, String)], status: Int, text: String)

    @Test("HEAD and range requests get a stale response during its stale-while-revalidate, and a GET refreshes it", arguments: reads)
    func whileRevalidating(_ read: Read) throws {
        let play = try start("max-age=10, stale-while-revalidate=60")
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(20))
        let stale = try play.request(read.method, "/a", read.fields)
        #expect(stale.status == read.status && stale.text == read.text && stale["Age"] == "20")
        #expect(stale["Cistern-Stale"]?.contains("stale_while_revalidate") == true, "\(stale["Cistern-Stale"] ?? "")")
        #expect(play.origin.waitForRequests(2))
        let refresh = play.origin.requests.last
        #expect(refresh?.method == "GET" && refresh?["Range"] == nil)
        #expect(try eventually { try play.get("/a", [("Cache-Control", "only-if-cached")]).text == "{\"n\":2}" })
        #expect(play.origin.requests.count == 2)
    }

    @Test("HEAD and range requests refresh a response ahead by a complete GET", arguments: reads)
    func ahead(_ read: Read) throws {
        let play = try start("max-age=10") { $0.refreshAhead = 50 }
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(6))
        for _ in 1...3 { #expect(try play.request(read.method, "/a", read.fields).status == read.status) }
        #expect(play.origin.waitForRequests(2))
        let refresh = play.origin.requests.last
        #expect(refresh?.method == "GET" && refresh?["Range"] == nil)
        #expect(try eventually { try play.get("/a", [("Cache-Control", "only-if-cached")]).text == "{\"n\":2}" })
    }

    @Test("max-stale is limited by stale_for")
    func limitedMaxStale() throws {
        let play = try start("max-age=10") { $0.freshness.staleFor = 60 }
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(70))
        for value in ["max-stale", "max-stale=9999", "max-stale=60"] {
            #expect(try play.get("/a", [("Cache-Control", value)]).text == "{\"n\":1}")
        }
        #expect(try play.get("/a", [("Cache-Control", "max-stale=59")]).text == "{\"n\":2}")
        play.time.advance(by: .seconds(71))
        #expect(try play.get("/a", [("Cache-Control", "max-stale")]).text == "{\"n\":3}")
    }

    @Test("a newer 404 is served to max-stale instead of the older response, and a new response lifts it")
    func newerNotFound() throws {
        let play = try start("max-age=10")
        let maxStale = [("Cache-Control", "max-stale")]
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(20))
        #expect(try play.get("/a", maxStale).text == "{\"n\":1}")
        play.origin.react { _ in [Self.notFound] }
        #expect(try play.get("/a").status == 404)
        let count = play.origin.requests.count
        for _ in 1...3 { #expect(try play.get("/a", maxStale).status == 404) }
        #expect(try play.request("HEAD", "/a", maxStale).status == 404)
        #expect(play.origin.requests.count == count)
        play.origin.react { _ in [.json("{\"n\":5}")] }
        #expect(try play.get("/a").text == "{\"n\":5}")
        #expect(try play.get("/a", maxStale).text == "{\"n\":5}")
        #expect(play.origin.requests.count == count + 1)
    }

    @Test("a newer 404 prevents that the older response is served during its stale-while-revalidate")
    func notFoundWhileRevalidating() throws {
        let play = try start("max-age=10, stale-while-revalidate=600")
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(20))
        play.origin.react { _ in [Self.notFound] }
        #expect(try play.get("/a").text == "{\"n\":1}")
        #expect(try play.waitFor("cistern_gone_total{event=\"remembered\"}", 1))
        #expect(try play.get("/a").status == 404)
        #expect(try play.request("HEAD", "/a").status == 404)
    }
}
