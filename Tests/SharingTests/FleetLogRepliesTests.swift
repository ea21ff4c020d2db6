// Tests of the engine's replies about the log: impossible numbers are rejected before any calculation.

import Engine
import Fleet
import Testing

@testable import Sharing

@Suite("Redis replies about the fleet log")
struct FleetLogRepliesTests {
    struct TimeRow: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let reply: EngineReply
        let expected: Int64?

        init(_ sentence: String, _ seconds: String, _ micros: String, _ expected: Int64?) {
            (testDescription, self.expected) = (sentence, expected)
            reply = .list([.bytes(Array(seconds.utf8)), .bytes(Array(micros.utf8))])
        }
    }

    @Test(
        "the Redis server's time is parsed, and out-of-range values are rejected",
        arguments: [
            TimeRow("seconds and microseconds become milliseconds", "1700000000", "123999", 1_700_000_000_123),
            TimeRow("the start of the epoch", "0", "0", 0),
            TimeRow("the latest supported time", "1099511627775", "999999", 1_099_511_627_775_999),
            TimeRow("after the latest supported time", "1099511627776", "0", nil), TimeRow("before the epoch", "-1", "0", nil),
            TimeRow("the least integer of seconds", "-9223372036854775808", "0", nil),
            TimeRow("the greatest integer of seconds", "9223372036854775807", "0", nil),
            TimeRow("seconds that overflow", "9223372036854775808", "0", nil),
            TimeRow("negative microseconds", "1", "-1", nil), TimeRow("a million microseconds", "1", "1000000", nil),
            TimeRow("the least integer of microseconds", "1099511627775", "-9223372036854775808", nil),
            TimeRow("the greatest integer of microseconds", "1099511627775", "9223372036854775807", nil),
            TimeRow("text instead of numbers", "x", "", nil),
        ])
    func time(_ row: TimeRow) { #expect(FleetLog.time(row.reply) == row.expected) }

    @Test("a time with integers is parsed, and other replies are rejected")
    func otherTimes() {
        #expect(FleetLog.time(.list([.integer(1), .integer(2_000)])) == 1_002)
        #expect(FleetLog.time(.list([.integer(.min), .integer(.min)])) == nil)
        for reply in [.list([]), .list([.integer(1)]), .integer(1), .nothing, .list([.nothing, .nothing])] as [EngineReply] {
            #expect(FleetLog.time(reply) == nil)
        }
    }

    @Test(
        "the age of an entry never becomes negative or overflows",
        arguments: [
            (1_000, 1_500, 500), (1_000, 1_000, 0), (2_000, 1_000, 0), (0, -5, 0), (.max, -5, 0), (.max, .max, 0), (0, .max, .max),
            (UInt64(Int64.max), -2, 0), (UInt64(Int64.max) + 1, .max, 0), (5, nil, 0),
        ] as [(UInt64, Int64?, Int64)])
    func lag(milliseconds: UInt64, now: Int64?, expected: Int64) {
        #expect(FleetLog.lag(of: LogPosition(milliseconds), fleetNow: now) == expected)
    }

    @Test(
        "the number of connected replicas is parsed",
        arguments: [("2", 2), ("0", 0), ("-1", 0), ("9223372036854775807", Int.max), ("9223372036854775808", 0), ("x", 0)])
    func replicas(text: String, expected: Int) {
        #expect(FleetLog.replicas(InfoText(Array("connected_slaves:\(text)\r\n".utf8))) == expected)
    }

    @Test(
        "a negative count in the state of the log is rejected",
        arguments: [("-1", nil), ("9223372036854775807", UInt64(Int64.max)), ("9223372036854775808", nil), ("0", 0)] as [(String, UInt64?)])
    func stream(text: String, expected: UInt64?) {
        func reply(_ length: String, _ added: String) -> EngineReply {
            let words = [
                "length", length, "last-generated-id", "18446744073709551615-18446744073709551615", "entries-added", added, "odd",
            ]
            return .list(words.map { .bytes(Array($0.utf8)) })
        }
        #expect(FleetLog.stream(reply(text, "0"))?.count == expected)
        let stream = FleetLog.stream(reply("3", text))
        #expect(stream?.added == expected ?? 3 && stream?.last == LogPosition(.max, .max))
    }

    @Test(
        "only an error about lower IDs counts as an appended fence; other errors count as refusals",
        arguments: [
            ("ERR The ID specified in XADD is equal or smaller than the target stream top item", .alreadyBeyond),
            ("ERR The stream has exhausted the last possible ID, unable to add more items", .alreadyBeyond),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", .refused),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", .refused),
            ("ERR max number of clients reached", .refused),
        ] as [(String, LogWriter.Reply)])
    func fence(error: String, expected: LogWriter.Reply) {
        let reply = EngineReply.error(Array(error.utf8))
        #expect(FleetLog.reply(reply, at: LogPosition(5)) == expected)
        #expect(FleetLog.reply(reply, at: nil) == .refused)
    }
}
