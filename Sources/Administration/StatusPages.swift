// GET /-/status: how things are, for people. Whoever reaches the address sees numbers, states and the names of APIs and routes, and nothing that
// clients asked for.

import Explanation
import HTTPCore
import StatusPage
import Telemetry

enum StatusPages {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["prefix", "tag", "entry", "purged"])
        guard task.item.isEmpty || task.request.place != nil else { throw .notFound("No session is called so.") }
        let viewer = task.interface.viewer(of: task.request)
        task.interface.gathering.gather(task.interface, task.server) { figures in
            let view = StatusView(figures, task.interface.apis)
            guard viewer.maySee else { return task.reply(page(view)) }
            task.interface.lately.gather(task) { lately in
                task.interface.later {
                    var view = view
                    view.details = details(task, viewer, lately)
                    task.reply(page(view))
                }
            }
        }
    }

    private static func page(_ view: StatusView) -> AdminResponse {
        let nonce = AdminSecret.random()
        var response = AdminResponse(content: StatusPage.render(view, nonce: nonce), contentType: StatusPage.contentType)
        response.fieldLines = StatusPage.fieldLines(nonce: nonce, hasForms: view.details != nil)
        return response
    }
}

/// Numbers that nobody can guess.
enum AdminSecret {
    /// Whether a text can be such a number.
    static func isOne(_ text: String) -> Bool { text.utf8.count == 32 && text.utf8.allSatisfy { $0.hexValue != nil } }

    /// 128 bits of the kernel's, as 32 hexadecimal digits.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<2).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}

extension StatusView {
    init(_ figures: StatusFigures, _ apis: [any AdministeredAPI]) {
        self.init()
        sentence = figures.sentence.text
        level = Level(rawValue: figures.sentence.level.rawValue) ?? .strained
        version = figures.snapshot.version
        time = Self.time(figures.wall)
        tiles = Self.tiles(figures)
        tables = [Self.upstreams(figures, apis), Self.routes(figures)]
        facts = Self.facts(figures, apis)
    }

    /// `2026-11-23 13:11:58 UTC`.
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
        let tiles = [
            tile("Requests", rates, "/s", "\(ShownFigures.count(requests)) in five minutes"),
            Tile(
                title: "From the store", value: ShownFigures.share(inAll(\.fromStore), of: requests) ?? "–",
                note: "of all requests, in five minutes", points: history.points(share), lineWords: words(history.points(share), " %")),
            Tile(
                title: "Rescued", value: ShownFigures.count(rescued), note: "requests, in five minutes", points: perSecond(\.rescued),
                lineWords: words(perSecond(\.rescued), "/s"), isAlarming: rescued > 0),
            Tile(
                title: "Errors", value: ShownFigures.count(errors), note: "responses 5xx, in five minutes", points: perSecond(\.errors),
                lineWords: words(perSecond(\.errors), "/s"), isAlarming: errors > 0),
        ]
        return tiles + [latency(figures, "Half within", 0.5), latency(figures, "99 % within", 0.99)]
    }

    private static func tile(_ title: String, _ points: [Double?], _ unit: String, _ note: String) -> Tile {
        let last = points.last ?? nil
        return Tile(
            title: title, value: last.map { ShownFigures.decimal($0) + unit } ?? "–", note: note, points: points,
            lineWords: words(points, unit))
    }

    private static func latency(_ figures: StatusFigures, _ title: String, _ share: Double) -> Tile {
        let points = figures.history.points { from, to in to.duration.since(from.duration).quantile(share).map { Double($0) / 1_000 } }
        let all = figures.history.samples.first.map { figures.sample.duration.since($0.duration) }
        return Tile(
            title: title, value: all?.quantile(share).map { ShownFigures.duration(microseconds: $0) } ?? "–",
            note: "of clients' requests, in five minutes",
            points: points, lineWords: words(points, " ms"))
    }

    private static func words(_ points: [Double?], _ unit: String) -> String {
        let known = points.compactMap { $0 }
        guard let least = known.min(), let most = known.max(), let last = known.last else { return "No line yet" }
        let text = { (value: Double) in ShownFigures.decimal(value) + unit }
        return "Five minutes: from \(text(least)) to \(text(most)), now \(text(last))"
    }

