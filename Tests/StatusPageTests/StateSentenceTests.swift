// How things are, in one sentence: a table from figures to words.

import Explanation
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

    private static let rows = [
        Row("The upstream responds.", .well) { _ in },
        Row("All 3 upstreams respond.", .well) { $0.apis = 3 },
        Row("The upstream has not been asked for anything yet.", .well) { $0.isAsked = false },
        Row("No upstream has been asked for anything yet.", .well) { ($0.apis, $0.isAsked) = (2, false) },
        Row("users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min.", .strained) {
            ($0.apis, $0.outages, $0.rescued, $0.oldestCopy) = (3, [down("users", 245)], 1_204, 730)
        },
        Row("The upstream has been down for 59 s (connection timeout); nothing rescued, 17 failed.", .down) {
            ($0.outages, $0.failed) = ([down("", 59, "connection_timeout")], 17)
        },
        Row("The upstream has been down for 3 h (status 503); 1 request rescued, oldest copy 2 d.", .down) {
            ($0.outages, $0.rescued, $0.oldestCopy) = ([down("", 10_900, "status_503")], 1, 172_800)
        },
        Row(
            "a has been down for 2 h (connection refused), b for 60 min (connection refused) and c for 1 s (responses that are none); "
                + "2 requests rescued, oldest copy 0 s, 1,000,000 failed.", .strained
        ) {
            ($0.apis, $0.outages) = (4, [down("a", 7_200), down("b", 3_600), down("c", 1, "junk")])
            ($0.rescued, $0.oldestCopy, $0.failed) = (2, 0, 1_000_000)
        },
        Row(
            "a has been down for 5 s (connection refused), b for 4 s (connection refused), c for 3 s (connection refused) and 2 more; nothing rescued.",
            .down
        ) {
            ($0.apis, $0.outages) = (5, [down("a", 5), down("b", 4), down("c", 3), down("d", 2), down("e", 1)])
        },
        Row("The upstream responds, but the route search has been failing for 2 min (status 500); 3 requests rescued.", .strained) {
            ($0.troubles, $0.rescued) = ([route], 3)
        },
        Row(
            "All 2 upstreams respond, but the route search has been failing for 2 min (status 500) and 3 paths of users have been failing for 59 s "
                + "(too slow); nothing rescued.", .strained
        ) {
            ($0.apis, $0.troubles) = (2, [route, paths])
        },
        Row("The upstream responds again; within the last 5 min 12 requests rescued, oldest copy 8 s.", .strained) {
            ($0.rescued, $0.oldestCopy) = (12, 8)
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

    @Test("says what is down, since when and why, and who was rescued", arguments: rows)
    func sentence(_ row: Row) {
        var sentence = StateSentence()
        row.change(&sentence)
        #expect(sentence.text == row.expected)
        #expect(sentence.level == row.level)
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
