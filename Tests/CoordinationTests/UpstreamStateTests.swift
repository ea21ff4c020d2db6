// The reported state of an upstream: a table of attempts, and properties under random schedules. No sockets; the clock counts seconds.

import Figures
import TestSupport
import Testing
import Upstream

@testable import ReverseProxy

@Suite("The reported state of an upstream")
struct UpstreamStateTests {
    /// A state, its clock, and all reports.
    private struct World {
        var state = UpstreamState(window: 10_000)
        var now: Int64 = 1_000_000
        var seen: [String] = []

        mutating func note() {
            if seen.last != state.report.words { seen.append(state.report.words) }
        }

        mutating func pass(_ seconds: Double) {
            now += Int64(seconds * 1_000)
            state.pass(now: now)
            note()
        }

        mutating func succeed(took: Double = 0) {
            state.succeed(began: now - Int64(took * 1_000), now: now)
            note()
        }

        mutating func fail(_ cause: String = "status_503", took: Double = 0) {
            state.fail(cause, began: now - Int64(took * 1_000), now: now)
            note()
        }

        mutating func address(isOpen: Bool) {
            state.note(isAddressOpen: isOpen, isRouteOpen: false, now: now)
            note()
        }

        /// One attempt in `every` seconds: `S` succeeds, `F` fails.
        mutating func play(_ attempts: String, every: Double = 4) {
            for attempt in attempts {
                if attempt == "S" { succeed() } else { fail() }
                pass(every)
            }
        }
    }

    private struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let expected: [String]
        let play: @Sendable (inout World) -> Void

        init(_ name: String, _ expected: [String], _ play: @escaping @Sendable (inout World) -> Void) {
            (self.name, self.expected, self.play) = (name, expected, play)
        }

