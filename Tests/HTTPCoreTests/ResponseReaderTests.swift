// Tests of the response reader: each response whole, byte by byte, cut in two at every position, and followed by other bytes.

import Testing

@testable import HTTPCore

/// Result of reading a response.
private struct Reading: Equatable, CustomStringConvertible {
    enum End: Equatable {
        case needsMore, end
        case endWithSurplus(Int)
        case refused(ResponseReader.Refusal)
    }

    var statuses: [UInt16] = []
    var content = ""
    var end = End.needsMore

    var description: String { "\(statuses) \"\(content)\" \(end)" }

    /// Feeds pieces as a connection does, until the end.
    init(_ reader: inout ResponseReader, _ pieces: [ArraySlice<UInt8>]) {
        var left = pieces.reduce(0) { $0 + $1.count }
        for piece in pieces {
            let bytes = Array(piece)
            var position = 0
            reading: while true {
                let before = position
                let event = reader.next(bytes.span, &position)
                left -= position - before
                switch event {
                case .needsMore:
                    #expect(position == bytes.count, "unread bytes remain")
                    break reading
                case .headLines: #expect(position > before, "no line was consumed")
                case .informational(let head), .final(let head): statuses.append(head.status.rawValue)
                case .content(let range): content += String(decoding: bytes[range], as: UTF8.self)
                case .end(let hasSurplus):
                    #expect(hasSurplus == (position < bytes.count))
                    end = hasSurplus ? .endWithSurplus(left) : .end
                    return
                case .refused(let refusal):
                    end = .refused(refusal)
                    return
                }
            }
        }
    }

    init(_ statuses: [UInt16], _ content: String, _ end: End) {
        (self.statuses, self.content, self.end) = (statuses, content, end)
    }
}

private struct ResponseRow: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let method: Method
    let text: String
    let wanted: Reading
    let isPersistent: Bool

    init(
        _ description: String, _ text: String, to method: Method = .get, _ statuses: [UInt16], _ content: String, _ end: Reading.End,
        isPersistent: Bool = true
    ) {
        testDescription = description
        self.method = method
        self.text = text
        self.isPersistent = isPersistent
        wanted = Reading(statuses, content, end)
    }

    func reader() -> ResponseReader { ResponseReader(to: method, limits: ResponseLimits()) }

    static let whole: [ResponseRow] = [
        ResponseRow("Content-Length delimits the content", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]", [200], "[1]", .end),
        ResponseRow("Content-Length: 0 ends the response with its head", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", [200], "", .end),
        ResponseRow(
            "the last chunk ends the response; chunk framing is not content",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=\"1\"\r\n[1\r\n1\r\n]\r\n0\r\nT: x\r\n\r\n", [200], "[1]", .end),
        ResponseRow("a status without content ends the response with its head", "HTTP/1.1 204 No Content\r\n\r\n", [204], "", .end),
        ResponseRow("a 304 has no content, even with Content-Length", "HTTP/1.1 304 N\r\nContent-Length: 3\r\n\r\n", [304], "", .end),
        ResponseRow(
            "a response to HEAD has no content, even with Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", to: .head,
            [200], "", .end),
        ResponseRow(
            "a response to HEAD has no chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", to: .head, [200], "", .end),
        ResponseRow(
            "informational responses precede the final response",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1",
            [100, 103, 200], "1", .end),
        ResponseRow(
            "Connection: close ends the connection", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1", [200], "1",
            .end, isPersistent: false),
    ]

    static let unended: [ResponseRow] = [
        ResponseRow(
            "only the connection's end delimits the content", "HTTP/1.1 200 OK\r\n\r\n[1]", [200], "[1]", .needsMore, isPersistent: false),
        ResponseRow("less content than Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[1]", [200], "[1]", .needsMore),
        ResponseRow(
            "no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n", [200], "[1]", .needsMore),
        ResponseRow("half a head", "HTTP/1.1 200 OK\r\nContent-Le", [], "", .needsMore),
        ResponseRow("half a status line", "HTTP/1.1 2", [], "", .needsMore),
        ResponseRow("only an informational response", "HTTP/1.1 103 Early Hints\r\n\r\n", [103], "", .needsMore),
    ]

    static let refused: [ResponseRow] = [
        ResponseRow("no status line", "SSH-2.0-x\r\n", [], "", .refused(.head(.notHTTP))),
        ResponseRow("bytes that cannot begin a status line", "SSH", [], "", .refused(.head(.notHTTP))),
        ResponseRow(
            "an unterminated field line", "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: 70_000), [], "",
            .refused(.head(.headTooLong))),
        ResponseRow(
            "an unrequested transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", [], "", .refused(.head(.unknownCoding))
        ),
        ResponseRow(
            "a chunk's size that is no number", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", [200], "",
            .refused(.chunks(.size))),
        ResponseRow(
            "a chunk that is longer than its size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[1]\r\n", [200], "[",
            .refused(.chunks(.lineEnd))),
    ]
}

