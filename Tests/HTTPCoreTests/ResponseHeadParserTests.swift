// A table of response heads with the parser's results.

import Testing

@testable import HTTPCore

@Suite("Response heads (RFC 9112 §4–§6)")
struct ResponseHeadParserTests {
    private static let limits = ResponseLimits()

    /// Returns the event of the last line.
    private func read(_ lines: [String]) -> ResponseHeadParser.Event {
        var head = ResponseHeadParser()
        var last = ResponseHeadParser.Event.more
        for line in lines {
            last = head.take(Array(line.utf8).span, limits: Self.limits).event
            if case .refused = last { return last }
        }
        return last
    }

    @Test(
        "the end of the content is determined by the head",
        arguments: [
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "\r\n"], .length(2)),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Content-Length: 2\r\n", "\r\n"], .length(2)),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Connection: a, Close\r\n", "\r\n"], .length(2)),
            (["HTTP/1.0 200 OK\r\n", "Content-Length: 2\r\n", "\r\n"], .length(2)),
            (["HTTP/1.1 200 OK\r\n", "Transfer-Encoding: Chunked\r\n", "\r\n"], .chunked),
            (["HTTP/1.1 200 OK\r\n", "\r\n"], .connectionEnd),
            (["HTTP/1.1 200\r\n", "\r\n"], .connectionEnd),
            (["HTTP/1.1 200 \n", "\n"], .connectionEnd),
            (["HTTP/1.1 204 No Content\r\n", "\r\n"], .byProtocol),
            (["HTTP/1.1 304 Not Modified\r\n", "Content-Length: 7\r\n", "\r\n"], .byProtocol),
            (
                ["HTTP/1.1 103 Early Hints\r\n", "\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "\r\n"],
                .length(2)
            ),
        ] as [([String], ResponseHeadParser.Framing)])
    func framing(lines: [String], wanted: ResponseHeadParser.Framing) {
        guard case .final(_, let framing) = read(lines) else {
            Issue.record("refused: \(lines)")
            return
        }
        #expect(framing == wanted)
    }

    @Test(
        "the head determines whether the connection persists",
        arguments: [
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "\r\n"], true), (["HTTP/1.1 204 No Content\r\n", "\r\n"], true),
            (["HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n", "Connection: keep-alive\r\n", "\r\n"], true),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Connection: a, Close\r\n", "\r\n"], false),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Proxy-Connection: x\r\n", "\r\n"], false),
            (["HTTP/1.0 200 OK\r\n", "Content-Length: 2\r\n", "Connection: keep-alive\r\n", "\r\n"], false),
            (["HTTP/1.1 200 OK\r\n", "\r\n"], false),
        ] as [([String], Bool)])
    func persistence(lines: [String], isPersistent: Bool) {
        var head = ResponseHeadParser()
        for line in lines { _ = head.take(Array(line.utf8).span, limits: Self.limits) }
        #expect(head.isPersistent == isPersistent)
    }

    @Test(
        "an invalid response head is refused with its cause",
        arguments: [
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Content-Length: 3\r\n", "\r\n"], .contentLengthsDiffer),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n", "\r\n"], .lengthAndCoding),
            (["HTTP/1.1 200 OK\r\n", "Content-Length:\r\n", "\r\n"], .contentLength),
            (["HTTP/1.1 200 OK\r\n", "Content-Length: 0x2\r\n", "\r\n"], .contentLength),
            (["HTTP/1.1 200 OK\r\n", "Transfer-Encoding: gzip, chunked\r\n", "\r\n"], .unknownCoding),
            (["HTTP/1.1 200 OK\r\n", "Transfer-Encoding:\r\n", "Content-Length: 2\r\n", "\r\n"], .emptyCoding),
            (["HTTP/1.1 200 OK\r\n", "Transfer-Encoding: ,\r\n", "\r\n"], .emptyCoding),
            (["HTTP/1.1 200 OK\r\n", "X: a\r\n", " b\r\n"], .foldedLine),
            (["HTTP/1.1 200 OK\r\n", "no colon\r\n"], .noColon),
            (["HTTP/1.1 200 OK\r\n", ": a\r\n"], .fieldName),
            (["HTTP/1.1 200 OK\r\n", "X: a\u{0}\r\n"], .fieldValue),
            (["HTTP/2 200\r\n"], .version),
            (["HTTP/1.1 2000 OK\r\n"], .statusLine),
            (["HTTP/1.1 099 OK\r\n"], .statusLine),
            (["HTTP/1.1 2x0 OK\r\n"], .statusLine),
            (["HTTP/1.1\r\n"], .statusLine),
            (["220 mail.example ESMTP\r\n"], .replyCode),
            (["220-ftp.example\r\n"], .replyCode),
            (["SSH-2.0-OpenSSH_9.2\r\n"], .notHTTP),
            (["\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\n"], .tlsRecord),
            (["\u{0}\u{0}\u{12}\u{4}\u{0}\u{0}\n"], .http2Frame),
            (["HTTP/1.0 200 OK\r\n", "Transfer-Encoding: chunked\r\n", "\r\n"], .codingInHTTP10),
            (["HTTP/1.1 200 OK\r\n", "X Y: a\r\n"], .fieldName),
            (["ICY 200 OK\r\n"], .notHTTP),
            (["\r\n"], .statusLine),
            (["HTTP/1.1 101 Switching Protocols\r\n", "\r\n"], .unaskedSwitch),
            ([String](repeating: "HTTP/1.1 103 E\r\n", count: 21).flatMap { [$0, "\r\n"] }, .informationalFlood),
            (["HTTP/1.1 200 OK\r\n"] + Array(repeating: "X: a\r\n", count: 1_001), .tooManyFields),
            (["HTTP/1.1 200 OK\r\n", "X: \(String(repeating: "a", count: 70_000))\r\n"], .headTooLong),
        ] as [([String], ResponseProblem)])
    func refused(lines: [String], wanted: ResponseProblem) {
        guard case .refused(let error) = read(lines) else {
            Issue.record("taken: \(lines.prefix(3))")
            return
        }
        #expect(error == wanted)
    }

    @Test("complete lines are consumed, and nothing after the end of the head")
    func wholeLines() {
        let first = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        let second = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
        let bytes = Array((first + second + "{}").utf8)
        for end in 0...bytes.count {
            var head = ResponseHeadParser()
            var (taken, statuses): (Int, [Status]) = (0, [])
            for available in [end, bytes.count] {
                var count = 1
                while count > 0, statuses.last != 200, taken <= available {
                    let event: ResponseHeadParser.Event
                    (event, count) = head.take(bytes.span.extracting(taken..<available), limits: Self.limits)
                    taken += count
                    switch event {
                    case .informational(let head), .final(let head, _): statuses.append(head.status)
                    case .more, .refused: break
                    }
                }
            }
            #expect(statuses == [103, 200] && taken == bytes.count - 2, "cut at \(end)")
        }
    }

    @Test(
        "white space between a name and its colon is removed (RFC 9112 §5.1)",
        arguments: ["Content-Length : 2", "Content-Length\t: 2", "Content-Length \t : 2"])
    func spacedColons(_ line: String) {
        var head = ResponseHeadParser()
        let bytes = Array("HTTP/1.1 200 OK\r\n\(line)\r\nX-A : b\r\nX-C: d\r\n\r\n".utf8)
        for end in 0..<bytes.count {
            var cut = ResponseHeadParser()
            let (_, count) = cut.take(bytes.span.extracting(..<end), limits: Self.limits)
            guard case .final(_, .length(2)) = cut.take(bytes.span.extracting(count...), limits: Self.limits).event else {
                Issue.record("refused where it is cut at \(end)")
                return
            }
        }
        guard case .final(let response, .length(2)) = head.take(bytes.span, limits: Self.limits).event else {
            Issue.record("refused")
            return
        }
        #expect(response.fields.all(named: Array("x-a".utf8).span).first?.elementsEqual("b".utf8) == true)
        #expect(response.fields.count == 3)
    }

    @Test("other invalid characters before a colon are refused", arguments: ["X A: b", " X: b", ": b", "X\0: b", " : b"])
    func oddNames(_ line: String) {
        var head = ResponseHeadParser()
        let event = head.take(Array("HTTP/1.1 200 OK\r\nY: z\r\n\(line)\r\n\r\n".utf8).span, limits: Self.limits).event
        guard case .refused = event else {
            Issue.record("\(event)")
            return
        }
    }

    @Test("white space around a field value is removed")
    func fields() {
        var head = ResponseHeadParser()
        for line in ["HTTP/1.1 200 Very  well\r\n", "X: \t a b \r\n"] { _ = head.take(Array(line.utf8).span, limits: Self.limits) }
        guard case .final(let response, _) = head.take(Array("\r\n".utf8).span, limits: Self.limits).event else {
            Issue.record("refused")
            return
        }
        #expect(response.reason.elementsEqual("Very  well".utf8))
        #expect(response.fields.value(at: 0).elementsEqual("a b".utf8))
    }
}
