// A table of the sentence that describes the state, from figures to words.

import Explanation
import Figures
import Testing

@Suite("The state sentence")
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

    private static let route = StateSentence.Trouble(subject: "the route search", isMany: false, seconds: 130, cause: "status 500")
    private static let paths = StateSentence.Trouble(subject: "3 paths of users", isMany: true, seconds: 59, cause: "too slow")
    private static let pause = StateSentence.Trouble(
        .pause, subject: "it asked for a pause on 1 path", isMany: false, seconds: 30, cause: "status 503")
    private static let address = StateSentence.Trouble(
        .address, subject: "1 of 2 addresses", isMany: false, seconds: 5, cause: "connection refused")

    /// Current time, in milliseconds.
    private static let now: Int64 = 7_200_000

    private static func upstreams(_ reports: UpstreamReport...) -> [UpstreamSummary] {
        zip(["a", "b", "c", "d", "e"], reports).map { UpstreamSummary($0, $1, now: now) }
    }

    private static func report(
        _ state: UpstreamReport.State, responded: Int64? = now, failures: Int = 0, since: Int64? = nil, isAsked: Bool = true
    ) -> UpstreamReport {
        var report = UpstreamReport(state, since: since, cause: since == nil ? nil : "status_500")
        (report.respondedAt, report.failuresInARow, report.attemptedAt) = (responded, failures, isAsked ? now : nil)
        return report
    }

    private static let up = report(.up)
    private static let quiet = report(.up, responded: now - 3_600_000)
    private static let suspect = report(.up, failures: 4)
    private static let failing = report(.failing, since: now - 130_000)
    private static let cold = report(.unknown, responded: nil, failures: 20)
    private static let unasked = report(.unknown, responded: nil, isAsked: false)

    private static func counts(rescued: UInt64 = 0, failed: UInt64 = 0) -> StateSentence.Counts {
        StateSentence.Counts(rescued: rescued, failed: failed)
    }

    private static let rows = [
        Row("The upstream is up.", .well) { _ in },
        Row("The upstream is up. This node does not receive the purges of other nodes.", .strained) { $0.isBlind = true },
        Row("All 3 upstreams are up.", .well) { $0.upstreams = upstreams(up, up, up) },
        Row("users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min.", .strained) {
            $0.upstreams = upstreams(up, up)
            ($0.outages, $0.since, $0.oldestCopy) = ([down("users", 245)], counts(rescued: 1_204), 730)
        },
        Row("users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min, 3 failed.", .down) {
            $0.upstreams = upstreams(up, up)
            ($0.outages, $0.since, $0.oldestCopy) = ([down("users", 245)], counts(rescued: 1_204, failed: 3), 730)
            $0.failedRecently = 2
        },
        Row("The upstream has been down for 59 s (connection timeout); nothing rescued, 17 failed.", .down) {
            ($0.upstreams, $0.outages, $0.since) = ([], [down("", 59, "connection_timeout")], counts(failed: 17))
        },
        Row("The upstream has been down for 3 h (status 503); 1 request rescued, oldest copy 2 d.", .down) {
            ($0.upstreams, $0.outages) = ([], [down("", 10_900, "status_503")])
            ($0.since, $0.oldestCopy) = (counts(rescued: 1), 172_800)
        },
        Row(
            "a has been down for 2 h (connection refused), b for 60 min (connection refused) and c for 1 s (invalid responses); "
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
            "users has been down for 4 min (connection refused); nothing rescued. b has not sent a good response yet. Also, 3 paths "
                + "of users have been failing for 59 s (too slow). In other APIs, 2 requests failed in the last 5 min.", .down
        ) {
            ($0.upstreams, $0.outages) = (upstreams(up, cold), [down("users", 245)])
            ($0.troubles, $0.recent) = ([paths], counts(failed: 2))
        },
        Row("The upstream is up, but the route search has been failing for 2 min (status 500); 3 requests rescued.", .strained) {
            ($0.troubles, $0.since) = ([route], counts(rescued: 3))
        },
        Row(
            "The upstream has been failing for 2 min (status 500), and the route search has been failing for 2 min (status 500); "
                + "nothing rescued.", .strained
        ) {
            ($0.upstreams, $0.troubles) = (upstreams(failing), [route])
        },
        Row("The upstream has been failing for 2 min (status 500); nothing rescued, 3 failed.", .strained) {
            ($0.upstreams, $0.since) = (upstreams(failing), counts(failed: 3))
        },
        Row("The state of the upstream is unknown: it was down at the last request, 6 min ago (status 503); nothing rescued.", .down) {
            $0.upstreams = []
            $0.outages = [StateSentence.Outage(name: "", seconds: 660, cause: "status 503", silentSeconds: 360)]
        },
        Row(
            "a has been down for 5 s (connection refused). The state of b is unknown: it was down at the last request, 6 min ago (status 503); "
                + "nothing rescued.", .down
        ) {
            $0.upstreams = []
            $0.outages = [down("a", 5), StateSentence.Outage(name: "b", seconds: 660, cause: "status 503", silentSeconds: 360)]
        },
        Row(
            "All 2 upstreams are up, but the route search has been failing for 2 min (status 500) and 3 paths of users have been failing for 59 s "
                + "(too slow); nothing rescued.", .strained
        ) {
            ($0.upstreams, $0.troubles) = (upstreams(up, up), [route, paths])
        },
        Row("The upstream is up, but it asked for a pause on 1 path 30 s ago (status 503); nothing rescued, 6 failed.", .strained) {
            ($0.troubles, $0.since) = ([pause], counts(failed: 6))
        },
        Row("The upstream is up, but 1 of 2 addresses has been down for 5 s (connection refused).", .strained) {
            $0.troubles = [address]
        },
        Row(
            "The upstream is up, but 1 of 2 addresses has been down for 5 s (connection refused); 2 requests failed in the last 5 min.",
            .strained
        ) { ($0.troubles, $0.recent) = ([address], counts(failed: 2)) },
        Row("The upstream is up; within the last 5 min 12 requests rescued, oldest copy 8 s.", .strained) {
            ($0.recent, $0.oldestCopy) = (counts(rescued: 12), 8)
        },
        Row("The upstream is up, but 20 requests failed in the last 5 min.", .strained) { $0.recent = counts(failed: 20) },
        Row("All 2 upstreams are up, but 20 requests for b, c, d and 1 more failed in the last 5 min.", .strained) {
            ($0.upstreams, $0.recent, $0.failing) = (upstreams(up, up), counts(failed: 20), ["b", "c", "d", "e"])
        },
        Row("The upstream is up, but 1 request failed in the last 5 min; 12 requests rescued, oldest copy 8 s.", .strained) {
            ($0.recent, $0.oldestCopy) = (counts(rescued: 12, failed: 1), 8)
        },
        Row("The upstream is up. The mode is offline, not live. 2 faults are injected for a drill.", .strained) {
            ($0.modes, $0.faults) = (["offline"], 2)
        },
        Row("The upstream is up. One mode applies to some paths only.", .well) { $0.exceptions = 1 },
        Row(
            """
            The upstream is up. The store is not writable: its disk is full (No space left on device), so new responses are not stored.
            """, .strained
        ) { ($0.isStoreWritable, $0.storeRefusal) = (false, "its disk is full (No space left on device)") },
        Row("The upstream is up. The store is not writable, so new responses are not stored. Cistern is stopping.", .strained) {
            ($0.isStoreWritable, $0.isStopping) = (false, true)
        },
        Row("The upstream is up.", .well) { $0.isStoreWritable = nil },
    ]

    /// Sentences about upstreams that are not down.
    private static let stateRows = [
        Row("The upstream has received no request yet.", .well) { $0.upstreams = upstreams(unasked) },
        Row("No upstream has received a request yet.", .well) { $0.upstreams = upstreams(unasked, unasked) },
        Row("The upstream is up (last response 60 min ago).", .well) { $0.upstreams = upstreams(quiet) },
        Row("The upstream has not sent a good response yet, and 20 requests failed in the last 5 min.", .strained) {
            ($0.upstreams, $0.recent) = (upstreams(cold), counts(failed: 20))
        },
        Row("The upstream is up (the last 4 requests failed); within the last 5 min 3 requests rescued.", .strained) {
            ($0.upstreams, $0.recent) = (upstreams(suspect), counts(rescued: 3))
        },
        Row("1 of 4 upstreams is up and 3 have received no request yet.", .well) {
            $0.upstreams = upstreams(up, unasked, unasked, unasked)
        },
        Row(
            "2 of 4 upstreams are up, c has been failing for 2 min (status 500) and 1 has received no request yet; nothing rescued.",
            .strained
        ) {
            $0.upstreams = upstreams(up, quiet, failing, unasked)
        },
        Row("All 2 upstreams are up.", .well) { $0.upstreams = upstreams(up, quiet) },
        Row(
            "1 of 5 upstreams is up and b is up (the last 4 requests failed), c has not sent a good response yet, d has been failing for 2 min "
                + "(status 500) and 1 more; nothing rescued.", .strained
        ) {
            $0.upstreams = upstreams(up, suspect, cold, failing, failing)
        },
    ]

    @Test("the state of an upstream depends only on its own responses", arguments: stateRows)
    func states(_ row: Row) { sentence(row) }

    @Test("the sentence says what is down, since when and why, and who was rescued", arguments: rows)
    func sentence(_ row: Row) {
        var sentence = StateSentence()
        sentence.upstreams = [UpstreamSummary("", Self.up, now: Self.now)]
        row.change(&sentence)
        #expect(sentence.text == row.expected)
        #expect(sentence.level == row.level)
    }

    @Test("numbers and durations are formatted for people")
    func figures() {
        #expect([0, 999, 1_000, 1_234_567].map { NumberText.count(UInt64($0)) } == ["0", "999", "1,000", "1,234,567"])
        #expect(
            [-1, 0, 59, 60, 119, 7_199, 7_200, 172_799, 172_800].map { NumberText.span($0) }
                == ["0 s", "0 s", "59 s", "1 min", "1 min", "119 min", "2 h", "47 h", "2 d"])
        #expect(
            [0, 999, 2_500, 10_000, 1_500_000].map { NumberText.duration(microseconds: $0) } == [
                "0 µs", "999 µs", "2.5 ms", "10 ms", "1.5 s",
            ])
        #expect([0, 1_023, 4_301, 1 << 20, 3 << 40].map { NumberText.bytes($0) } == ["0 B", "1 KiB", "4.2 KiB", "1 MiB", "3 TiB"])
        #expect(
            NumberText.share(9_999, of: 10_000) == "99.9 %" && NumberText.share(1, of: 1) == "100 %"
                && NumberText.share(0, of: 0) == nil)
    }
}
