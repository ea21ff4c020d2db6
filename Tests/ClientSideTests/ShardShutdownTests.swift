// Tests the end of a process with several shards: a client that follows another shard's fetch gets its response.

import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Shutdown of several shards", .play, .upstreams, .clientProtocol(.clear))
struct ShardShutdownTests {
    /// | the leader's shard                   | another shard |
    /// |--------------------------------------|---------------|
    /// | starts a fetch, its client leaves    |               |
    /// |                                      | follows       |
    /// | has no client: it is drained         | waits         |
    /// | the response arrives                 | responds      |
    @Test("a shard without clients keeps its fetches until all shards are idle")
    func follower() throws {
        // The kernel chooses the shard of each connection. In some rounds the two connections are on different shards.
        for round in 0..<8 {
            let (gate, reached) = (Gate(), Gate())
            let play = try ProxyPlay(ScriptedOrigin { _ in [.open(reached), .pass(gate), .json("1")] }, clientProtocol: .http2) {
                $0.shards = 4
            }
            var leader: TestClient? = try play.client()
            leader?.send("GET /slow HTTP/1.1\r\nHost: cistern.test\r\n\r\n")
            reached.pass()
            var follower: HTTP2TestClient? = try play.http2Client()
            let stream = try #require(follower?.begin("GET", "/slow"))
            #expect(try play.waitFor("cistern_requests_in_flight", 2))
            leader?.endsWithReset()
            leader = nil
            #expect(try play.waitFor("cistern_requests_in_flight", 1))
            let (stopping, stopped) = (StoppedPlay(play), Gate())
            TestThread.start {
                stopping.play.stop(deadline: .seconds(60))
                stopped.open()
            }
            #expect(follower?.waitForGoAway() != nil)
            gate.open()
            #expect(follower?.response(of: stream)?.text == "1", "round \(round)")
            follower = nil
            stopped.pass()
        }
    }
}
