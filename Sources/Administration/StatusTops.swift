// Tables of the most frequent paths. Failures, rescues and upstream requests are counted by the loops; hits and bytes are taken from the
// last exchanges.

import CachePolicy
import Explanation
import Figures

struct StatusTops {
    private let task: AdminInterface.Task

    init(_ task: AdminInterface.Task) { self.task = task }

    private static let limit = 10

    func tables(_ records: [WhyRecord], _ tallies: [TargetTally]) -> [StatusView.Table] {
        let now = task.server.monotonicMilliseconds
        let seconds = (now - max(RecentTargets.since(now: now), task.server.status.began)) / 1_000
        let span = "in the last \(NumberText.span(max(1, seconds)))"
        let ages = Self.ages(records)
        func counted(_ id: String, _ title: String, _ part: (TargetTally) -> RecentTargets) -> StatusView.Table {
            let counted = RecentTargets.most(tallies.flatMap { part($0).counted(now: now) }, limit: .max)
            let rows = Self.most(counted.map { ($0.target, $0.isCut ? "cut" : "", $0.api, $0.count, $0.isAtLeast) })
                .map { row($0, id == "rescued" ? ages[$0.shown] : nil, ($0.isAtLeast ? "at least " : "") + NumberText.count($0.count)) }
            return table(id, title, span, "Requests", rows)
        }
        return [
            counted("failed", "Failed, without a copy", \.failed),
            counted("rescued", "Rescued", \.rescued),
            counted("misses", "From the upstream", \.forwarded),
        ] + recent(records)
    }

    /// A displayed path, which may represent several targets.
    private struct Shown: Hashable {
        let api: UInt16
        let text: String
        /// Note for a path that is not shown completely; empty otherwise.
        let cut: String

        init(_ api: UInt16, _ target: [UInt8], cut: String) {
            self.api = api
            let path = SecretNames.pathAlone(target)
            // A target that was cut within its query contains the whole path.
            let isWhole = cut.isEmpty || path.utf8.count < target.count
            (text, self.cut) = isWhole ? (path, "") : (path + "…", cut)
        }
    }

    private struct Count {
        let shown: Shown
        var targets = 0
        var count: UInt64 = 0
        var isAtLeast = false
    }

    /// Adds the counts of targets with equal display texts.
    private static func most(_ counted: [(target: [UInt8], cut: String, api: UInt16, count: UInt64, isAtLeast: Bool)]) -> [Count] {
        var sums: [Shown: Count] = [:]
        for one in counted where one.count > 0 {
            let shown = Shown(one.api, one.target, cut: one.cut)
            var sum = sums[shown] ?? Count(shown: shown)
            sum.targets += 1
            sum.count += one.count
            sum.isAtLeast = sum.isAtLeast || one.isAtLeast
            sums[shown] = sum
        }
        return Array(sums.values.sorted { ($1.count, $0.shown.text) < ($0.count, $1.shown.text) }.prefix(limit))
    }

    private struct Place: Hashable {
        let api: UInt16
        let target: [UInt8]
        /// Whether the target is cut, so that it may represent several.
        let isCut: Bool
    }

    /// Hits are not counted by target, so the last exchanges serve as a sample.
    private func recent(_ records: [WhyRecord]) -> [StatusView.Table] {
        let clients = records.filter { $0.exchange.result != .own && $0.exchange.background == nil }
        var (hits, bytes): ([Place: UInt64], [Place: UInt64]) = ([:], [:])
        for record in clients {
            let place = Place(api: record.exchange.api, target: record.target, isCut: record.isCut)
            switch record.exchange.result {
            case .hit, .stale, .revalidated, .collapsed: if record.exchange.status < 500 { hits[place, default: 0] += 1 }
            case .rescued, .error, .miss, .bypass, .own: break
            }
            bytes[place, default: 0] += UInt64(max(0, record.exchange.bodyBytes))
        }
        let span = "among the last \(NumberText.count(UInt64(clients.count), "request", "requests"))"
        func top(_ id: String, _ title: String, _ column: String, _ counts: [Place: UInt64], _ text: (UInt64) -> String) -> StatusView.Table
        {
            let rows = Self.most(
                counts.map { ($0.key.target, $0.key.isCut ? "all targets with this beginning" : "", $0.key.api, $0.value, false) }
            )
            .map { row($0, nil, text($0.count)) }
            return table(id, title, span, column, rows)
        }
        return [
            top("hits", "From the store", "Requests", hits) { NumberText.count($0) },
            top("bytes", "Bytes", "Bytes", bytes) { NumberText.bytes(Int(clamping: $0)) },
        ]
    }

    private func table(
        _ id: String, _ title: String, _ span: String, _ column: String, _ rows: [[StatusView.Cell]]
    ) -> StatusView.Table {
        StatusView.Table(
            id: id, title: title, caption: "\(title), \(span)", columns: [.init("Path"), .init(column, isNumber: true)], rows: rows)
    }

    /// Age in seconds of the oldest rescue of each target among the last exchanges.
    private static func ages(_ records: [WhyRecord]) -> [Shown: Int64] {
        var ages: [Shown: Int64] = [:]
        for record in records where record.exchange.result == .rescued && record.exchange.background == nil && !record.isCut {
            let shown = Shown(record.exchange.api, record.target, cut: "")
            ages[shown] = max(ages[shown] ?? 0, record.exchange.found.age)
        }
        return ages
    }

    private func row(_ one: Count, _ age: Int64?, _ count: String) -> [StatusView.Cell] {
        let alike = one.targets > 1 ? "\(NumberText.count(one.targets)) different targets" : ""
        let notes = [StatusPages.name(one.shown.api, task), one.shown.cut, alike, age.map { "copy \(NumberText.span($0)) old" } ?? ""]
            .filter { !$0.isEmpty }
        return [StatusView.Cell(one.shown.text, note: notes.joined(separator: ", ")), StatusView.Cell(count)]
    }
}