@Suite("Parsing of a response (RFC 9112 §6)")
struct ResponseReaderTests {
    /// Different splits of these bytes.
    private func ways(_ bytes: [UInt8]) -> [[ArraySlice<UInt8>]] {
        let cuts = bytes.count > 1_000 ? [1, 20, bytes.count - 1] : Array(0...bytes.count)
        let byteByByte = bytes.count > 1_000 ? [] : [bytes.indices.map { bytes[$0...$0] }]
        return cuts.map { [bytes[..<$0], bytes[$0...]] } + byteByByte
    }

    @Test("a response gives the same result whole and in pieces", arguments: ResponseRow.whole + ResponseRow.unended + ResponseRow.refused)
    fileprivate func pieces(_ row: ResponseRow) {
        for way in ways(Array(row.text.utf8)) {
            var reader = row.reader()
            let reading = Reading(&reader, way)
            #expect(reading == row.wanted, "in \(way.count) pieces of \(way.map(\.count).prefix(2))")
            let (hasBegun, isPersistent) = (reader.hasBegun, reader.isPersistent)
            #expect(hasBegun)
            #expect(isPersistent == row.isPersistent || !row.wanted.statuses.contains(200))
        }
    }

    @Test("surplus bytes after a response are accepted only without content or if the connection closes", arguments: ResponseRow.whole)
    fileprivate func surplus(_ row: ResponseRow) {
        let hasContent = row.wanted.content != "" || row.text.contains("Content-Length: 0")
        for surplus in ["H", "HTTP/1.1 200 OK\r\n\r\n", "\r\n"] {
            var reader = row.reader()
            let isRefused = hasContent && row.isPersistent
            let end = isRefused ? Reading.End.refused(.surplus) : .endWithSurplus(surplus.utf8.count)
            let reading = Reading(&reader, [Array((row.text + surplus).utf8)[...]])
            #expect(reading == Reading(row.wanted.statuses, row.wanted.content, end))
        }
    }

    @Test("a last chunk with surplus bytes after it is refused, even if the connection closes")
    func surplusBehindChunks() {
        let text = "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\nH"
        var reader = ResponseReader(to: .get, limits: ResponseLimits())
        let reading = Reading(&reader, [Array(text.utf8)[...]])
        #expect(reading == Reading([200], "1", .refused(.surplus)))
    }

    @Test("the close of the connection completes only a response without other delimiters", arguments: ResponseRow.unended, [false, true])
    fileprivate func connectionEnd(_ row: ResponseRow, isClean: Bool) {
        var reader = row.reader()
        let before = reader.atConnectionEnd(isClean: isClean)
        #expect(before == .nothing)
        _ = Reading(&reader, [Array(row.text.utf8)[...]])
        let hasNoOtherEnd = row.wanted.statuses.contains(200) && !row.isPersistent
        let ending = reader.atConnectionEnd(isClean: isClean)
        #expect(ending == (hasNoOtherEnd && isClean ? .whole : .incomplete))
    }

    @Test("the parser reports whether content comes next, so that it can be held back")
    func isInContent() {
        for row in ResponseRow.whole {
            let bytes = Array(row.text.utf8)
            var reader = row.reader()
            var content = 0
            for index in bytes.indices {
                let wasInContent = reader.isInContent
                let reading = Reading(&reader, [bytes[index...index]])
                content += reading.content.utf8.count
                #expect(reading.content.isEmpty || wasInContent, "\(row.testDescription)")
            }
            let isInContent = reader.isInContent
            #expect(content == row.wanted.content.utf8.count && !isInContent, "\(row.testDescription)")
        }
    }
}
