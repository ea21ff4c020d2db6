// Requests on the status page: the most frequent paths (`StatusTops`), paths with a mode or faults, and the last exchanges. Secrets are
// redacted as in `why`.

import CachePolicy
import Explanation
import JSON
import Upstream

extension StatusPages {
    /// Maximum number of records per loop.
    static let recordLimit = 2_000
    private static let exchangeLimit = 25

    /// Must be called on the interface's queue.
    static func recent(
        _ task: AdminInterface.Task, _ records: [WhyRecord], _ tallies: [TargetTally], _ earlier: PreviousReasons
    ) -> RecentActivity {
        // Sorts indices instead of the records, which are large.
        let places = records.indices.map { (wall: records[$0].exchange.wall, number: records[$0].exchange.number, index: $0) }
        let newest = places.sorted { ($0.wall, $0.number) > ($1.wall, $1.number) }.prefix(exchangeLimit)
        return RecentActivity(
            tops: StatusTops(task).tables(records, tallies), exchanges: newest.map { exchange(records[$0.index], task, earlier) })
    }

    static func name(_ index: UInt16, _ task: AdminInterface.Task) -> String {
        task.interface.apis.first { $0.index == index }?.name ?? ""
    }

    // MARK: Exchanges

    private static func exchange(_ record: WhyRecord, _ task: AdminInterface.Task, _ earlier: PreviousReasons) -> StatusView.Exchange {
        let explained = WhyPages.explanation(record, task, earlier)
        let why = explained.json
        let text = { (name: String) in why[name]?.string ?? "" }
        let seconds = why["duration_seconds"]?.double ?? 0
        let advice = why["advice"]?.array?.map { "Setting \($0["setting"]?.string ?? "") – \($0["effect"]?.string ?? "")." } ?? []
        var sentences = why["explanation"]?.array?.compactMap(\.string) ?? []
        if let sentence = explained.copySentence { sentences.append(sentence) }
        if let api = why["api"]?.string { sentences.append("API \(api)\(text("route").isEmpty ? "" : ", route \(text("route"))").") }
        if let partition = why["key"]?["partition"]?.string { sentences.append("Partition of credentials: \(partition).") }
        return StatusView.Exchange(
            time: String(StatusView.time(record.exchange.wall).dropFirst(11).prefix(8)), target: "\(text("method")) \(text("target"))",
            result: record.exchange.background == nil ? text("result") : "background",
            note: "\(record.exchange.status) · \(NumberText.duration(microseconds: Int64(seconds * 1e6))) · \(record.id)",
            isFailed: record.exchange.status >= 500, sentences: sentences + advice)
    }

    // MARK: Modes and faults

    /// Prefixes with a mode, and faults.
    static func switched(_ task: AdminInterface.Task) -> StatusView.Table {
        let now = task.server.monotonicMilliseconds
        let modes = task.interface.apis.flatMap { api in
            api.modes.rules.prefix(switchedLimit).map { rule in
                [
                    StatusView.Cell(SecretNames.pathAlone(rule.prefix.utf8), note: api.name), StatusView.Cell("mode \(rule.mode.rawValue)"),
                    StatusView.Cell("all paths below"), StatusView.Cell("–"),
                ]
            }
        }
        let faults = task.server.faults.rules.filter { $0.end > now }.map { rule in
            [
                StatusView.Cell(SecretNames.pathAlone(rule.path.utf8)), StatusView.Cell("fault: \(rule.fault.text)"),
                StatusView.Cell("\(rule.percent) % of requests"), StatusView.Cell(NumberText.span((rule.end - now + 999) / 1_000)),
            ]
        }
        return StatusView.Table(
            id: "switched", title: "Modes and faults by path", caption: "Paths with a separate mode, and injected faults",
            columns: [.init("Path"), .init("Mode or fault"), .init("Affected"), .init("Ends in", isNumber: true)],
            rows: Array((modes + faults).prefix(switchedLimit)))
    }

    private static let switchedLimit = 100
}
