// GET /-/status shows the state of the server: numbers, states, names of APIs and routes, and paths without arguments. GET
// /-/status/exchanges adds the last exchanges, for the administrator.

import CachePolicy
import Explanation
import Figures
import HTTPCore
import ResponseCache

enum StatusPages {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        reply(to: task, withExchanges: false)
    }

    /// A missing token causes a browser's password prompt, except for requests with Origin, which a script of another page has sent.
    @Sendable static func exchanges(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        guard task.request.statusAccess < .exchanges else { return reply(to: task, withExchanges: true) }
        guard task.interface.settings.token != nil else {
            throw AdminProblem(
                status: 403,
                sentence: "The page with the last exchanges needs a token: set admin.token_file, or use cistern why on this machine.")
        }
        var response = AdminResponse(
            AdminProblem(
                status: 401,
                sentence: "The page with the last exchanges needs the token of admin.token_file as password, with any user name."))
        response.fieldLines =
            task.request.hasOrigin ? AdminAccess.challenge : "WWW-Authenticate: Basic realm=\"cistern\", charset=\"UTF-8\"\r\n"
        task.reply(response)
    }

    private static func reply(to task: AdminInterface.Task, withExchanges: Bool) {
        let showsPaths = task.request.statusAccess >= .paths
        task.interface.gathering.gather(task.interface, task.server) { figures in
            let view = StatusView(figures, task.interface.apis, namesPaths: showsPaths)
            guard showsPaths else { return task.reply(page(view)) }
            task.interface.recent.gather(task, figures.snapshot) { recent in
                task.interface.later {
                    var view = view
                    view.tops = recent.tops
                    view.tables.append(switched(task))
                    if withExchanges { view.exchanges = recent.exchanges }
                    task.reply(page(view))
                }
            }
        }
    }

    private static func page(_ view: StatusView) -> AdminResponse {
        // 128 random bits as 32 hexadecimal digits.
        var generator = SystemRandomNumberGenerator()
        let nonce = (0..<2).map { _ in (generator.next() as UInt64).hexDigits }.joined()
        var response = AdminResponse(content: StatusPage.render(view, nonce: nonce), contentType: StatusPage.contentType)
        response.fieldLines = StatusPage.fieldLines(nonce: nonce)
        return response
    }
}

extension StatusView {
    /// - Parameter namesPaths: whether failing paths are named, or only counted.
    init(_ figures: StatusFigures, _ apis: [any AdministeredAPI], namesPaths: Bool) {
        self.init()
        lines = figures.sentence.lines
        level = Level(rawValue: figures.sentence.level.rawValue) ?? .strained
        version = figures.snapshot.version
        time = Self.time(figures.wall)
        tiles = Self.tiles(figures)
        tables = [Self.upstreams(figures, apis, namesPaths), Self.routes(figures)]
        facts = Self.facts(figures, apis)
    }

    /// Formats `2026-11-23 13:11:58 UTC`.
    static func time(_ milliseconds: Int64) -> String {
        let text = RFC3339.format(milliseconds: milliseconds)
        return text.prefix(10) + " " + text.dropFirst(11).prefix(8) + " UTC"
    }

    // MARK: Tiles

