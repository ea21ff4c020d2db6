// Which targets lead: by failures, rescues and what the upstream was asked for as every loop counts them, by hits and bytes as the last exchanges tell.

import CachePolicy
import Explanation
import StatusPage
import Telemetry

struct StatusTops {
    private let task: AdminInterface.Task

    init(_ task: AdminInterface.Task) { self.task = task }

    private static let limit = 10

    func tables(_ records: [WhyRecord], _ tallies: [TargetTally]) -> [StatusView.Table] {
        let now = task.server.monotonicMilliseconds
        let seconds = (now - max(RecentTargets.since(now: now), task.server.status.began)) / 1_000
        let span = "in the last \(ShownFigures.span(max(1, seconds)))"
        func counted(_ id: String, _ title: String, _ empty: String, _ part: (TargetTally) -> RecentTargets) -> StatusView.Table {
            let most = RecentTargets.most(tallies.flatMap { part($0).counted(now: now) }, limit: Self.limit)
            let rows = most.map { one in
                row(one.target, one.isCut ? "cut" : "", one.api, (one.isAtLeast ? "at least " : "") + ShownFigures.count(one.count))
            }
            return table(id, title, span, "Requests", rows, empty: "\(empty) \(span).")
        }
        return [
            counted("failed", "Failed, without a copy", "None failed", \.failed),
            counted("rescued", "Rescued", "None was rescued", \.rescued),
            counted("misses", "From the upstream", "None", \.forwarded),
        ] + lately(records)
    }

    private struct Place: Hashable {
        let api: UInt16
        let target: [UInt8]
        /// Others may begin so too.
        let isCut: Bool
    }

    /// Hits are not counted by target as they come: the last exchanges stand for them.
    private func lately(_ records: [WhyRecord]) -> [StatusView.Table] {
        let clients = records.filter { $0.trace.result != .own && $0.trace.background == nil }
        var (hits, bytes): ([Place: UInt64], [Place: UInt64]) = ([:], [:])
        for record in clients {
            let place = Place(api: record.trace.api, target: record.target, isCut: record.isCut)
            switch record.trace.result {
            case .hit, .stale, .revalidated, .collapsed: if record.trace.status < 500 { hits[place, default: 0] += 1 }
            case .rescued, .error, .miss, .bypass, .own: break
            }
            bytes[place, default: 0] += UInt64(max(0, record.trace.bodyBytes))
        }
        let span = "among the last \(ShownFigures.count(UInt64(clients.count), "request", "requests"))"
        func top(_ id: String, _ title: String, _ column: String, _ counts: [Place: UInt64], _ text: (UInt64) -> String) -> StatusView.Table
        {
            let most = counts.filter { $0.value > 0 }
                .sorted { $0.value == $1.value ? $0.key.target.lexicographicallyPrecedes($1.key.target) : $0.value > $1.value }
            let rows = most.prefix(Self.limit).map {
                row($0.key.target, $0.key.isCut ? "all that begin so" : "", $0.key.api, text($0.value))
            }
            return table(id, title, span, column, rows, empty: "None \(span).")
        }
        return [
            top("hits", "From the store", "Requests", hits) { ShownFigures.count($0) },
            top("bytes", "Bytes", "Bytes", bytes) { ShownFigures.bytes(Int(clamping: $0)) },
        ]
    }

    private func table(
        _ id: String, _ title: String, _ span: String, _ column: String, _ rows: [[StatusView.Cell]], empty: String
    ) -> StatusView.Table {
        StatusView.Table(
            id: id, title: title, caption: "\(title), \(span)", columns: [.init("Target"), .init(column, isNumber: true)], rows: rows,
            empty: empty)
    }

    /// - Parameter cut: what is to be said of a target that is not shown whole; empty of others.
    private func row(_ target: [UInt8], _ cut: String, _ api: UInt16, _ count: String) -> [StatusView.Cell] {
        let notes = [StatusPages.name(api, task), cut].filter { !$0.isEmpty }
        let text = SecretNames.redacted(target) + (cut.isEmpty ? "" : "…")
        return [StatusView.Cell(text, note: notes.joined(separator: ", ")), StatusView.Cell(count)]
    }
}
