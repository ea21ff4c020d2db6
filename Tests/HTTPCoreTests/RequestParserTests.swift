// Tests of the request parser with its corpus: each request whole, byte by byte, and followed by bytes of another request.

import Testing

@testable import HTTPCore

private enum Verdict: Equatable {
    case more
    case taken(Int)
    case refused(UInt16)
}

private func parse(_ bytes: [UInt8], _ parser: inout RequestParser) -> Verdict {
    switch parser.parse(bytes.span, limits: RequestLimits()) {
    case .needsMore: .more
    case .head(_, _, let consumed): .taken(consumed)
    case .refused(let rejection): .refused(rejection.status.rawValue)
    }
}

@Suite("The request parser (RFC 9112 §2–§6)")
struct RequestParserTests {
    @Test("each request of the corpus gets the expected verdict, however its bytes are split", arguments: RequestCorpus.all)
    func corpus(_ row: RequestCorpus.Row) {
        var whole = RequestParser()
        let verdict = parse(row.bytes, &whole)
        switch row.expected {
        case 200:
            guard case .taken(let consumed) = verdict else {
                Issue.record("refused or incomplete: \(verdict)")
                return
            }
            for next in ["GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "X: a\r\n\r\n", "\r\n\r\n", "\r\n"] {
                var trailing = RequestParser()
                #expect(parse(row.bytes + Array(next.utf8), &trailing) == .taken(consumed), "\(next)")
            }
        case 0: #expect(verdict == .more)
        default: #expect(verdict == .refused(row.expected))
        }
        var slow = RequestParser()
        var last = Verdict.more
        for count in 1...row.bytes.count where last == .more { last = parse(Array(row.bytes[..<count]), &slow) }
        #expect(last == verdict)
    }

    @Test(
        "bytes beyond ASCII in a target are percent-encoded, even if they are not valid UTF-8",
        arguments: [
            (Array("/caf\u{e9}?q=\u{1f600}".utf8), "/caf%C3%A9?q=%F0%9F%98%80"), ([0x2f, 0xe4, 0x80, 0xff], "/%E4%80%FF"),
            (Array("/%c3%a9\u{e9}".utf8), "/%c3%a9%C3%A9"), (Array("http://a/\u{e9}".utf8), "http://a/%C3%A9"),
        ] as [([UInt8], String)])
    func rawTarget(target: [UInt8], expected: String) {
        let text = Array("GET ".utf8) + target + Array(" HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        var parser = RequestParser()
        guard case .head(let head, _, let consumed) = parser.parse(text.span, limits: RequestLimits()) else {
            Issue.record("the head is not accepted")
            return
        }
        #expect(consumed == text.count)
        #expect(String(decoding: head.target, as: UTF8.self) == expected)
    }

    @Test("the length limit of targets applies to the encoded target")
    func longRawTarget() {
        let target = Array(repeating: UInt8(0xe4), count: 3_000)
        let text = Array("GET /".utf8) + target + Array(" HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        var parser = RequestParser()
        #expect(parse(text, &parser) == .refused(414))
    }

    @Test("a request head is split into its parts as it was sent")
    func parts() throws {
        let text = Array("GET /a?b=%20 HTTP/1.1\r\nHost: h:80\r\nX-Y:  v w \t\r\nEmpty:\r\nX-Y: \u{e4}\r\n\r\n".utf8)
        var parser = RequestParser()
        guard case .head(let head, let framing, let consumed) = parser.parse(text.span, limits: RequestLimits()) else {
            Issue.record("the head is not accepted")
            return
        }
        #expect(consumed == text.count)
        #expect(framing == .none)
        #expect(head.method == .get)
        #expect(Array(head.target) == Array("/a?b=%20".utf8))
        #expect(head.fields.first(.host).map(Array.init) == Array("h:80".utf8))
        let name = Array("x-y".utf8)
        let values = head.fields.all(named: name.span).map { String(decoding: $0, as: UTF8.self) }
        #expect(values == ["v w", "\u{e4}"])
        #expect(head.fields.count == 4)
    }

    @Test("the framing is determined by Content-Length and Transfer-Encoding")
    func framing() {
        for (fields, expected) in [
            ("", ContentFraming.none), ("Content-Length: 5\r\n", .length(5)), ("Transfer-Encoding: Chunked\r\n", .chunked),
        ] {
            let bytes = Array("POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n".utf8)
            var parser = RequestParser()
            guard case .head(_, let framing, _) = parser.parse(bytes.span, limits: RequestLimits()) else {
                Issue.record("not taken: \(fields)")
                continue
            }
            #expect(framing == expected)
        }
    }

    @Test(
        "a second Content-Type is refused for any method, because upstreams differ in which one they use",
        arguments: ["GET", "POST"])
    func contentTypes(method: String) {
        let text = "\(method) / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\ncontent-type: application/json\r\n\r\n"
        var parser = RequestParser()
        guard case .refused(let rejection) = parser.parse(Array(text.utf8).span, limits: RequestLimits()) else {
            Issue.record("taken")
            return
        }
        #expect(rejection.kind == .malformed && rejection.status == 400)
        #expect(throws: RequestRejection.self) {
            try RequestParser.read(written: Array(text.utf8).span, version: .http2, limits: RequestLimits())
        }
    }
}
