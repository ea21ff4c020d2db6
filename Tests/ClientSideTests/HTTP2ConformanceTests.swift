// Tests of RFC 9113 and RFC 7541 by section: bytes from a client, and the error code that ends the stream or the connection, if any.

import HTTP2
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// Bytes after the preface and the client's SETTINGS, and the expected outcome.
struct ConformanceRow: Sendable, CustomTestStringConvertible {
    enum Outcome: Sendable {
        /// GOAWAY with one of these codes, then the end.
        case connection([HTTP2ErrorCode])
        /// RST_STREAM with one of these codes on this stream, or GOAWAY.
        case stream(UInt32, [HTTP2ErrorCode])
        /// A response with this status on this stream.
        case response(UInt32, String = "200")
        /// No error: a later PING is answered.
        case nothing
    }

    let section: String
    let sentence: String
    let bytes: [UInt8]
    let outcome: Outcome

    init(_ section: String, _ sentence: String, _ bytes: [UInt8], _ outcome: Outcome) {
        (self.section, self.sentence, self.bytes, self.outcome) = (section, sentence, bytes, outcome)
    }

    var testDescription: String { "§\(section): \(sentence)" }

    static func connection(_ codes: HTTP2ErrorCode...) -> Outcome { .connection(codes) }
    static func stream(_ codes: HTTP2ErrorCode..., of number: UInt32 = 1) -> Outcome { .stream(number, codes) }
}

@Suite("HTTP/2 conformance", .play)
struct HTTP2ConformanceTests {
    static let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }

    @Test("a violation ends its stream or connection with the error code of the RFC", arguments: HTTP2ConformanceRows.all)
    func row(_ row: ConformanceRow) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        client.send(row.bytes)
        switch row.outcome {
        case .connection(let codes):
            let end = client.next { $0.kind == RawHTTP2.Kind.goAway.rawValue }
            #expect(end.map { codes.map(\.rawValue).contains($0.number(at: 4)) } == true, "\(end.map { $0.number(at: 4) } ?? 99)")
            #expect(client.socket.isClosedByServer())
        case .stream(let number, let codes):
            let end = client.next {
                $0.kind == RawHTTP2.Kind.goAway.rawValue || $0.kind == RawHTTP2.Kind.reset.rawValue && $0.stream == number
            }
            let code = end.map { $0.number(at: $0.kind == RawHTTP2.Kind.goAway.rawValue ? 4 : 0) }
            #expect(codes.map(\.rawValue).contains(code ?? 99), "\(code ?? 99)")
        case .response(let number, let status):
            // Fields may be indexed or literal. The test checks only that the stream has a head and ends.
            let head = client.next { $0.kind == RawHTTP2.Kind.headers.rawValue && $0.stream == number || $0.isFailure }
            #expect(head?.kind == RawHTTP2.Kind.headers.rawValue && head?.status == status, "\(head?.kind ?? 99) \(head?.status ?? "")")
        case .nothing:
            client.send(RawHTTP2.frame(.ping, 0, 0, Array("12345678".utf8)))
            let pong = client.next { $0.kind == RawHTTP2.Kind.ping.rawValue || $0.isFailure }
            #expect(pong?.kind == RawHTTP2.Kind.ping.rawValue && pong?.flags == 1)
        }
    }

    @Test("bytes without the HTTP/2 preface are treated as HTTP/1.1 or refused")
    func prefaces() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clientProtocol: .http2)
        let client = try TestClient(port: play.port)
        client.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        #expect(client.readResponse()?.status == 505)
        let second = try TestClient(port: play.port)
        second.send(RawHTTP2.preface + RawHTTP2.frame(.ping, 0, 0, Array("12345678".utf8)))
        let raw = second.readToEnd()
        #expect(raw.count > 9)
    }

    @Test("content after a reset is an error, also if both arrive together")
    func contentBehindReset() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        let post = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")]
        client.send(RawHTTP2.request(1, post, ends: false) + RawHTTP2.frame(.ping, 0, 0, Array("12345678".utf8)))
        _ = client.next { $0.kind == RawHTTP2.Kind.ping.rawValue }
        client.send(RawHTTP2.frame(.reset, 0, 1, RawHTTP2.number(8)) + RawHTTP2.frame(.data, 1, 1, [1]))
        let end = client.next { $0.isFailure }
        #expect(end?.kind == RawHTTP2.Kind.goAway.rawValue && end?.number(at: 4) == HTTP2ErrorCode.streamClosed.rawValue)
    }

    @Test("a client that ignores the acknowledged stream limit loses its connection")
    func tooMany() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("{}")] }, clientProtocol: .http2)
        let client = try RawHTTP2Client(port: play.port)
        // Our limits apply once the client has acknowledged them.
        _ = client.next { $0.kind == RawHTTP2.Kind.settings.rawValue && $0.flags == 0 }
        client.send(RawHTTP2.frame(.settings, 1))
        for number in 0..<101 {
            let path = [(":method", "GET"), (":scheme", "http"), (":path", "/\(number)"), (":authority", "a.test")]
            client.send(RawHTTP2.request(UInt32(2 * number + 1), path))
        }
        let refused = client.next { $0.kind == RawHTTP2.Kind.reset.rawValue || $0.isFailure }
        #expect(refused?.kind == RawHTTP2.Kind.goAway.rawValue && refused?.number(at: 4) == HTTP2ErrorCode.protocolError.rawValue)
        gate.open()
    }
}

extension RawHTTP2Client.Frame {
    fileprivate var isFailure: Bool { kind == RawHTTP2.Kind.goAway.rawValue || kind == RawHTTP2.Kind.reset.rawValue }

    /// Status of a head whose `:status` is indexed (RFC 7541, appendix A), or literal with or without Huffman coding.
    fileprivate var status: String? {
        switch payload.first {
        case 0x88: "200"
        case 0x8c: "400"
        case 0x8d: "404"
        default: payload.first.map { _ in "other" }
        }
    }
}
