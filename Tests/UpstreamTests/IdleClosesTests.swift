// Tests which idle connections carry unsafe requests after the upstream has closed idle connections.

import Figures
import TestSupport
import Testing

@testable import Upstream

@Suite("Closes of idle connections by the upstream", .play)
struct IdleClosesTests {
    enum Event: Sendable {
        /// The upstream closed a connection after this idle time in milliseconds.
        case close(Int64)
        /// This number of connections was still open after this idle time in milliseconds.
        case open(Int, Int64)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Events with the second of their occurrence.
        let events: [(second: Int64, event: Event)]
        /// Second of the unsafe request.
        let at: Int64
        /// First idle time in milliseconds that the request may not use; 4001 if nothing was learned.
        let limit: Int64

        init(_ name: String, _ events: [(Int64, Event)], at: Int64 = 0, limit: Int64) {
            (testDescription, self.events, self.at, self.limit) = (name, events.map { (second: $0.0, event: $0.1) }, at, limit)
        }
    }

    private static let rows = [
        Row("no close", [], limit: 4_001),
        Row("half of the time of a close", [(0, .close(300))], limit: 150),
        Row("half of the shortest time", [(0, .close(300)), (1, .close(200)), (2, .close(500))], at: 2, limit: 100),
        Row("a close at once excludes each idle connection", [(0, .close(0))], limit: 0),
        Row("a close after a millisecond too", [(0, .close(1))], limit: 0),
        Row("a close after twice the standard time has no effect", [(0, .close(8_000))], limit: 4_001),
        Row("a close after the standard time has", [(0, .close(7_000))], limit: 3_500),
        Row("each minute without a close doubles the limit", [(0, .close(300))], at: 60, limit: 300),
        Row("after some minutes the standard applies again", [(0, .close(300))], at: 300, limit: 4_001),
        Row("a limit of 0 ends too", [(0, .close(0))], at: 13 * 60, limit: 4_001),
        Row("a long time later", [(0, .close(0))], at: 1 << 40, limit: 4_001),
        Row("a similar close keeps the limit", [(0, .close(300)), (59, .close(400))], at: 60, limit: 150),
        Row("a close after more than twice the time does not", [(0, .close(300)), (59, .close(600))], at: 60, limit: 300),
        Row("after doubling, a close sets its own time", [(0, .close(300)), (61, .close(310))], at: 61, limit: 155),
        Row("sixteen connections that outlast the time double it", [(0, .close(300)), (1, .open(16, 300))], at: 1, limit: 300),
        Row("fifteen do not", [(0, .close(300)), (1, .open(15, 300))], at: 1, limit: 150),
        Row(
            "a close starts the count again", [(0, .close(300)), (1, .open(15, 300)), (2, .close(300)), (2, .open(15, 300))], at: 2,
            limit: 150),
        Row("connections that were idle for less prove nothing", [(0, .close(300)), (1, .open(99, 299))], at: 1, limit: 150),
        Row(
            "one close among many open connections is soon forgotten", [(0, .close(1)), (1, .open(13 * 16, 8_000))], at: 1, limit: 4_001),
    ]

    @Test("an unsafe request uses a connection only within the limit", arguments: rows)
    func limit(row: Row) {
        var closes = IdleCloses(standard: 4_000)
        for (second, event) in row.events {
            switch event {
            case .close(let idle): closes.noteClose(after: idle, at: second * 1_000)
            case .open(let count, let idle): for _ in 0..<count { _ = closes.noteOpen(after: idle, at: second * 1_000) }
            }
        }
        #expect(!closes.allowsWrite(after: row.limit, at: row.at * 1_000))
        #expect(row.limit == 0 || closes.allowsWrite(after: row.limit - 1, at: row.at * 1_000))
    }

    /// Returns whether a POST uses a connection that has been idle for this time. A GET has used it before.
    private func usesKept(_ asking: Asking, idle milliseconds: Int64) -> Bool {
        #expect(asking.ask("GET", "/warm").end() == .success(true))
        let before = asking.counters[.upstreamConnections]
        asking.time.advance(by: .milliseconds(milliseconds))
        #expect(asking.ask("POST", "/write").end() == .success(true))
        return asking.counters[.upstreamConnections] == before
    }

