// How things are, in one sentence: a table from figures to words.

import Explanation
import Telemetry
import Testing

@Suite("The sentence that tells the state")
struct StateSentenceTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let expected: String
        let level: StateSentence.Level
        let change: @Sendable (inout StateSentence) -> Void

        init(_ expected: String, _ level: StateSentence.Level, _ change: @escaping @Sendable (inout StateSentence) -> Void) {
            (self.expected, self.level, self.change) = (expected, level, change)
        }

        var testDescription: String { expected }
    }

    private static func down(_ name: String, _ seconds: Int64, _ cause: String = "connection_refused") -> StateSentence.Outage {
        StateSentence.Outage(name: name, seconds: seconds, cause: StateSentence.words(ofCause: cause))
    }

    private static let route = StateSentence.Trouble(place: "the route search", isMany: false, seconds: 130, cause: "status 500")
    private static let paths = StateSentence.Trouble(place: "3 paths of users", isMany: true, seconds: 59, cause: "too slow")
    /// As above, but it was well in between.
    private static func onAndOff(ended: Int64? = nil) -> StateSentence.Trouble {
        var trouble = route
        (trouble.isOnAndOff, trouble.ended) = (true, ended)
        return trouble
    }

    private static let pause = StateSentence.Trouble(
        .pause, place: "it asked for a pause on 1 path", isMany: false, seconds: 30, cause: "status 503")
    private static let address = StateSentence.Trouble(
        .address, place: "1 of 2 addresses", isMany: false, seconds: 5, cause: "connection refused")

    /// By the letters of the alphabet.
    private static func upstreams(_ states: UpstreamState...) -> [(name: String, state: UpstreamState)] {
        zip(["a", "b", "c", "d", "e"], states).map { ($0, $1) }
    }

    private static func counts(rescued: UInt64 = 0, failed: UInt64 = 0) -> StateSentence.Counts {
        StateSentence.Counts(rescued: rescued, failed: failed)
    }

    private static let rows = [
        Row("The upstream responds.", .well) { _ in },
        Row("All 3 upstreams respond.", .well) { $0.upstreams = upstreams(.responds, .responds, .responds) },
        Row("users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min.", .strained) {
            $0.upstreams = upstreams(.responds, .responds)
            ($0.outages, $0.since, $0.oldestCopy) = ([down("users", 245)], counts(rescued: 1_204), 730)
        },
        Row("users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min, 3 failed.", .down) {
            $0.upstreams = upstreams(.responds, .responds)
            ($0.outages, $0.since, $0.oldestCopy) = ([down("users", 245)], counts(rescued: 1_204, failed: 3), 730)
            $0.failedLately = 2
        },
        Row("The upstream has been down for 59 s (connection timeout); nothing rescued, 17 failed.", .down) {
            ($0.upstreams, $0.outages, $0.since) = ([], [down("", 59, "connection_timeout")], counts(failed: 17))
        },
        Row("The upstream has been down for 3 h (status 503); 1 request rescued, oldest copy 2 d.", .down) {
            ($0.upstreams, $0.outages) = ([], [down("", 10_900, "status_503")])
            ($0.since, $0.oldestCopy) = (counts(rescued: 1), 172_800)
        },
        Row(
            "a has been down for 2 h (connection refused), b for 60 min (connection refused) and c for 1 s (responses that are none); "
                + "2 requests rescued, oldest copy 0 s, 1,000,000 failed.", .strained
        ) {
            $0.outages = [down("a", 7_200), down("b", 3_600), down("c", 1, "junk")]
            ($0.since, $0.oldestCopy) = (counts(rescued: 2, failed: 1_000_000), 0)
        },
        Row(
            "a has been down for 5 s (connection refused), b for 4 s (connection refused), c for 3 s (connection refused) and 2 more; nothing rescued.",
            .down
        ) {
            $0.upstreams = []
            $0.outages = [down("a", 5), down("b", 4), down("c", 3), down("d", 2), down("e", 1)]
        },
        Row(
            "users has been down for 4 min (connection refused); nothing rescued. b did not respond when it was last asked. Besides, 3 paths of users "
                + "have been failing for 59 s (too slow). Elsewhere 2 requests failed in the last 5 min.", .down
        ) {
            ($0.upstreams, $0.outages) = (upstreams(.responds, .silent), [down("users", 245)])
            ($0.troubles, $0.lately) = ([paths], counts(failed: 2))
        },
        Row("The upstream responds, but the route search has been failing for 2 min (status 500); 3 requests rescued.", .strained) {
            ($0.troubles, $0.since) = ([route], counts(rescued: 3))
        },
        Row("The upstream responds, but the route search has been failing on and off for 2 min (status 500); nothing rescued.", .strained) {
            $0.troubles = [onAndOff()]
        },
        Row(
            "The upstream responds, but the route search has been failing on and off for 2 min (status 500, last 8 s ago); nothing rescued.",
            .strained
        ) { $0.troubles = [onAndOff(ended: 8)] },
        Row("users has been down on and off for 4 min (too slow); nothing rescued.", .down) {
            $0.outages = [StateSentence.Outage(name: "users", seconds: 245, cause: "too slow", isOnAndOff: true)]
        },
        Row(
            "All 2 upstreams respond, but the route search has been failing for 2 min (status 500) and 3 paths of users have been failing for 59 s "
                + "(too slow); nothing rescued.", .strained
        ) {
            ($0.upstreams, $0.troubles) = (upstreams(.responds, .responds), [route, paths])
        },
        Row("The upstream responds, but it asked for a pause on 1 path 30 s ago (status 503); nothing rescued, 6 failed.", .strained) {
            ($0.troubles, $0.since) = ([pause], counts(failed: 6))
        },
        Row("The upstream responds, but 1 of 2 addresses has been down for 5 s (connection refused).", .strained) {
            $0.troubles = [address]
        },
        Row(
            "The upstream responds, but 1 of 2 addresses has been down for 5 s (connection refused); 2 requests failed in the last 5 min.",
            .strained
        ) { ($0.troubles, $0.lately) = ([address], counts(failed: 2)) },
        Row("The upstream responds; within the last 5 min 12 requests rescued, oldest copy 8 s.", .strained) {
            ($0.lately, $0.oldestCopy) = (counts(rescued: 12), 8)
        },
        Row("The upstream responds, but 20 requests failed in the last 5 min.", .strained) { $0.lately = counts(failed: 20) },
        Row("All 2 upstreams respond, but 20 requests for b, c, d and 1 more failed in the last 5 min.", .strained) {
            ($0.upstreams, $0.lately, $0.failing) = (upstreams(.responds, .responds), counts(failed: 20), ["b", "c", "d", "e"])
        },
        Row("The upstream responds, but 1 request failed in the last 5 min; 12 requests rescued, oldest copy 8 s.", .strained) {
            ($0.lately, $0.oldestCopy) = (counts(rescued: 12, failed: 1), 8)
        },
        Row("The upstream responds. The mode is offline, not live. 2 faults are injected, to practise an outage.", .strained) {
            ($0.modes, $0.faults) = (["offline"], 2)
        },
        Row("The upstream responds. One mode is for some paths only.", .well) { $0.exceptions = 1 },
        Row("The upstream responds. The store cannot be written to. Cistern is stopping.", .strained) {
            ($0.isStoreWritable, $0.isStopping) = (false, true)
        },
        Row("The upstream responds.", .well) { $0.isStoreWritable = nil },
    ]

    /// What is said of upstreams by what came from them last.
    private static let stateRows = [
        Row("The upstream has not been asked for anything yet.", .well) { $0.upstreams = upstreams(.unasked) },
        Row("No upstream has been asked for anything yet.", .well) { $0.upstreams = upstreams(.unasked, .unasked) },
        Row("The upstream responded when it was last asked.", .well) { $0.upstreams = upstreams(.responded) },
        Row("The upstream can be reached.", .well) { $0.upstreams = upstreams(.reachable) },
        Row("The upstream did not respond when it was last asked, but 20 requests failed in the last 5 min.", .strained) {
            ($0.upstreams, $0.lately) = (upstreams(.silent), counts(failed: 20))
        },
        Row("The upstream responds with errors only; within the last 5 min 3 requests rescued.", .strained) {
            ($0.upstreams, $0.lately) = (upstreams(.errors), counts(rescued: 3))
        },
        Row("1 of 4 upstreams responds and 3 have not been asked yet.", .well) {
            $0.upstreams = upstreams(.responds, .unasked, .unasked, .unasked)
        },
        Row(
            "2 of 4 upstreams responded when they were last asked, c did not respond when it was last asked and 1 has not been asked yet.",
            .strained
        ) {
            $0.upstreams = upstreams(.responds, .responded, .silent, .unasked)
        },
        Row("All 2 upstreams responded when they were last asked.", .well) { $0.upstreams = upstreams(.responds, .responded) },
        Row("1 of 5 upstreams responds and b, c, d and 1 more respond with errors only.", .strained) {
            $0.upstreams = upstreams(.responds, .errors, .errors, .errors, .errors)
        },
    ]

    @Test("says of upstreams only what came from them", arguments: stateRows)
    func states(_ row: Row) { sentence(row) }

    @Test("says what is down, since when and why, and who was rescued", arguments: rows)
    func sentence(_ row: Row) {
        var sentence = StateSentence()
        sentence.upstreams = [("", .responds)]
        row.change(&sentence)
        #expect(sentence.text == row.expected)
        #expect(sentence.level == row.level)
    }

    @Test("what is known of an upstream is what came last, of all loops together")
    func contacts() {
        typealias Turn = (inout UpstreamContact) -> Void
        func state(_ change: Turn, _ other: Turn = { _ in }, at now: Int64 = 10, errors: UInt64 = 0) -> UpstreamState {
            var (one, two) = (UpstreamContact(), UpstreamContact())
            change(&one)
            other(&two)
            one.merge(two)
            return UpstreamState(one, responses: (3, errors), now: now)
        }
        #expect(state { _ in } == .unasked)
        #expect(state { $0.connect(at: 1) } == .reachable)
        #expect(state { $0.respond(at: 1) } == .responds)
        #expect(state({ $0.respond(at: 1) }, errors: 2) == .responds && state({ $0.respond(at: 1) }, errors: 3) == .errors)
        #expect(state({ $0.respond(at: 1) }, at: 300_001) == .responds && state({ $0.respond(at: 1) }, at: 300_002) == .responded)
        #expect(state({ $0.respond(at: 1) }, at: 300_002, errors: 3) == .responded)
        #expect(state { $0.fail(0, at: 1) } == .silent)
        // All within one millisecond.
        let (respond, connect, fail): (Turn, Turn, Turn) = ({ $0.respond(at: 1) }, { $0.connect(at: 1) }, { $0.fail(0, at: 1) })
        let turns: [(UpstreamState, [Turn])] = [
            (.silent, [respond, fail]), (.responds, [fail, respond]), (.reachable, [fail, connect]), (.silent, [connect, fail]),
            (.reachable, [respond, fail, connect]), (.responds, [fail, connect, respond]),
        ]
        for (expected, turns) in turns { #expect(state { for turn in turns { turn(&$0) } } == expected) }
        #expect(state({ $0.respond(at: 1) }, { $0.fail(0, at: 2) }) == .silent)
        #expect(state({ $0.fail(0, at: 2) }, { $0.respond(at: 3) }) == .responds)
        #expect(state({ $0.fail(0, at: 2) }, { $0.connect(at: 1) }) == .silent)
        #expect(state({ $0.fail(0, at: 2) }, { $0.connect(at: 3) }) == .reachable)
    }

    @Test("figures are written for people")
    func figures() {
        #expect([0, 999, 1_000, 1_234_567].map { ShownFigures.count(UInt64($0)) } == ["0", "999", "1,000", "1,234,567"])
        #expect(
            [-1, 0, 59, 60, 119, 7_199, 7_200, 172_799, 172_800].map { ShownFigures.span($0) }
                == ["0 s", "0 s", "59 s", "1 min", "1 min", "119 min", "2 h", "47 h", "2 d"])
        #expect(
            [0, 999, 2_500, 10_000, 1_500_000].map { ShownFigures.duration(microseconds: $0) } == [
                "0 µs", "999 µs", "2.5 ms", "10 ms", "1.5 s",
            ])
        #expect([0, 1_023, 4_301, 1 << 20, 3 << 40].map { ShownFigures.bytes($0) } == ["0 B", "1 KiB", "4.2 KiB", "1 MiB", "3 TiB"])
        #expect(
            ShownFigures.share(9_999, of: 10_000) == "99.9 %" && ShownFigures.share(1, of: 1) == "100 %"
                && ShownFigures.share(0, of: 0) == nil)
    }
}
