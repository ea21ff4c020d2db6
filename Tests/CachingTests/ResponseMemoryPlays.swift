// Plays of the memory for responses that are being received: one client cannot use it up, and no response is lost for lack of it.

import ReverseProxy
import TestSupport
import Testing

@Suite("Memory of responses", .play, .upstreams)
struct ResponseMemoryPlays {
    /// Takes a quarter of the memory.
    private static let content = LongContent(
        "", parts: ("{\"a\":\"" + String(repeating: "0123456789abcdef", count: 100 << 6), "\"}"))
    private static let held = "cistern_response_content_held_bytes"
    private static let notStored = "cistern_not_stored_total{reason=\"memory_limit\"}"

    /// The origin completes the responses when the gate opens. One client may use the memory of two.
    private func play(_ gate: Gate) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { $0.target == "/small" ? [.json("{}")] : Self.content.steps(gate) }) {
            $0.responseMemoryBytes = 512 << 10
        }
    }

    private func get(_ play: ProxyPlay, _ target: String, from address: String) throws -> TestClient {
        let client = try TestClient(port: play.port, from: address)
        client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        return client
    }

    @Test("one client's responses beyond its part are passed on and not stored; those of others are stored")
    func parts() throws {
        let gate = Gate()
        let play = try play(gate)
        let greedy = try (0..<3).map { try get(play, "/g\($0)", from: "127.0.0.8") }
        #expect(play.origin.waitForRequests(3))
        #expect(try play.waitFor(Self.held, 262_144))
        let other = try get(play, "/o", from: "127.0.0.9")
        #expect(play.origin.waitForRequests(4))
        gate.open()
        for client in greedy + [other] {
            let response = client.readResponse()
            #expect(response?.isComplete == true && response?.text == Self.content.text)
        }
        #expect(try play.waitFor(Self.notStored, 1))
        #expect(try play.waitFor(Self.held, 0))
        #expect(try play.get("/small").status == 200)
        play.origin.down()
        #expect(try play.get("/o").text == Self.content.text)
        #expect(try play.get("/small").status == 200)
    }

    @Test("a fetch whose client has left ends when there is no memory for it")
    func abandoned() throws {
        let gate = Gate()
        let play = try play(gate)
        for number in 1...3 {
            let client = try get(play, "/\(number)", from: "127.0.0.8")
            #expect(play.origin.waitForRequests(number))
            client.endsWithReset()
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        gate.open()
        #expect(try play.waitFor("cistern_stored_total", 2))
        #expect(try play.waitFor(Self.held, 0))
        #expect(try play.metric("cistern_upstream_active_requests") == 0)
    }
}