    // MARK: Upstreams

    private static func upstreams(_ figures: StatusFigures, _ apis: [any AdministeredAPI]) -> Table {
        let rows = apis.indices.flatMap { place in
            self.rows(apis[place], figures.failures[place], figures.states[place], figures)
        }
        return Table(
            id: "upstreams", title: "Upstreams",
            caption: "Each upstream, and below it what of it fails: since when, why, and what that stops",
            columns: [
                Column("Upstream"), Column("State"), Column("Since"), Column("Last error"), Column("Next look"), Column("What that means"),
            ],
            rows: rows, empty: "")
    }

    private static func rows(
        _ api: any AdministeredAPI, _ open: [OpenFailure], _ state: UpstreamState, _ figures: StatusFigures
    ) -> [[Cell]] {
        let (name, now) = (api.name.isEmpty ? "The upstream" : api.name, figures.now)
        let narrow = open.filter { !$0.isOfAll }
        var rows: [[Cell]] = []
        if !api.isUp, let first = open.filter(\.isOfAll).min(by: { $0.since < $1.since }) {
            rows.append(failing(Cell(name), Cell("Down", level: .down), first, now: now))
        } else {
            let failsInPart = narrow.contains { $0.user == nil } && !state.isAlarming
            rows.append(whole(api, name, state, failsInPart: failsInPart, figures))
        }
        rows += addresses(api.addresses, name, now: now)
        for one in narrow where one.route != nil {
            rows.append(failing(Cell("\(name): route \(one.route ?? "")"), Cell("Fails", level: .strained), one, now: now))
        }
        for (kind, title) in [("family", "groups of paths"), ("target", "paths")] {
            let same = narrow.filter { $0.kind == kind && $0.route == nil }
            guard let first = same.min(by: { $0.since < $1.since }) else { continue }
            rows.append(
                failing(Cell("\(name): \(ShownFigures.count(same.count)) \(title)"), Cell("Fails", level: .strained), first, now: now))
        }
        for (isForOne, title) in [(false, "pauses that it asked for"), (true, "pauses that it asked single users for")] {
            let same = narrow.filter { $0.kind == "pause" && ($0.user != nil) == isForOne }
            guard let first = same.min(by: { $0.since < $1.since }) else { continue }
            let state = isForOne ? Cell("Paused") : Cell("Paused", level: .strained)
            rows.append(failing(Cell("\(name): \(ShownFigures.count(same.count)) \(title)"), state, first, now: now))
        }
        return rows
    }

    /// Of an upstream that is not known to be down.
    private static func whole(
        _ api: any AdministeredAPI, _ name: String, _ state: UpstreamState, failsInPart: Bool, _ figures: StatusFigures
    ) -> [Cell] {
        let contact = figures.snapshot.counts(ofAPI: Int(api.place)).contact
        let labels = figures.snapshot.shards.labels.upstreamErrors
        let cause = contact.failure.flatMap { labels.indices.contains($0.error) ? StateSentence.words(ofCause: labels[$0.error]) : nil }
        let meaning = api.remembersFailures ? "requests are sent as ever" : "failures are not remembered here (failure.memory)"
        return [
            Cell(name), badge(api, state, contact, failsInPart: failsInPart, figures), Cell("–"), Cell(cause ?? "–"), Cell("–"),
            Cell(meaning),
        ]
    }

    private static func badge(
        _ api: any AdministeredAPI, _ state: UpstreamState, _ contact: UpstreamContact, failsInPart: Bool, _ figures: StatusFigures
    ) -> Cell {
        let ago = { (time: Int64?) in time.map { "\(ShownFigures.span((figures.now - $0) / 1_000)) ago" } ?? "" }
        let lately = figures.history.lately(api.name, at: figures.sample)
        let errors = "\(ShownFigures.count(lately.errors)) of \(ShownFigures.count(lately.responses)) responses 5xx in the last 5 min"
        switch state {
        case .errors: return Cell(state.word, note: errors, level: .strained)
        case .silent: return Cell(state.word, note: ago(contact.failure?.at), level: .strained)
        case .unasked, .responds, .responded, .reachable:
            guard !failsInPart, lately.errors == 0 else {
                return Cell("Fails in part", note: lately.errors == 0 ? "" : errors, level: .strained)
            }
            return Cell(state.word, note: state == .responded ? ago(contact.respondedAt) : "", level: state == .responds ? .well : nil)
        }
    }

