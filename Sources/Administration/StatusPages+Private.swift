// What a session sees on the page of the state: which targets lead (`StatusTops`), the last exchanges, what is stored. Secrets are masked as in
// `why`, and what is kept for somebody's credentials is told of and never shown.

import Archives
import CachePolicy
import Explanation
import FaultInjection
import HTTPCore
import JSON
import ResponseCache
import StatusPage
import Telemetry

extension StatusPages {
    /// Of each loop.
    static let recordLimit = 2_000
    private static let (exchangeLimit, entryLimit) = (25, 50)

    /// On the interface's queue.
    static func lately(
        _ task: AdminInterface.Task, _ records: [WhyRecord], _ tallies: [TargetTally], _ earlier: EarlierReasons
    ) -> StatusLately {
        // Records are long: their places are sorted in their stead.
        let places = records.indices.map { (wall: records[$0].trace.wall, number: records[$0].trace.number, place: $0) }
        let newest = places.sorted { ($0.wall, $0.number) > ($1.wall, $1.number) }.prefix(exchangeLimit)
        return StatusLately(
            tops: StatusTops(task).tables(records, tallies), exchanges: newest.map { exchange(records[$0.place], task, earlier) })
    }

    /// On the interface's queue.
    static func details(_ task: AdminInterface.Task, _ viewer: StatusViewer, _ lately: StatusLately) -> StatusView.Private {
        var view = StatusView.Private(path: viewer.path)
        if case .session(let session) = viewer { view.formToken = session.formToken }
        (view.tops, view.exchanges) = (lately.tops, lately.exchanges)
        view.switched = switched(task)
        if let count = task.request["purged"].flatMap(Int.init) {
            view.said = "\(ShownFigures.count(UInt64(max(0, count)), "stored response was", "stored responses were")) purged."
        }
        do throws(AdminProblem) { try look(task, &view) } catch { view.said = error.sentence }
        return view
    }

    static func name(_ place: UInt16, _ task: AdminInterface.Task) -> String {
        task.interface.apis.first { $0.place == place }?.name ?? ""
    }

    // MARK: Exchanges