    private static func tiles(_ figures: StatusFigures) -> [Tile] {
        let history = figures.history
        func perSecond(_ count: @escaping (StatusSample) -> UInt64) -> [Double?] {
            history.points { from, to in Double(count(to) - min(count(to), count(from))) * 1_000 / Double(max(1, to.at - from.at)) }
        }
        func inAll(_ count: (StatusSample) -> UInt64) -> UInt64 {
            guard let first = history.samples.first else { return 0 }
            return count(figures.sample) - min(count(figures.sample), count(first))
        }
        func share(_ from: StatusSample, _ to: StatusSample) -> Double? {
            to.requests <= from.requests ? nil : Double(to.fromStore - from.fromStore) * 100 / Double(to.requests - from.requests)
        }
        let (requests, rescued, errors) = (inAll(\.requests), inAll(\.rescued), inAll(\.errors))
        let rates = perSecond(\.requests)
        // Without lifetimes, only rescues come from the store.
        let hits =
            inAll(\.fromStore) > rescued
            ? [
                tile(
                    "From the store", NumberText.share(inAll(\.fromStore), of: requests), "of all requests, in five minutes",
                    history.points(share), " %")
            ] : []
        return [
            tile(
                "Requests", (rates.last ?? nil).map { NumberText.decimal($0) + "/s" },
                "\(NumberText.count(requests)) in five minutes", rates, "/s"),
            stored(figures.store),
        ] + hits + [
            tile(
                "Rescued", NumberText.count(rescued), "requests, in five minutes", perSecond(\.rescued), "/s",
                rescued > 0 ? .strained : nil),
            tile(
                "Errors", NumberText.count(errors), "responses 5xx, in five minutes", perSecond(\.errors), "/s",
                errors > 0 ? .down : nil),
            latency(figures, "Median", 0.5), latency(figures, "p99", 0.99),
        ]
    }

    /// The entries of the store. It has no chart.
    private static func stored(_ store: CacheFigures) -> Tile {
        Tile(
            title: "Store entries", value: NumberText.count(store.entries), note: NumberText.bytes(store.bytes), points: [], lineWords: "")
    }

    /// - Parameter value: nil if there is none yet.
    private static func tile(
        _ title: String, _ value: String?, _ note: String, _ points: [Double?], _ unit: String, _ level: Level? = nil
    ) -> Tile {
        Tile(title: title, value: value ?? "–", note: note, points: points, lineWords: words(points, unit), level: level)
    }

    private static func latency(_ figures: StatusFigures, _ title: String, _ share: Double) -> Tile {
        let points = figures.history.points { from, to in to.duration.since(from.duration).quantile(share).map { Double($0) / 1_000 } }
        let all = figures.history.samples.first.map { figures.sample.duration.since($0.duration) }
        return tile(
            title, all?.quantile(share).map { NumberText.duration(microseconds: $0) }, "of clients' requests, in five minutes", points,
            " ms")
    }

    private static func words(_ points: [Double?], _ unit: String) -> String {
        let known = points.compactMap { $0 }
        guard let least = known.min(), let most = known.max(), let last = known.last else { return "No data yet" }
        let text = { (value: Double) in NumberText.decimal(value) + unit }
        return "Five minutes: from \(text(least)) to \(text(most)), now \(text(last))"
    }

    // MARK: Upstreams

    private static func upstreams(_ figures: StatusFigures, _ apis: [any AdministeredAPI], _ namesPaths: Bool) -> Table {
        let rows = apis.indices.flatMap { index in
            self.rows(apis[index], figures.failures[index], figures.upstreams[index], figures, namesPaths)
        }
        return Table(
            id: "upstreams", title: "Upstreams",
            caption: "State of each upstream, followed by its failing scopes: since when, why, and the effect on requests",
            columns: [
                Column("Upstream"), Column("State"), Column("Since"), Column("Last error"), Column("Next check"), Column("Effect"),
            ],
            rows: rows)
    }

    private static func rows(
        _ api: any AdministeredAPI, _ open: [OpenFailure], _ upstream: UpstreamSummary, _ figures: StatusFigures, _ namesPaths: Bool
    ) -> [[Cell]] {
        let name = api.name.isEmpty ? "The upstream" : api.name
        let narrow = open.filter { !$0.concernsAll }
        var rows = [whole(api, name, upstream, open, figures)]
        rows += addresses(api.addresses, name, figures)
        for one in narrow where one.route != nil {
            rows.append(failing(Cell("\(name): route \(one.route ?? "")"), "Fails", .strained, one, figures))
        }
        func add(_ same: [OpenFailure], _ one: String, _ many: String, _ state: String, _ level: Level? = .strained) {
            guard let first = same.oldestScope else { return }
            let title = "\(name): \(NumberText.count(UInt64(same.count), one, many))"
            rows.append(failing(Cell(title, note: namesPaths ? paths(same) : ""), state, level, first, figures))
        }
        add(narrow.filter { $0.kind == "key" }, "path", "paths", "Fails")
        let pauses = narrow.filter { $0.kind == "pause" }
        add(pauses.filter { $0.user == nil }, "pause that it requested", "pauses that it requested", "Paused")
        add(
            pauses.filter { $0.user != nil }, "pause that it requested from one user", "pauses that it requested from single users",
            "Paused", nil)
        return rows
    }

