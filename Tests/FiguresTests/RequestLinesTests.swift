// Tests of the lines on a terminal: their content, and a terminal that is slow or stopped.

import Explanation
import Glibc
import HTTPCore
import TestSupport
import Testing

@testable import Figures

@Suite("Requests on a terminal")
struct RequestLinesTests {
    private static func text(
        _ result: CacheResult, _ target: [UInt8], status: UInt16 = 200, age: Int64? = nil, isColoured: Bool = false, api: String = ""
    )
        -> String
    {
        var record = ExchangeRecord(result, .get, status: status)
        (record.wall, record.durationMicroseconds, record.age) = (1_700_000_000_007, 1_234, age)
        let head = RequestHead(method: .get, target: target[...], version: .http11, fields: Fields())
        return String(decoding: RequestLine.text(record, head, api: api, isColoured: isColoured), as: UTF8.self)
    }

    @Test(
        "a line has time, status, result, duration and target, with values hidden",
        arguments: [
            ("/users", "GET /users"), ("/users?id=7&name=ann", "GET /users?id=…&name=…"), ("/a?s3cr3t", "GET /a?…"),
            ("/a?=s3cr3t", "GET /a?=…"),
            ("/a;id=s3cr3t?b=1", "GET /a…?b=…"), ("/a%3Fb=s3cr3t", "GET /a…"), ("/a?b%3Ds3cr3t=1", "GET /a?…"),
            ("/a?x[y]=1;z=2", "GET /a?x[y]=…&z=…"),
            ("/a?", "GET /a?"),
        ])
    func lines(target: String, expected: String) {
        let line = Self.text(.miss, Array(target.utf8))
        #expect(line.hasPrefix("22:13:20 200 miss ") && line.hasSuffix(" ms \(expected)\n"), "\(line)")
    }

    @Test("client data cannot send control sequences to the terminal, whatever its bytes")
    func controls() {
        for byte in UInt8.min...UInt8.max {
            let line = Self.text(
                .miss, [UInt8(ascii: "/"), byte, 0xc2, 0x9b] + Array("?".utf8) + [byte, 0x1b, UInt8(ascii: "="), byte], isColoured: false)
            let hasControls = line.unicodeScalars.dropLast().contains {
                $0.value < 0x20 || (0x7f...0x9f).contains($0.value) || $0.value > 0x2026
            }
            #expect(!hasControls, "\(byte)")
        }
        let long = Self.text(
            .miss, Array(("/" + String(repeating: "x", count: 9_000) + "?" + String(repeating: "a=1&", count: 5_000)).utf8))
        #expect(long.utf8.count < 600)
    }

    @Test("colours show the result, and notes the age")
    func colours() {
        let rows: [(CacheResult, UInt16, Int)] = [
            (.hit, 200, 32), (.rescued, 200, 33), (.stale, 200, 33), (.miss, 200, 36), (.miss, 503, 31), (.error, 502, 31),
            (.bypass, 204, 36),
        ]
        for (result, status, colour) in rows {
            let line = Self.text(result, Array("/a".utf8), status: status, isColoured: true)
            #expect(line.contains(" \u{1b}[\(colour)m\(status) \(result.label)\u{1b}[0m "), "\(line)")
        }
        #expect(Self.text(.hit, Array("/a".utf8), age: 42, api: "shop").hasSuffix(" [shop] GET /a (42 s old)\n"))
    }

    @Test("a stopped terminal blocks nobody: further requests are counted, and reported when it continues")
    func stopped() throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        defer { close(ends[0]) }
        // The pipe is full, like a terminal after Ctrl-S.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        while write(ends[1], [UInt8](repeating: 0x2e, count: 4_096), 4_096) > 0 {}
        _ = fcntl(ends[1], F_SETFL, 0)
        let lines = RequestLines(descriptor: ends[1], isColoured: false)
        let append = {
            guard lines.reserve() else { return }
            lines.append(Array("line\n".utf8))
        }
        for _ in 0..<RequestLines.limit { append() }
        #expect(lines.omitted == 0)
        for _ in 0..<10_000 { append() }
        #expect(lines.omitted >= 10_000 - RequestLines.limit)
        lines.finish(within: 0)
        TestThread.start { [end = ends[1]] in
            lines.finish(within: 600)
            close(end)
        }
        var text: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(ends[0], &piece, piece.count), count > 0 { text += piece[..<count] }
        let shown = String(decoding: text.filter { $0 != 0x2e }, as: UTF8.self)
        #expect(shown.contains("line\n") && shown.contains(" more requests\n"))
    }

    @Test("lines that are turned off are neither shown nor counted")
    func off() {
        let lines = RequestLines(descriptor: -1, isColoured: false)
        lines.turn(on: false)
        #expect(!lines.reserve() && lines.omitted == 0)
        lines.turn(on: true)
        #expect(lines.reserve())
    }
}