    private static func exchange(_ record: WhyRecord, _ task: AdminInterface.Task, _ earlier: EarlierReasons) -> StatusView.Exchange {
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
            time: String(StatusView.time(record.trace.wall).dropFirst(11).prefix(8)), target: "\(text("method")) \(text("target"))",
            result: record.trace.background == nil ? text("result") : "background",
            note: "\(record.trace.status) · \(ShownFigures.duration(microseconds: Int64(seconds * 1e6))) · \(record.id)",
            isFailed: record.trace.status >= 500, sentences: sentences + advice)
    }

    // MARK: What is switched on

    /// Prefixes with a mode of their own, and faults: clients' paths are in them.
    private static func switched(_ task: AdminInterface.Task) -> StatusView.Table {
        let now = task.server.monotonicMilliseconds
        let modes = task.interface.apis.flatMap { api in
            api.modes.rules.prefix(switchedLimit).map { rule in
                [
                    StatusView.Cell(SecretNames.redacted(rule.prefix.utf8), note: api.name), StatusView.Cell("mode \(rule.mode.rawValue)"),
                    StatusView.Cell("all below"), StatusView.Cell("–"),
                ]
            }
        }
        let faults = task.server.faults.rules.filter { $0.end > now }.map { rule in
            [
                StatusView.Cell(SecretNames.redacted(rule.path.utf8)), StatusView.Cell("fault: \(rule.fault.text)"),
                StatusView.Cell("\(rule.percent) % of requests"), StatusView.Cell(ShownFigures.span((rule.end - now + 999) / 1_000)),
            ]
        }
        return StatusView.Table(
            id: "switched", title: "Modes and faults by path", caption: "Paths with a mode of their own, and faults that are injected",
            columns: [.init("Path"), .init("What"), .init("How much of it"), .init("Ends in", isNumber: true)],
            rows: Array((modes + faults).prefix(switchedLimit)), empty: "All paths have the mode of their API or route, and no faults.")
    }

    private static let switchedLimit = 100

    // MARK: The store

    private static func look(_ task: AdminInterface.Task, _ view: inout StatusView.Private) throws(AdminProblem) {
        // As clients encode it: a form that shows it sends the same again.
        let prefix = String(decoding: RequestTarget.escaped(Array((task.request["prefix"] ?? "").utf8)[...], isTyped: true), as: UTF8.self)
        let tag = task.request["tag"] ?? ""
        guard max(prefix.utf8.count, tag.utf8.count) <= StatusPage.searchLimit else { throw .badRequest("That is too long.") }
        (view.prefix, view.tag) = (prefix, tag)
        if let text = task.request["entry"] { view.entry = try entry(text, task) }
        guard task.request["prefix"] != nil || task.request["tag"] != nil else { return }
        guard prefix.isEmpty || prefix.hasPrefix("/") else { throw .badRequest("A path begins with a slash.") }
        let (group, caches) = try task.group()
        let selection = EntrySelection(prefix: prefix.isEmpty ? nil : EntrySelection.Prefix(prefix), tag: tag.isEmpty ? nil : tag)
        let page = group.list(caches.map { _ in selection }, limit: entryLimit)
        let (apis, now) = (task.interface.apis, task.interface.now)
        let more = page.next == nil ? "" : "; the first \(entryLimit)"
        let rows = page.entries.map { row($0.entry.summary(now: now, of: apis[$0.api]), view.path) }
        view.listed = StatusView.Table(
            id: "listed", title: "", caption: "What is stored, by target\(more)",
            columns: [
                .init("Target"), .init("Status"), .init("Age", isNumber: true), .init("Fresh for", isNumber: true),
                .init("Size", isNumber: true),
                .init("Tags"),
            ], rows: rows, empty: "Nothing is stored there.")
        guard !rows.isEmpty, prefix.isEmpty != tag.isEmpty else { return }
        let count = page.next == nil ? rows.count : group.count(caches.map { _ in selection }, limit: countLimit + 1)
        view.all = all(prefix, tag, count: count, hasAPIs: task.tellsAPIs)
    }

    /// More are not counted: it takes as long as a purge.
    private static let countLimit = 100_000

    /// What is meant, where all that fits is: more than what is listed.
    private static func all(_ prefix: String, _ tag: String, count: Int, hasAPIs: Bool) -> String {
        let what = prefix.isEmpty ? "with the tag \(tag)" : "whose path begins with \(prefix)"
        let number = count > countLimit ? "more than \(ShownFigures.count(countLimit))" : ShownFigures.count(count)
        return "every response \(what)\(hasAPIs ? ", in all APIs" : "") (\(number) now)"
    }

    private static func row(_ entry: JSONValue, _ path: String) -> [StatusView.Cell] {
        let (age, ttl) = (entry["age"]?.integer ?? 0, entry["ttl"]?.integer)
        let isFresh = entry["fresh"]?.bool == true
        let isForSomebody = entry["partition"]?.string != nil
        let notes = [entry["api"]?.string, isForSomebody ? "kept for somebody's credentials" : nil].compactMap { $0 }
        return [
            StatusView.Cell(
                entry["target"]?.string ?? "", note: notes.joined(separator: ", "),
                link: entry["id"]?.string.map { "\(path)?entry=\($0)#store" }),
            StatusView.Cell("\(entry["status"]?.integer ?? 0)"), StatusView.Cell(ShownFigures.span(Int64(age))),
            isFresh ? StatusView.Cell(ttl.map { ShownFigures.span(Int64($0)) } ?? "–") : StatusView.Cell("stale"),
            StatusView.Cell(ShownFigures.bytes(entry["bytes"]?.integer ?? 0)),
            StatusView.Cell(entry["tags"]?.array?.compactMap(\.string).joined(separator: ", ") ?? ""),
        ]
    }

    /// What is shown of a content, and the longest one that is gone through for secrets.
    private static let (shownBytes, coveredBytes) = (2_048, 1 << 20)

    private static func entry(_ text: String, _ task: AdminInterface.Task) throws(AdminProblem) -> StatusView.Entry {
        guard let id = EntryID(text) else { throw .badRequest("An entry's id has 32 hexadecimal digits.") }
        for (api, cache) in try task.caches() {
            guard let entry = cache.entry(id) else { continue }
            let told = entry.details(now: task.interface.now, of: api, gone: cache.gone(beside: entry)?.id, showsSecrets: false)
            let isForSomebody = entry.key.shortPartition != nil
            let mayShow = !isForSomebody && entry.contentBytes <= coveredBytes
            let shown = ShownMessage(fields: api.policy.credentials.fields)
            let content = mayShow ? entry.content.flatMap { shown.content($0, type: MediaType(of: entry.head.fields)) } : nil
            let reason =
                isForSomebody
                ? "Its content is kept for somebody's credentials, and not shown."
                : "Its content is neither JSON nor plain text, too long, or damaged, and not shown."
            return StatusView.Entry(
                id: text, target: told["target"]?.string ?? "", facts: facts(told), fields: fields(told),
                content: content.map { String(decoding: $0.prefix(shownBytes), as: UTF8.self) } ?? reason,
                isContentShown: content != nil)
        }
        throw .notFound("This is not stored any more.")
    }

    private static func facts(_ told: JSONValue) -> [StatusView.Fact] {
        let text = { (name: String) in told[name]?.string ?? "–" }
        let seconds = { (value: JSONValue?) in value?.integer.map { ShownFigures.span(Int64($0)) } ?? "–" }
        return [
            .init("Upstream", text("upstream")), .init("Status", "\(told["status"]?.integer ?? 0)"), .init("Stored", text("stored_at")),
            .init("Age", seconds(told["age"])), .init("Counts as fresh for", seconds(told["freshness"]?["lifetime"])),
            .init("Now", told["fresh"]?.bool == true ? "fresh" : "stale"), .init("Size", ShownFigures.bytes(told["bytes"]?.integer ?? 0)),
            .init("Tags", told["tags"]?.array?.compactMap(\.string).joined(separator: ", ") ?? ""), .init("Partition", text("partition")),
        ]
    }

    private static func fields(_ told: JSONValue) -> [(name: String, value: String)] {
        told["fields"]?.array?.map { ($0["name"]?.string ?? "", $0["value"]?.string ?? "") } ?? []
    }
}
