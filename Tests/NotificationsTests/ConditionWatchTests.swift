// Tests when conditions are reported: tables of samples with the changes that each must report.

import Testing

@testable import Notifications

@Suite("Reporting conditions")
struct ConditionWatchTests {
    /// Conditions at one time, in seconds, and the reported changes as text.
    struct Step {
        let at: Int64
        let conditions: [ObservedCondition]
        let reported: [String]

        init(_ at: Int64, _ conditions: [ObservedCondition], _ reported: [String] = []) {
            (self.at, self.conditions, self.reported) = (at, conditions, reported)
        }
    }

    struct Row: CustomTestStringConvertible {
        let testDescription: String
        let steps: [Step]
        var isContinued = false
        var apis: Set<String> = ["", "a", "b"]
    }

    private static func path(_ parts: String...) -> ObservedCondition { .init(.path, api: "a", cause: "timeout", parts: parts) }

    private static let down = ObservedCondition(.upstream, api: "a", since: 500, cause: "connection_refused")
    private static let full = ObservedCondition(.store, cause: "its disk is full")

    static let rows: [Row] = [
        Row(
            testDescription: "a beginning and an end are reported once each",
            steps: [
                Step(0, []), Step(5, [down], ["upstream_down a connection_refused"]), Step(10, [down]),
                Step(15, [], ["upstream_up a connection_refused"]),
                Step(20, []),
            ]),
        Row(
            testDescription: "conditions of several APIs are independent",
            steps: [
                Step(0, [down, .init(.upstream, api: "b")], ["upstream_down a connection_refused", "upstream_down b"]),
                Step(5, [down], ["upstream_up b"]),
            ]),
        Row(
            testDescription: "a flapping upstream is reported again after five minutes, with the number of unreported outages",
            steps: [
                Step(0, [down], ["upstream_down a connection_refused"]), Step(5, [], ["upstream_up a connection_refused"]),
                Step(10, [down]),
                Step(15, []), Step(20, [down]), Step(25, []), Step(290, [down]), Step(299, [down]),
                Step(300, [down], ["upstream_down a connection_refused +2"]), Step(305, [], ["upstream_up a connection_refused"]),
            ]),
        Row(
            testDescription: "an unreported outage has no reported end",
            steps: [
                Step(0, [down], ["upstream_down a connection_refused"]), Step(5, [], ["upstream_up a connection_refused"]),
                Step(10, [down]),
                Step(15, []), Step(400, []), Step(405, [down], ["upstream_down a connection_refused"]),
            ]),
        Row(
            testDescription: "the store is reported after a minute, and a shorter refusal never",
            steps: [
                Step(0, [full]), Step(55, [full]), Step(58, []), Step(60, [full]), Step(119, [full]),
                Step(120, [full], ["store_unwritable its disk is full"]), Step(125, [], ["store_writable its disk is full"]),
            ]),
        Row(
            testDescription: "each path is reported once, and further paths at most every five minutes",
            steps: [
                Step(0, [path("/a")], ["path_failing a timeout /a"]), Step(5, [path("/a", "/b")]), Step(10, [path("/a", "/b", "/c")]),
                Step(300, [path("/a", "/b", "/c")], ["path_failing a timeout /b,/c"]), Step(700, [path("/b")]),
                Step(705, [], ["path_recovered a timeout"]), Step(710, [path("/a")], ["path_failing a timeout /a"]),
            ]),
        Row(
            testDescription: "an expired certificate is reported again",
            steps: [
                Step(0, [.init(.certificate, subject: "x", parts: ["soon"])], ["certificate_expiring x soon"]),
                Step(600, [.init(.certificate, subject: "x", parts: ["soon", "expired"])], ["certificate_expiring x expired"]),
                Step(605, [], ["certificate_renewed x"]),
            ]),
        Row(
            testDescription: "after a take-over, present conditions count as reported",
            steps: [Step(0, [down]), Step(5, [down]), Step(10, [], ["upstream_up a connection_refused"])], isContinued: true),
        Row(
            testDescription: "a removed API ends without a report",
            steps: [Step(0, [.init(.upstream, api: "gone")], ["upstream_down gone"]), Step(5, [])]),
    ]

    @Test("changes are reported", arguments: rows)
    func reported(_ row: Row) {
        var watch = ConditionWatch(isContinued: row.isContinued)
        for step in row.steps {
            var sample = NotificationSample(now: step.at * 1_000, wall: 1_000_000 + step.at * 1_000)
            (sample.conditions, sample.apis) = (step.conditions, row.apis)
            let changes = watch.note(sample).map { change in
                ([change.event.rawValue, change.api, change.subject, change.cause, change.parts.joined(separator: ",")]
                    + (change.unreported > 0 ? ["+\(change.unreported)"] : [])).filter { !$0.isEmpty }.joined(separator: " ")
            }
            #expect(changes == step.reported, "at \(step.at) s")
        }
    }

    @Test("the start is that of the report, or else the first sample")
    func since() {
        var watch = ConditionWatch()
        var sample = NotificationSample(now: 0, wall: 7_000)
        sample.conditions = [Self.down, .init(.rescues)]
        sample.apis = ["", "a"]
        #expect(watch.note(sample).map(\.since) == [7_000, 500])
    }

    @Test("many failing paths give one report in five minutes")
    func flood() {
        var watch = ConditionWatch()
        var reports: [Int] = []
        for second in stride(from: Int64(0), to: 3_600, by: 5) {
            var sample = NotificationSample(now: second * 1_000, wall: second * 1_000)
            sample.conditions = [.init(.path, parts: (0..<1_000).map { "/\(second)/\($0)" })]
            reports += watch.note(sample).map(\.parts.count)
        }
        #expect(reports == Array(repeating: 1_000, count: 12))
    }
}
