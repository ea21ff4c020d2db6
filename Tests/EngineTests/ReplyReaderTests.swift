// Tests of the reply parser: whole and split replies, and malicious ones.

import Testing

@testable import Engine

@Suite("Replies of Redis")
struct ReplyReaderTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let bytes: String
        let replies: [EngineReply]
        var testDescription: String { String(bytes.prefix(40).map { $0 == "\r\n" ? "␍" : $0 }) }

        init(_ bytes: String, _ replies: EngineReply...) { (self.bytes, self.replies) = (bytes, replies) }
    }

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    static let rows = [
        Row("+OK\r\n", .status(text("OK"))), Row("-ERR no\r\n", .error(text("ERR no"))), Row(":-42\r\n", .integer(-42)),
        Row(":9223372036854775807\r\n", .integer(.max)), Row("$5\r\na\r\nbc\r\n", .bytes(text("a\r\nbc"))), Row("$0\r\n\r\n", .bytes([])),
        Row("$-1\r\n", .nothing), Row("*-1\r\n", .nothing), Row("*0\r\n", .list([])), Row("+\r\n", .status([])),
        Row("*2\r\n*1\r\n:1\r\n$-1\r\n", .list([.list([.integer(1)]), .nothing])),
        Row("*3\r\n*0\r\n+a\r\n-b\r\n", .list([.list([]), .status(text("a")), .error(text("b"))])),
        Row("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", .list([.list([.list([.list([.list([.list([.list([.integer(7)])])])])])])])),
        Row("+a\r\n:1\r\n$1\r\nb\r\n", .status(text("a")), .integer(1), .bytes(text("b"))),
    ]

    private func read(_ bytes: [UInt8], pieces: Int, limits: EngineLimits = EngineLimits()) -> (replies: [EngineReply], isBroken: Bool) {
        let reader = ReplyReader(limits: limits)
        var replies: [EngineReply] = []
        var start = 0
        while start < bytes.count {
            let piece = bytes[start..<min(bytes.count, start + pieces)]
            start += pieces
            piece.withUnsafeBytes { reader.feed($0) }
            while let reply = reader.next() { replies.append(reply) }
        }
        return (replies, reader.isBroken)
    }

    @Test("each reply is parsed whole and when split at any byte", arguments: rows)
    func good(row: Row) {
        let bytes = Self.text(row.bytes)
        for pieces in 1...bytes.count {
            let result = read(bytes, pieces: pieces)
            #expect(result.replies == row.replies && !result.isBroken)
        }
        // A truncated reply is incomplete, but not an error.
        for count in 0..<bytes.count { #expect(read(Array(bytes[..<count]), pieces: 3).isBroken == false) }
    }

    @Test(
        "a malformed or oversized reply ends the connection before more of it is read",
        arguments: [
            "*2147483647\r\n", "*9223372036854775807\r\n", "*262145\r\n", "*-2\r\n", "*x\r\n", "$16777217\r\n", "$9223372036854775807\r\n",
            "$99999999999999999999999999\r\n", "$-2\r\n", "$x\r\n", "$\r\n", ":x\r\n", "?\r\n", "HTTP/1.1 400 Bad Request\r\n", "\r\n",
            "_\r\n", "%1\r\n+a\r\n+b\r\n", "$1\r\nabc\r\n:", "$00000000000000000000000000000001\r\n",
            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n",
            "*2\r\n*200000\r\n:1\r\n*262140\r\n", "*1\r\n*262144\r\n",
        ])
    func hostile(text: String) {
        let bytes = Self.text(text)
        // Some are detected only with more bytes.
        for pieces in [1, 2, 3, bytes.count] { #expect(read(bytes, pieces: pieces).isBroken || text.hasPrefix("*2\r\n*200000")) }
    }

    @Test("a line without an end is rejected")
    func endless() {
        #expect(read([UInt8](repeating: UInt8(ascii: "+"), count: 70_000), pieces: 4096).isBroken)
        #expect(!read([UInt8](repeating: UInt8(ascii: "+"), count: 60_000), pieces: 4096).isBroken)
        #expect(read(Self.text("$") + [UInt8](repeating: UInt8(ascii: "1"), count: 30), pieces: 1).isBroken)
    }

    @Test("many small elements are limited like one large reply")
    func manyElements() {
        var limits = EngineLimits()
        limits.replyElements = 100
        #expect(read(Self.text("*99\r\n" + String(repeating: ":1\r\n", count: 99)), pieces: 7, limits: limits).replies.count == 1)
        let nested = "*20\r\n" + String(repeating: "*9\r\n" + String(repeating: ":1\r\n", count: 9), count: 20)
        #expect(read(Self.text(nested), pieces: 7, limits: limits).isBroken)
        // The limit applies to each reply.
        #expect(
            read(Self.text(String(repeating: "*50\r\n" + String(repeating: ":1\r\n", count: 50), count: 9)), pieces: 11, limits: limits)
                .replies.count == 9)
        limits.replyBytes = 1000
        let long = "*99\r\n" + String(repeating: "$900\r\n" + String(repeating: "x", count: 900) + "\r\n", count: 99)
        #expect(read(Self.text(long), pieces: 1000, limits: limits).isBroken)
    }

    @Test("commands are encoded in RESP")
    func written() {
        let command = EngineCommand("SET", "a\r\n", String(repeating: "x", count: 100), "")
        #expect(
            command.bytes == Self.text("*4\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$100\r\n" + String(repeating: "x", count: 100) + "\r\n$0\r\n\r\n")
        )
    }

    @Test("commands composed of encoded words equal commands encoded at once")
    func putTogether() {
        let (key, lease) = (EngineKey(Self.text("a{b}")), EngineKey(Self.text("a{b}:l")[...], beside: EngineKey(Self.text("a{b}"))))
        #expect(lease == EngineKey(Self.text("a{b}:l")))
        let value = String(repeating: "v", count: 1234)
        var commands = EngineCommands()
        commands.add(EngineWords("GET"), key)
        commands.add(EngineWords("SET"), lease, EngineWords("me", "NX", "PX", "1500"))
        commands.add(EngineWords("SET"), key, valueBytes: 1234, { $0 += Self.text(value) }, EngineWords("PX", "10"))
        let same = EngineCommands([
            EngineCommand("GET", "a{b}", keyAt: 1), EngineCommand("SET", "a{b}:l", "me", "NX", "PX", "1500", keyAt: 1),
            EngineCommand("SET", "a{b}", value, "PX", "10", keyAt: 1),
        ])
        #expect(commands.bytes == same.bytes && commands.count == 3)
        for place in 0..<3 {
            #expect(commands.bytes(of: place) == same.bytes(of: place))
            #expect(commands.entries[place].slot == same.entries[place].slot && commands.entries[place].slot != nil)
        }
    }
}
