// Tests our own validation of HTTP/2 responses, without the library, which refuses most invalid ones earlier.

import HTTP2
import HTTPCore
import Testing

@testable import Upstream

@Suite("HTTP/2 responses (RFC 9113 §8)")
struct HTTP2ResponseReaderTests {
    private func section(_ lines: [(String, String)]) -> HTTP2FieldSection {
        var section = HTTP2FieldSection()
        for (name, value) in lines {
            Array(name.utf8).withUnsafeBufferPointer { name in
                Array(value.utf8).withUnsafeBufferPointer { value in
                    _ = section.take(name, value, HTTP2FieldLimits(bytes: 10_000, count: 50))
                }
            }
        }
        return section
    }

    /// The status, or the fault.
    private func judge(_ lines: [(String, String)], to method: HTTPCore.Method = .get, isLast: Bool = false) -> String {
        var reader = HTTP2ResponseReader(to: method, limits: ResponseLimits())
        return describe(reader.take(section(lines), isLast: isLast))
    }

    private func describe(_ event: HTTP2ResponseReader.Event) -> String {
        switch event {
        case .informational(let head), .final(let head): "\(head.status.rawValue)"
        case .refused(let problem): "\(problem.kind)"
        }
    }

    @Test(
        "well-formed response heads are accepted and malformed ones rejected",
        arguments: [
            ([(":status", "200")], "200"), ([(":status", "599"), ("a", "b")], "599"), ([(":status", "600")], "malformed"),
            ([(":status", "099")], "malformed"), ([(":status", "20")], "malformed"), ([(":status", "2000")], "malformed"),
            ([(":status", "")], "malformed"), ([], "malformed"), ([("a", "b")], "malformed"), ([(":path", "/")], "malformed"),
            ([("a", "b"), (":status", "200")], "malformed"), ([(":status", "200"), (":status", "200")], "malformed"),
            ([(":status", "101")], "malformed"), ([(":status", "103")], "103"),
            ([(":status", "200"), ("A", "b")], "malformed"), ([(":status", "200"), ("a:", "b")], "malformed"),
            ([(":status", "200"), ("a", "b\r\nc: d")], "malformed"), ([(":status", "200"), ("a", "\0")], "malformed"),
            ([(":status", "200"), ("connection", "x")], "malformed"), ([(":status", "200"), ("transfer-encoding", "x")], "malformed"),
            ([(":status", "200"), ("proxy-connection", "x")], "malformed"), ([(":status", "200"), ("upgrade", "x")], "malformed"),
            ([(":status", "200"), ("content-length", "1x")], "malformed"), ([(":status", "304"), ("content-length", "7")], "304"),
            ([(":status", "200"), ("content-length", "2"), ("content-length", "2")], "200"),
            ([(":status", "200"), ("content-length", "2"), ("content-length", "3")], "malformed"),
            ([(":status", "200")] + (0..<60).map { ("a\($0)", "b") }, "tooLarge"),
        ] as [([(String, String)], String)])
    func heads(row: ([(String, String)], String)) {
        #expect(judge(row.0) == row.1)
    }

    @Test("at most twenty 1xx responses are accepted, none that ends the stream, and no second final head")
    func informational() {
        #expect(judge([(":status", "103")], isLast: true) == "malformed")
        var reader = HTTP2ResponseReader(to: .get, limits: ResponseLimits())
        #expect(!reader.hasBegun)
        for _ in 0..<20 { #expect(describe(reader.take(section([(":status", "103")]), isLast: false)) == "103") }
        #expect(reader.hasBegun && !reader.isWhole)
        var other = reader
        #expect(describe(reader.take(section([(":status", "103")]), isLast: false)) == "malformed")
        #expect(describe(other.take(section([(":status", "200")]), isLast: false)) == "200")
        #expect(describe(other.take(section([(":status", "200")]), isLast: false)) == "malformed")
    }

    @Test("content must match Content-Length, and is rejected where none is allowed")
    func content() {
        let rows: [(method: HTTPCore.Method, lines: [(String, String)], pieces: [Int], isTaken: Bool, isWhole: Bool)] = [
            (.get, [(":status", "200")], [5, 0, 7], true, true),
            (.get, [(":status", "200"), ("content-length", "3")], [1, 2], true, true),
            (.get, [(":status", "200"), ("content-length", "3")], [1, 1], true, false),
            (.get, [(":status", "200"), ("content-length", "3")], [4], false, false),
            (.head, [(":status", "200"), ("content-length", "3")], [], true, true), (.head, [(":status", "200")], [1], false, true),
            (.get, [(":status", "204")], [1], false, true), (.get, [(":status", "304"), ("content-length", "3")], [0], true, true),
        ]
        for row in rows {
            var reader = HTTP2ResponseReader(to: row.method, limits: ResponseLimits())
            #expect(reader.take(contentBytes: 1) == .unaskedContent && !reader.isWhole)
            _ = reader.take(section(row.lines), isLast: false)
            #expect(row.pieces.allSatisfy { reader.take(contentBytes: $0) == nil } == row.isTaken, "\(row)")
            #expect(reader.isWhole == row.isWhole, "\(row)")
        }
    }
}