        var testDescription: String { name }
    }

    private static func many(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    private static let rows = [
        Row("no requests", ["unknown"]) { $0.pass(1_000_000) },
        Row("successes, then no requests", ["up"]) {
            $0.play("SSS")
            $0.pass(1_000_000)
        },
        Row("a total outage with one request every four seconds: one change and one recovery", ["up", "down", "up"]) {
            $0.play(many("S", 20) + many("F", 15))
            $0.play(many("F", 60) + many("S", 60))
        },
        Row("a cold start in an outage", ["unknown", "down", "up"]) { $0.play(many("F", 15) + "S") },
        Row("an outage with much traffic, then no requests: down for 300 s, then unknown", ["up", "down", "unknown (last: down)"]) {
            $0.play(many("S", 200), every: 0.05)
            $0.play(many("F", 400), every: 0.05)
            $0.pass(299)
            #expect($0.state.report.state == .down)
            $0.pass(1)
        },
        Row(
            "unknown after down ends with the next attempt",
            ["unknown", "down", "unknown (last: down)", "down", "unknown (last: down)", "up"]
        ) {
            $0.play(many("F", 15))
            $0.pass(300)
            $0.play("F")
            $0.pass(300)
            $0.play("S")
        },
        Row("an outage shorter than the window is not down", ["up"]) {
            $0.play(many("S", 50) + many("F", 100) + many("S", 50), every: 0.05)
        },
        Row("one of three requests fails", ["up", "failing"]) { $0.play(many("SSF", 200)) },
        Row("one of three requests fails, then none", ["up", "failing", "up"]) { $0.play(many("SSF", 20) + many("S", 100)) },
        Row("failing does not end without requests", ["up", "failing"]) {
            $0.play(many("SSF", 20))
            $0.pass(1_000_000)
        },
        Row("half of the requests fail, then all", ["up", "failing", "down", "failing"]) {
            $0.play(many("SSFF", 20) + many("F", 40) + "S")
        },
        Row("one of a hundred requests fails", ["up"]) { $0.play(many(many("S", 99) + "F", 50), every: 0.1) },
        Row("nearly all requests fail with rare successes: the state does not flap", []) {
            $0.play(many("S", 30) + many(many("F", 30) + "S", 200))
            #expect($0.seen.count < 12 && $0.seen.last == "failing", "\($0.seen)")
            $0.seen = []
        },
        Row("an unreachable address is down at once; a connection alone is not a response", ["up", "down", "up"]) {
            $0.play("SSSS")
            for _ in 1...5 { $0.fail("connection_refused") }
            $0.address(isOpen: true)
            #expect($0.state.report.since == $0.now)
            $0.pass(60)
            $0.address(isOpen: false)
            #expect($0.state.report.isDown && $0.state.check(now: $0.now) == .due)
            $0.succeed()
        },
        Row("a hanging upstream: attempts fail after 30 s", ["up", "down", "up"]) {
            $0.play(many("S", 3))
            let began = $0.now
            for number in 0..<8 {
                $0.pass(number == 0 ? 30 : 4)
                $0.fail("connection_read_timeout", took: 30)
            }
            #expect($0.state.report.state == .down && $0.now - began <= 60_000)
            // A request that was sent before the outage is no evidence.
            $0.succeed(took: 58)
            #expect($0.state.report.isDown)
            $0.succeed(took: 1)
        },
        Row("a route whose breaker is open at recovery is not a new failure", ["up", "down", "up"]) {
            $0.play(many("S", 20) + many("F", 10))
            $0.succeed()
            $0.state.note(isAddressOpen: false, isRouteOpen: true, now: $0.now)
            $0.pass(1)
            $0.state.note(isAddressOpen: false, isRouteOpen: false, now: $0.now)
            $0.succeed()
        },
        Row("a short outage with late failures is not a partial failure", ["up"]) {
            $0.play(many("S", 3))
            for _ in 0..<3 { $0.fail("status_503") }
            $0.pass(8)
            $0.succeed()
            for _ in 0..<4 { $0.fail("connection_read_timeout", took: 5) }
            $0.play(many("S", 3))
        },
        Row("late failures of overtaken requests are not consecutive", ["up", "failing"]) {
            for _ in 0..<40 {
                $0.succeed()
                $0.pass(1)
                $0.fail("connection_read_timeout", took: 30)
            }
        },
    ]

    @Test("only attempts change the state", arguments: rows)
    private func table(_ row: Row) {
        var world = World()
        row.play(&world)
        #expect(world.seen == row.expected)
    }

    @Test("since is the first failure of the period, and the cause is that of the last failure")
    func since() {
        var world = World()
        world.play(Self.many("S", 20))
        let first = world.now
        world.play(Self.many("F", 20))
        world.fail("connection_refused")
        #expect(world.state.report.state == .down && world.state.report.since == first)
        #expect(world.state.report.cause == "connection_refused")
        world.play("S")
        #expect(world.state.report.since == nil && world.state.report.cause == nil)
    }

    @Test("a health check is due after a minute of down without an attempt, and while all requests fail")
    func checksDue() {
        var world = World()
        world.play(Self.many("S", 20))
        #expect(world.state.check(now: world.now) == .over)
        for _ in 1...5 { world.fail() }
        #expect(world.state.check(now: world.now) == .due)
        world.state.noteCheck(now: world.now)
        #expect(world.state.check(now: world.now) == .notYet(5_000))
        world.play(Self.many("F", 15))
        world.fail()
        #expect(world.state.report.isDown && world.state.check(now: world.now) == .notYet(60_000))
        world.pass(60)
        #expect(world.state.check(now: world.now) == .due)
        world.state.noteCheck(now: world.now)
        #expect(world.state.check(now: world.now) == .notYet(60_000))
    }

    @Test("a state inherited from another process stays down until an attempt succeeds")
    func inherited() {
        var world = World()
        world.state.inherit(UpstreamReport(.down, since: 5, cause: "status_503"))
        #expect(world.state.report.words == "unknown (last: down)" && world.state.report.since == 5)
        world.pass(1_000)
        #expect(world.state.check(now: world.now) == .due)
        world.succeed()
        #expect(world.state.report.state == .up)
    }

    @Test(
        "the states of several upstreams are combined",
        arguments: [
            ("up", "up", "up"), ("up", "down", "failing"), ("down", "down", "down"), ("unknown", "down", "down"),
            ("unknown", "unknown", "unknown"),
            ("failing", "up", "failing"), ("unknown", "up", "up"),
        ])
    func combined(one: String, other: String, expected: String) throws {
        func report(_ word: String) throws -> UpstreamReport {
            let state = try #require(UpstreamReport.State(rawValue: word))
            return UpstreamReport(state, since: state == .failing || state == .down ? 7 : nil)
        }
        let sum = try UpstreamReport.combined([report(one), report(other)])
        #expect(sum.state.rawValue == expected)
    }

    // MARK: Random schedules

    private struct Shares {
        var world = World()
        let share: Double
        let every: Double

        init(_ random: inout SeededGenerator) {
            (share, every) = (Double.random(in: 0...0.5, using: &random), Double.random(in: 0.01...4, using: &random))
            // The share of failures is known after a failure between successes.
            world.play(UpstreamStateTests.many("S", 5 + random.below(46)) + "FS", every: every)
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            if Double.random(in: 0..<1, using: &random) < share { world.fail() } else { world.succeed() }
            world.pass(every)
            try demand(!world.seen.contains("down"), "share \(share)")
        }

        mutating func end() throws {
            try demand(share <= 0.2 || world.state.report.state == .failing, "some fail: share \(share)")
            var (attempts, since) = (0, world.now)
            while !world.state.report.isDown, attempts < 300 || world.now - since < 20_000 {
                world.fail()
                attempts += 1
                world.pass(every)
            }
            try demand(world.state.report.isDown, "all fails: share \(share), \(attempts) attempts")
            since = world.state.report.since ?? 0
            try demand(since <= world.now && world.state.report.cause == "status_503")
            world.succeed()
            try demand(!world.state.report.isDown)
        }
    }

    @Test("an upstream with at most half of its requests failing is never down; with all failing it always is", .slow)
    func randomShares() {
        RandomSchedules.run(500, steps: 1_000) {
            Shares(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            try $0.end()
        }
    }
}