    @Test("after a close of an idle connection, a write uses only a connection that was idle for less than half of the time")
    func closed() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { $0.target == "/a" ? [.json("1"), .pass(gate), .close] : [.json("1")] }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(300))
        gate.open()
        #expect(try eventually { asking.ended(.closedByPeer) == 1 })
        #expect(usesKept(asking, idle: 149))
        #expect(!usesKept(asking, idle: 150))
        // A read may be sent again, so it uses any connection.
        let before = asking.counters[.upstreamConnections]
        asking.time.advance(by: .milliseconds(3_000))
        #expect(asking.ask("GET", "/b").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == before)
        asking.time.advance(by: .seconds(600))
        #expect(usesKept(asking, idle: 4_000))
    }

    @Test("a write that may not use a connection does not keep it from being counted later as open")
    func refused() throws {
        let gate = Gate()
        let origin = ScriptedOrigin {
            switch $0.target {
            case "/a": [.json("1"), .pass(gate), .close]
            case "/once": [.json("1", ["Connection: close"])]
            default: [.json("1")]
            }
        }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(1_500))
        gate.open()
        #expect(try eventually { asking.ended(.closedByPeer) == 1 })
        #expect(asking.ask("GET", "/b").end() == .success(true))
        for _ in 0..<16 {
            asking.time.advance(by: .milliseconds(1_200))
            #expect(asking.ask("POST", "/once").end() == .success(true))
            asking.time.advance(by: .milliseconds(400))
            #expect(asking.ask("GET", "/b").end() == .success(true))
        }
        #expect(usesKept(asking, idle: 1_499))
        #expect(!usesKept(asking, idle: 1_500))
    }

    @Test("a write that fails on a used connection without a byte of a response counts as a close", arguments: [OriginStep.close, .reset])
    func failed(step: OriginStep) {
        let origin = ScriptedOrigin { $0.target == "/fail" ? [step] : [.json("1")] }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(300))
        #expect(asking.ask("POST", "/fail").end() == .failure(.connectionTerminated))
        #expect(usesKept(asking, idle: 149))
        #expect(!usesKept(asking, idle: 150))
    }

    @Test(
        "the idle time before a failed write counts, unless the upstream may have processed the write",
        arguments: [(999, 150, false), (999, 149, true), (1_000, 4_000, true)] as [(Int64, Int64, Bool)])
    func failedLater(after: Int64, idle: Int64, isKept: Bool) {
        let gate = Gate()
        let origin = ScriptedOrigin { $0.target == "/fail" ? [.pass(gate), .close] : [.json("1")] }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(300))
        let failing = asking.ask("POST", "/fail")
        #expect(origin.waitForRequests(2))
        asking.time.advance(by: .milliseconds(after))
        gate.open()
        #expect(failing.end() == .failure(.connectionTerminated))
        #expect(usesKept(asking, idle: idle) == isKept)
    }

    /// A close that shows nothing about idle connections.
    struct OtherClose: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let method: String
        let steps: [OriginStep]
        /// Whether a request has used the connection before.
        var isUsed = true
    }

    @Test(
        "other closes are no evidence",
        arguments: [
            OtherClose(testDescription: "announced in the response", method: "GET", steps: [.json("1", ["Connection: close"]), .close]),
            OtherClose(testDescription: "a read fails", method: "GET", steps: [.close]),
            OtherClose(testDescription: "a write fails on a new connection", method: "POST", steps: [.close], isUsed: false),
            OtherClose(
                testDescription: "a write fails within the response", method: "POST", steps: [.send("HTTP/1.1 2"), .close]),
        ])
    func other(row: OtherClose) {
        let origin = ScriptedOrigin { $0.target == "/end" ? row.steps : [.json("1")] }
        let asking = Asking(origin)
        defer { asking.end() }
        if row.isUsed { #expect(asking.ask("GET", "/a").end() == .success(true)) }
        _ = asking.ask(row.method, "/end").end()
        #expect(usesKept(asking, idle: 4_000))
    }

    @Test("a close after the time that Keep-Alive announced is no evidence; one before it is", arguments: [(2_500, true), (1_900, false)])
    func announced(idle: Int64, isExpected: Bool) throws {
        let gate = Gate()
        let origin = ScriptedOrigin {
            $0.target == "/a" ? [.json("1", ["Keep-Alive: timeout=3"]), .pass(gate), .close] : [.json("1")]
        }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(idle))
        gate.open()
        #expect(try eventually { asking.ended(.closedByPeer) == 1 })
        #expect(usesKept(asking, idle: 4_000) == isExpected)
    }
}
