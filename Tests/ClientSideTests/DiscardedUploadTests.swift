// Tests that a client gets a response that was sent before its upload ended. Remaining content is read and discarded, up to a limit.

import Downstream
import HTTP2
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

private let discarded = "cistern_uploads_discarded_total"
private let cut = "cistern_uploads_cut_total"

@Suite("Request content that arrives after the response", .play)
struct DiscardedUploadTests {
    /// Causes of an early response.
    enum Early: CaseIterable { case outage, tooLarge, byUpstream }

    private static let limit = 1 << 20
    /// Exceeds the limit of one request and the kernel's buffers.
    private static let length = 12 << 20

    private func play(_ early: Early, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let origin = ScriptedOrigin { _ in [.json("{}", status: "413 Content Too Large", ["Connection: close"])] }
        if early == .byUpstream {
            origin.reactToExpectation { _ in [.json("{}", status: "413 Content Too Large", ["Connection: close"]), .close] }
        }
        let play = try ProxyPlay(origin) {
            $0.downstream.contentLimitBytes = early == .tooLarge ? Self.limit : 0
            configure(&$0)
        }
        if early == .outage { origin.down() }
        return play
    }

    private func status(_ early: Early) -> Int { early == .outage ? 502 : 413 }

    private let piece = [UInt8](repeating: 0x61, count: 256 << 10)

    @Test(
        "a client that reads only after sending everything receives the status", .http1Protocols, arguments: Early.allCases, [true, false])
    func readsLast(_ early: Early, hasLength: Bool) throws {
        let play = try play(early)
        let client = try play.client()
        let framing = hasLength ? "Content-Length: \(Self.length)" : "Transfer-Encoding: chunked"
        let expectation = early == .byUpstream ? "Expect: 100-continue\r\n" : ""
        client.send("POST /a HTTP/1.1\r\nHost: a\r\n\(expectation)\(framing)\r\n\r\n")
        for _ in 0..<(Self.length / piece.count) {
            if !hasLength { client.send("40000\r\n") }
            client.send(piece)
            if !hasLength { client.send("\r\n") }
        }
        if !hasLength { client.send("0\r\n\r\n") }
        let response = client.readResponse()
        #expect(response?.status == status(early) && response?.isComplete == true)
        if early != .byUpstream { #expect(try play.waitFor(discarded, 1)) }
        #expect(try play.metric(cut) == 0)
    }

    @Test("over HTTP/2 the stream is not reset after the response, and its window stays open", arguments: Early.allCases)
    func readsLastOverHTTP2(_ early: Early) throws {
        let play = try play(early) { $0.listening.listeners[0].takesClearHTTP2 = true }
        let client = try play.http2Client()
        let stream = try #require(client.begin("POST", "/a", early == .byUpstream ? [("expect", "100-continue")] : [], isOpen: true))
        let pieces = 12
        for number in 1...pieces { client.send(piece, on: stream, isLast: number == pieces) }
        let response = client.response(of: stream)
        #expect(response?.status == status(early) && response?.isComplete == true)
        #expect(client.resetCode(of: stream) == .noError, "closed by both sides, not reset")
        if early != .byUpstream { #expect(try play.waitFor(discarded, 1)) }
        #expect(try play.metric(cut) == 0 && play.metric("cistern_http2_resets_total") == 0)
        #expect(client.get("/b")?.status == status(early))
    }

    @Test("discarding stops after ten seconds or 32 MiB", .http1Protocols, arguments: [true, false])
    func ends(byTime: Bool) throws {
        let play = try play(.outage)
        let client = try play.client(sending: "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: \(1 << 40)\r\n\r\n")
        for _ in 0..<4 { client.send(piece) }
        #expect(client.readResponse()?.status == 502)
        #expect(try play.waitFor(discarded, 1))
        if byTime {
            play.time.advance(by: .seconds(9))
            for _ in 0..<4 { _ = try play.metric(cut) }
            #expect(try play.metric(cut) == 0)
            play.time.advance(by: .seconds(2))
        } else {
            for _ in 0..<((33 << 20) / piece.count) { client.send(piece) }
        }
        #expect(try play.waitFor(cut, 1))
        #expect(try play.waitFor("cistern_connections", 1))
    }

    @Test("over HTTP/2 the stream is then reset without an error", arguments: [true, false])
    func endsOverHTTP2(byTime: Bool) throws {
        let play = try play(.outage) {
            $0.listening.listeners[0].takesClearHTTP2 = true
            if !byTime { $0.downstream.discarding.bytes = 1 << 20 }
        }
        let client = try play.http2Client()
        let stream = try #require(client.begin("POST", "/a", isOpen: true))
        client.send(piece + piece, on: stream, isLast: false)
        #expect(client.response(of: stream)?.status == 502)
        #expect(try play.waitFor(discarded, 1))
        if byTime {
            play.time.advance(by: .seconds(11))
        } else {
            for _ in 0..<8 { client.send(piece, on: stream, isLast: false) }
        }
        #expect(client.resetCode(of: stream) == .noError)
        #expect(try play.waitFor(cut, 1))
        #expect([502, 503].contains(client.get("/b")?.status), "the connection stays open")
    }

    @Test("at most eight uploads per address are discarded at once; other addresses are unaffected")
    func crowd() throws {
        let play = try play(.outage)
        func upload(from source: String) throws -> TestClient {
            let client = try TestClient(port: play.port, from: source)
            client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: \(1 << 40)\r\n\r\n")
            client.send(piece + piece)
            #expect([502, 503].contains(client.readResponse()?.status))
            return client
        }
        let held = try (0..<9).map { _ in try upload(from: "127.0.0.66") }
        #expect(try play.waitFor(discarded, 9) && play.waitFor(cut, 1))
        let other = try upload(from: "127.0.0.67")
        #expect(try play.waitFor(discarded, 10))
        #expect(try play.metric(cut) == 1)
        withExtendedLifetime((held, other)) {}
    }

    @Test("resetting an upload after its response does not count toward the reset limit")
    func givesUp() throws {
        let play = try play(.outage) {
            $0.listening.listeners[0].takesClearHTTP2 = true
            $0.downstream.http2.resets = 3
        }
        let client = try play.http2Client()
        for _ in 0..<8 {
            let stream = try #require(client.begin("POST", "/a", isOpen: true))
            client.send(piece + piece, on: stream, isLast: false)
            #expect([502, 503].contains(client.response(of: stream)?.status))
            client.reset(stream)
        }
        #expect([502, 503].contains(client.get("/b")?.status))
    }

    @Test("stalled uploads leave connection window for other streams")
    func otherUploads() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { request in [.json("\(request.content.count)")] }
        origin.reactToExpectation { _ in [.pass(gate)] }
        let play = try ProxyPlay(origin) { $0.listening.listeners[0].takesClearHTTP2 = true }
        let client = try play.http2Client()
        let stalled = try (0..<40).map { _ in
            let stream = try #require(client.begin("POST", "/stalled", [("expect", "100-continue")], isOpen: true))
            client.send(piece + piece, on: stream, isLast: false)
            return stream
        }
        let upload = try #require(client.begin("POST", "/well", isOpen: true))
        client.send(piece + piece, on: upload, isLast: true)
        #expect(client.response(of: upload)?.text == "\(2 * piece.count)")
        gate.open()
        for stream in stalled { client.reset(stream) }
    }
}
