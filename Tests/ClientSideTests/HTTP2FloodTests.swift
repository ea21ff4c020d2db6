// Tests of HTTP/2 floods with a bounded number of frames. The connection ends with ENHANCE_YOUR_CALM, the flood is counted, and other
// clients are not affected.

import Downstream
import HTTP2
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("HTTP/2 floods", .play)
struct HTTP2FloodTests {
    private typealias H = RawHTTP2

    struct Flood: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The frames of one turn.
        let make: @Sendable (UInt32) -> [UInt8]
    }

    static let floods = [
        Flood(testDescription: "PING") { _ in RawHTTP2.frame(.ping, 0, 0, [UInt8](repeating: 1, count: 8)) },
        Flood(testDescription: "SETTINGS") { _ in RawHTTP2.frame(.settings) },
        Flood(testDescription: "PRIORITY") { _ in RawHTTP2.frame(.priority, 0, 1, [0, 0, 0, 0, 1]) },
        Flood(testDescription: "frames that are not known") { _ in RawHTTP2.frame(.unknown) },
        Flood(testDescription: "WINDOW_UPDATE") { _ in RawHTTP2.frame(.window, 0, 0, RawHTTP2.number(1)) },
        Flood(testDescription: "empty DATA") { number in
            (number == 0
                ? RawHTTP2.request(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], ends: false) : [])
                + RawHTTP2.frame(.data, 0, 1)
        },
        Flood(testDescription: "DATA that is all padding") { number in
            (number == 0
                ? RawHTTP2.request(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], ends: false) : [])
                + RawHTTP2.frame(.data, 8, 1, [0])
        },
        Flood(testDescription: "GOAWAY beside an open stream") { number in
            (number == 0
                ? RawHTTP2.request(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], ends: false) : [])
                + RawHTTP2.frame(.goAway, 0, 0, RawHTTP2.number(0) + RawHTTP2.number(0))
        },
        Flood(testDescription: "heads on a stream that we have reset") { _ in
            RawHTTP2.request(1, RawHTTP2.usual + [("connection", "close")])
        },
        Flood(testDescription: "requests that are reset (CVE-2023-44487)") { number in
            RawHTTP2.request(2 * number + 1) + RawHTTP2.frame(.reset, 0, 2 * number + 1, RawHTTP2.number(8))
        },
        Flood(testDescription: "requests that have us reset them (CVE-2025-8671)") { number in
            RawHTTP2.request(2 * number + 1, RawHTTP2.usual, ends: false)
                + RawHTTP2.frame(.window, 0, 2 * number + 1, RawHTTP2.number(.max >> 1))
        },
        Flood(testDescription: "malformed requests") { number in RawHTTP2.request(2 * number + 1, [(":method", "GET")]) },
        Flood(testDescription: "parts of a head without end (CVE-2024-28182)") { number in
            number == 0 ? RawHTTP2.frame(.headers, 0, 1) : RawHTTP2.frame(.continuation, 0, 1)
        },
        Flood(testDescription: "a head that is small when compressed and large when decoded") { number in
            // Adds one long field to the table, then refers to it repeatedly by index.
            let entry: [UInt8] = [0x40, 1, 0x78, 0x7f, 0x81, 0x1e] + [UInt8](repeating: 0x61, count: 4_000)
            return RawHTTP2.frame(
                .headers, 5, 2 * number + 1,
                RawHTTP2.fields(RawHTTP2.usual) + (number == 0 ? entry : []) + [UInt8](repeating: 0xbe, count: 2_000))
        },
    ]

    @Test("a flood ends its own connection and no other", .slow, arguments: floods)
    func flood(_ flood: Flood) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }, clientProtocol: .http2)
        let other = try play.http2Client()
        #expect(other.get("/")?.status == 200)
        let client = try RawHTTP2Client(port: play.port)
        for number in 0..<UInt32(3_000) { client.send(flood.make(number)) }
        let end = client.next { $0.kind == RawHTTP2.Kind.goAway.rawValue }
        #expect(end?.number(at: 4) == HTTP2ErrorCode.enhanceYourCalm.rawValue)
        #expect(client.socket.isClosedByServer())
        #expect(other.get("/")?.status == 200)
        #expect(try play.waitFor("cistern_http2_connections_ended_total{cause=\"flood\"}", 1))
        #expect(try play.metric("cistern_unsent_bytes") == 0)
    }

    @Test("a client that cancels a moderate number of requests keeps its connection")
    func cancelling() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clientProtocol: .http2)
        let client = try play.http2Client()
        for number in 0..<150 {
            let stream = try #require(client.begin("GET", "/\(number)"))
            client.reset(stream)
        }
        #expect(client.get("/last")?.status == 200)
    }

    @Test("a client that acknowledges content in small pieces keeps its connection")
    func smallAcknowledgements() throws {
        let long = String(repeating: "x", count: 1 << 20)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer(long, type: "text/plain")] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        var received = 0
        client.send(RawHTTP2.request(1))
        while let frame = client.next(), frame.kind != H.Kind.goAway.rawValue {
            guard frame.kind == H.Kind.data.rawValue else { continue }
            received += frame.payload.count
            guard frame.flags & H.endStream == 0 else { break }
            var updates: [UInt8] = []
            for start in stride(from: 0, to: frame.payload.count, by: 512) {
                let count = RawHTTP2.number(UInt32(min(512, frame.payload.count - start)))
                for level: UInt32 in [0, 1] { updates += RawHTTP2.frame(.window, 0, level, count) }
            }
            client.send(updates)
        }
        #expect(received == long.utf8.count)
        // The window of the connection is not fully returned, but has room for another response's head.
        client.send(RawHTTP2.request(3))
        #expect(client.next { $0.kind == H.Kind.headers.rawValue }?.stream == 3)
        #expect(try play.metric("cistern_http2_connections_ended_total{cause=\"flood\"}") == 0)
    }

    @Test("an incomplete header block ends the connection after a timeout")
    func drippedHead() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        client.send(RawHTTP2.frame(.headers, 1, 1, RawHTTP2.fields(RawHTTP2.usual)))
        _ = client.next { $0.kind == RawHTTP2.Kind.settings.rawValue && $0.flags == 1 }
        play.time.advance(by: .seconds(11))
        #expect(client.next { $0.kind == RawHTTP2.Kind.goAway.rawValue }?.number(at: 4) == HTTP2ErrorCode.enhanceYourCalm.rawValue)
    }

    @Test("closed windows hold a bounded amount of memory, released when the client disconnects")
    func shutWindows() throws {
        let long = String(repeating: "x", count: 2 << 20)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer(long, type: "text/plain")] }, clientProtocol: .http2) {
            $0.downstream.outputHighWaterBytes = 64 << 10
        }
        do {
            let client = try HTTP2TestClient(port: play.port)
            client.consumes = false
            let streams = (0..<20).compactMap { client.begin("GET", "/\($0)") }
            for stream in streams { #expect(client.head(of: stream) != nil) }
            let held = try #require(try play.metric("cistern_unsent_bytes"))
            #expect(held < Double(20 * (1 << 20)))
            #expect(try play.get("/other").text == long)
            client.socket.endsWithReset()
        }
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
    }

    /// The socket is full, so nothing is written. Data that arrives from the upstream is still counted.
    @Test("memory held for a client that opens its windows but does not read is reported")
    func fullSocket() throws {
        let long = String(repeating: "x", count: 2 << 20)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer(long, type: "text/plain")] }, clientProtocol: .http2)
        do {
            let client = try RawHTTP2Client(port: play.port, settings: RawHTTP2.setting(4, .max >> 1))
            client.send(RawHTTP2.frame(.window, 0, 0, RawHTTP2.number((.max >> 1) - 65_535)))
            for number in 0..<UInt32(20) {
                let path = [(":method", "GET"), (":scheme", "http"), (":path", "/\(number)"), (":authority", "a.test")]
                client.send(RawHTTP2.request(2 * number + 1, path))
            }
            // Of 40 MB the kernel buffers about six; one connection may hold 16 MB.
            #expect(try play.waitFor("cistern_unsent_bytes", atLeast: 8_000_000))
            client.socket.endsWithReset()
        }
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
    }
}
