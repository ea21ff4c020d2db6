// Tests of what keeps event loops responsive: pages rendered off the loop, connections closed in small steps, and metrics of event delays.

import Administration
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Event loop responsiveness", .play)
struct LoopTests {
    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }, configure)
    }

    @Test("concurrent requests for the metrics page each get the format they asked for", arguments: [1, 2])
    func pages(shards: Int) throws {
        let play = try play { $0.shards = shards }
        let clients = try (0..<40).map { number in
            let client = try play.client()
            let accept = number % 2 == 0 ? "text/plain" : "application/openmetrics-text"
            client.send("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: \(accept)\r\n\r\n")
            return client
        }
        for (number, client) in clients.enumerated() {
            let page = try #require(client.readResponse())
            #expect(page.status == 200 && page.text.hasSuffix("# EOF\n") == (number % 2 == 1))
            for shard in 0..<shards { #expect(page.text.contains("cistern_loop_longest_wait_seconds{shard=\"\(shard)\"}")) }
        }
    }

    @Test("the metrics page counts every response sent before it was requested")
    func counts() throws {
        let play = try play()
        for number in 1...5 {
            #expect(try play.get("/a\(number)").status == 200)
            #expect(try play.metric("cistern_requests_total{result=\"miss\",method=\"GET\",status_class=\"2xx\"}") == Double(number))
        }
    }

    @Test("event batches are counted, and /metrics and stats report the longest wait")
    func waits() throws {
        let play = try play()
        _ = try play.get("/a")
        #expect(try play.metric("cistern_loop_wait_seconds_count{shard=\"0\"}") ?? 0 > 0)
        let stats = try #require(JSONValue(play.admin("GET", "/-/stats").content))
        let loops = try #require(stats["loops"]?.array)
        #expect(loops.count == 1 && loops[0]["shard"]?.integer == 0)
        #expect(try #require(loops[0]["longest_wait_seconds"]?.double) >= 0)
    }

    @Test("connections that time out together are all closed")
    func sweep() throws {
        let play = try play()
        let clients = try (0..<100).map { _ in try play.client() }
        for client in clients { #expect(client.get("/a")?.status == 200) }
        play.time.advance(by: .seconds(3_600))
        for client in clients { #expect(client.isClosedByServer()) }
        #expect(try play.metric("cistern_connections_timed_out_total") == 100)
    }

    @Test("all explanations are found although the search is split into pieces", .slow)
    func explanations() throws {
        let play = try play { $0.records = 3_000 }
        for number in 0..<2_500 { _ = try play.get("/a/\(number % 2)") }
        let all = try #require(JSONValue(play.admin("GET", "/-/why?last=10000").content)?["exchanges"]?.array)
        #expect(all.count == 2_500)
        let some = try #require(JSONValue(play.admin("GET", "/-/why?last=10000&path=/a/1").content)?["exchanges"]?.array)
        #expect(some.count == 1_250)
    }
}