    private static let namedPaths = 3

    /// The longest failing paths.
    private static func paths(_ same: [OpenFailure]) -> String {
        let all = Set(same.map(\.name)).count
        var named: [String] = []
        for one in same.sorted(by: { ($0.since, $0.name) < ($1.since, $1.name) }) {
            if !named.contains(one.path) { named.append(one.path) }
            if named.count == namedPaths { break }
        }
        return named.joined(separator: ", ") + (all > named.count ? " and \(NumberText.count(all - named.count)) more" : "")
    }

    /// The row for the whole upstream.
    /// - Parameter open: all failure scopes of the upstream.
    private static func whole(
        _ api: any AdministeredAPI, _ name: String, _ upstream: UpstreamSummary, _ open: [OpenFailure], _ figures: StatusFigures
    ) -> [Cell] {
        let (report, all) = (upstream.report, open.filter(\.concernsAll).oldestScope)
        let cause = Cell(
            report.cause.map { cause in
                let details = api.lastFailure.flatMap { $0.cause == cause ? $0.details : nil }
                return StateSentence.words(ofCause: cause) + (details.map { ": \($0)" } ?? "")
            } ?? "–")
        let recent = figures.history.recent(api.name, at: figures.sample)
        let errors = "\(NumberText.count(recent.errors)) of \(NumberText.count(recent.responses)) responses 5xx in the last 5 min"
        let note = upstream.note.isEmpty && recent.errors > 0 ? errors : upstream.note
        let isStrained = upstream.isAlarming || recent.errors > 0
        let level: Level? = report.isDown ? .down : isStrained ? .strained : report.state == .up ? .well : nil
        let begin = report.since.map { since($0, figures) } ?? Cell("–")
        var cells = [Cell(name), Cell(upstream.word, note: note, level: level), begin, cause]
        if let all {
            cells += next(all, figures)
        } else if !api.remembersFailures {
            cells += [Cell("–"), Cell("failures are not remembered here (failure.recheck is 0)")]
        } else if open.contains(where: { $0.user == nil }) {
            cells += [Cell("as below"), Cell("requests are sent as usual, except as listed below")]
        } else {
            cells += [Cell("–"), Cell("requests are sent as usual")]
        }
        return cells
    }

    private static func addresses(_ addresses: [AddressState], _ name: String, _ figures: StatusFigures) -> [[Cell]] {
        guard addresses.count > 1 else { return [] }
        let meaning = addresses.contains { $0.down == nil } ? "requests use the other addresses" : "there is no other address"
        return addresses.enumerated().compactMap { index, address in
            address.down.map { down in
                [
                    Cell("\(name): address \(index + 1) of \(addresses.count)"), Cell("Down", level: .strained),
                    since(down.since, figures), Cell(StateSentence.words(ofCause: down.error)), Cell("–"),
                    Cell(meaning),
                ]
            }
        }
    }

    private static func failing(
        _ subject: Cell, _ state: String, _ level: Level?, _ open: OpenFailure, _ figures: StatusFigures
    ) -> [Cell] {
        let cause = Cell(StateSentence.words(ofCause: open.causeText), note: open.advice ?? "")
        return [subject, Cell(state, level: level), since(open.since, figures), cause] + next(open, figures)
    }

    /// Cells with the next check and the affected requests.
    private static func next(_ open: OpenFailure, _ figures: StatusFigures) -> [Cell] {
        let looked = open.checkedAt.map { "checked \(NumberText.span((figures.now - $0) / 1_000)) ago" } ?? ""
        let next = open.wait > 0 ? "in \(NumberText.span((open.wait + 999) / 1_000))" : "with the next request"
        let value = open.settingValue.isEmpty ? "" : " (\(open.settingValue))"
        return [Cell(next, note: looked), Cell(open.effect, note: "set by \(open.setting)\(value)")]
    }