    private static func addresses(_ addresses: [AddressState], _ name: String, now: Int64) -> [[Cell]] {
        guard addresses.count > 1 else { return [] }
        let meaning = addresses.contains { $0.down == nil } ? "the other addresses are asked" : "there is no other to ask"
        return addresses.enumerated().compactMap { place, address in
            address.down.map { down in
                [
                    Cell("\(name): address \(place + 1) of \(addresses.count)"), Cell("Down", level: .strained),
                    Cell(ShownFigures.span((now - down.since) / 1_000)), Cell(StateSentence.words(ofCause: down.error)), Cell("–"),
                    Cell(meaning),
                ]
            }
        }
    }

    private static func failing(_ place: Cell, _ state: Cell, _ open: OpenFailure, now: Int64) -> [Cell] {
        [
            place, state, Cell(ShownFigures.span((now - open.since) / 1_000)), Cell(StateSentence.words(ofCause: open.cause)),
            Cell(open.wait > 0 ? "in \(ShownFigures.span((open.wait + 999) / 1_000))" : "with the next request"),
            Cell(open.effect, note: "set by \(open.setting)"),
        ]
    }

    // MARK: Routes

    private static func routes(_ figures: StatusFigures) -> Table {
        let snapshot = figures.snapshot
        let apis = snapshot.apiSummaries.filter { $0.total > 0 }.sorted { $0.total > $1.total }
        let routes = snapshot.routeSummaries.filter { $0.total > 0 }.sorted { $0.total > $1.total }
        let shown = routes.prefix(routeLimit)
        var rows = [row(snapshot.summary, "All paths")]
        for api in apis {
            rows.append(row(api, "\(api.name): all paths"))
            rows += shown.filter { $0.name.hasPrefix(api.name + "/") }.map { row($0, $0.name) }
        }
        // Of an API that is not served any more, or of the only one.
        rows += shown.filter { route in !apis.contains { route.name.hasPrefix($0.name + "/") } }.map { row($0, $0.name) }
        let more = routes.count > routeLimit ? "; the \(routeLimit) routes of most requests" : ""
        let title = snapshot.apis.isEmpty ? "Routes" : "APIs and routes"
        return Table(
            id: "routes", title: title,
            caption:
                "Requests since the start, and what was most often not stored, errors aside, with the setting that would change it\(more)",
            columns: [
                Column("Route"), Column("Requests", isNumber: true), Column("From the store", isNumber: true),
                Column("Rescued", isNumber: true),
                Column("5xx", isNumber: true), Column("99 % within", isNumber: true), Column("Most often not stored"),
            ], rows: rows, empty: "")
    }

    private static let routeLimit = 200

    private static func row(_ route: RouteSummary, _ name: String) -> [Cell] {
        [
            Cell(name), Cell(ShownFigures.count(route.total)), Cell(ShownFigures.share(route.fromStore, of: route.total) ?? "–"),
            Cell(ShownFigures.count(route.count(of: .rescued))), Cell(ShownFigures.count(route.serverErrors)),
            Cell(route.duration.quantile(0.99).map { ShownFigures.duration(microseconds: $0) } ?? "–"), notStored(route.notStored),
        ]
    }

    private static func notStored(_ most: (reason: String, count: UInt64)?) -> Cell {
        guard let most, let words = WhyAdvice.words(ofNotStored: most.reason) else { return Cell("–") }
        let advice = words.advice.map { "Setting \($0.setting) – \($0.effect)." } ?? "No setting changes that."
        return Cell("\(ShownFigures.count(most.count)) ×: \(words.sentence).", note: advice)
    }
}
