// Tests of the ends of TLS connections: close_notify follows complete responses only, and a client that sent close_notify is not waited
// for.

import CSystem
import Glibc
import TestSupport
import Testing

@Suite("Closing TLS connections of clients", .play, .clientProtocol(.tls))
struct TLSEndTests {
    /// Content without a length. It ends when the gate is open.
    private static func origin(_ bytes: Int, until gate: Gate) -> ScriptedOrigin {
        ScriptedOrigin { request in
            guard request.target == "/long" else { return [.json("{}")] }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
            let chunk = String(bytes, radix: 16) + "\r\n" + String(repeating: "x", count: bytes) + "\r\n"
            return [.send(head + chunk), .pass(gate), .send("0\r\n\r\n")]
        }
    }

    @Test("close_notify that arrives with a request takes effect after its response")
    func closeNotify() throws {
        let play = try ProxyPlay(Self.origin(1, until: Gate()))
        let client = try play.client()
        client.tls?.sendLast(Array("GET /a HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
        #expect(client.readResponse()?.status == 200)
        #expect(client.isClosedByServer())
        let idle = try play.client()
        idle.tls?.sendLast(Array("\r\n".utf8))
        #expect(idle.isClosedByServer())
    }

    @Test("content that ends with the connection ends with close_notify, even if the client reads slowly")
    func slowReader() throws {
        let gate = Gate()
        let bytes = 400_000
        let play = try ProxyPlay(Self.origin(bytes, until: gate))
        let client = try play.client(sending: "GET /long HTTP/1.0\r\n\r\n")
        #expect(client.readResponseHead()?.status == 200)
        let server = try #require(client.serverDescriptor)
        // Fills the socket's send buffer, so that the kernel accepts no more.
        for _ in 0..<1_000 where csystem_unacknowledged(server) < 100_000 { _ = try play.get("/a") }
        var least: Int32 = 1
        setsockopt(server, SOL_SOCKET, SO_SNDBUF, &least, socklen_t(MemoryLayout<Int32>.size))
        gate.open()
        // The upstream's response has been read completely.
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        #expect(client.readToEnd().count == bytes)
        #expect(client.tls?.isClosed == true)
    }

    @Test("content cut by shutdown ends without close_notify")
    func cut() throws {
        let gate = Gate()
        let play = try ProxyPlay(Self.origin(100, until: gate))
        let client = try play.client(sending: "GET /long HTTP/1.0\r\n\r\n")
        #expect(client.readResponseHead()?.status == 200)
        #expect(client.read(100).count == 100)
        play.stop()
        #expect(client.readToEnd().isEmpty && client.tls?.isClosed == false)
        gate.open()
    }
}