    /// Duration, and the time of its start.
    private static func since(_ start: Int64, _ figures: StatusFigures) -> Cell {
        let span = figures.now - start
        let time = time(figures.wall - span)
        return Cell(NumberText.span(span / 1_000), note: span < 86_400_000 ? String(time.dropFirst(11)) : time)
    }

    // MARK: Routes

    private static func routes(_ figures: StatusFigures) -> Table {
        let snapshot = figures.snapshot
        let apis = snapshot.apiSummaries.filter { $0.total > 0 }.sorted { $0.total > $1.total }
        let routes = snapshot.routeSummaries.filter { $0.total > 0 }.sorted { $0.total > $1.total }
        let shown = routes.prefix(routeLimit)
        // Without lifetimes, only rescues come from the store.
        let hasHits = snapshot.summary.fromStore > snapshot.summary.count(of: .rescued)
        let row = { (route: RouteSummary, name: String) in Self.row(route, name, hasHits: hasHits) }
        var rows = [row(snapshot.summary, "All paths")]
        for api in apis {
            rows.append(row(api, "\(api.name): all paths"))
            rows += shown.filter { $0.name.hasPrefix(api.name + "/") }.map { row($0, $0.name) }
        }
        // Routes of a removed API, or of a single unnamed API.
        rows += shown.filter { route in !apis.contains { route.name.hasPrefix($0.name + "/") } }.map { row($0, $0.name) }
        let more = routes.count > routeLimit ? "; the \(routeLimit) routes with most requests" : ""
        let title = snapshot.apis.isEmpty ? "Routes" : "APIs and routes"
        return Table(
            id: "routes", title: title,
            caption:
                """
                Since the start\(hasHits ? ". Rescues also count as from the store" : ""). The most common reason for not storing, without 5xx, \
                is shown with its setting\(more)
                """,
            columns: [Column("Route"), Column("Requests", isNumber: true)] + (hasHits ? [Column("From the store", isNumber: true)] : []) + [
                Column("Rescued", isNumber: true), Column("5xx", isNumber: true), Column("p99", isNumber: true), Column("Why not stored"),
            ], rows: rows)
    }

    private static let routeLimit = 200

    private static func row(_ route: RouteSummary, _ name: String, hasHits: Bool) -> [Cell] {
        let time =
            route.duration.quantile(0.99).map { Cell(NumberText.duration(microseconds: $0)) }
            ?? Cell("–", note: route.total > 0 ? "measured only with routes" : "")
        let hits = hasHits ? [Cell(NumberText.share(route.fromStore, of: route.total) ?? "–")] : []
        return [Cell(name), Cell(NumberText.count(route.total))] + hits + [
            Cell(NumberText.count(route.count(of: .rescued))), Cell(NumberText.count(route.serverErrors)),
            time, notStored(route.notStored),
        ]
    }

    /// The most frequent reason. If no setting changes it, also the most frequent reason that a setting changes, unless it is much rarer.
    private static func notStored(_ reasons: [(reason: String, count: UInt64)]) -> Cell {
        let known = reasons.compactMap { one in NotStoredReason(rawValue: one.reason).map { (one.count, $0.sentence, $0.advice) } }
        guard let (most, sentence, advice) = known.first else { return Cell("–") }
        let text = { (count: UInt64, sentence: String) in "\(NumberText.count(count)) ×: \(sentence)." }
        let setting = { (advice: WhyAdvice) in "Setting \(advice.setting) – \(advice.effect)." }
        if let advice { return Cell(text(most, sentence), note: setting(advice)) }
        let next = known.first { $0.2 != nil && $0.0 * Self.mentioned >= most }
        let more = next.flatMap { next in next.2.map { " \(text(next.0, next.1)) \(setting($0))" } } ?? ""
        return Cell(text(most, sentence), note: "No setting changes that.\(more)")
    }

    /// Maximum ratio of the counts for a second reason to be mentioned.
    private static let mentioned: UInt64 = 10
}
