// The status page: one HTML document without external resources, usable without JavaScript. A script refreshes the elements with
// `data-live`, which need an id.

enum StatusPage {
    /// - Parameter nonce: letters and digits, unique to the response. The Content-Security-Policy permits only the style and the script
    ///   with this nonce.
    static func render(_ view: StatusView, nonce: String) -> [UInt8] {
        var page = MarkupWriter()
        head(view, nonce, &page)
        page.markup("<main>")
        state(view, &page)
        legend(&page)
        menu(view, &page)
        tiles(view.tiles, &page)
        for table in view.tables { section(table, &page) }
        tops(view.tops, &page)
        exchanges(view.exchanges, &page)
        facts(view.facts, &page)
        page.markup("</main>")
        foot(nonce, &page)
        return page.bytes
    }

    static func fieldLines(nonce: String) -> String {
        let policy = [
            "default-src 'none'", "style-src 'nonce-\(nonce)'", "script-src 'nonce-\(nonce)'", "connect-src 'self'", "img-src data:",
            "form-action 'none'",
            "frame-ancestors 'none'", "base-uri 'none'",
        ]
        return """
            Content-Security-Policy: \(policy.joined(separator: "; "))\r\nReferrer-Policy: no-referrer\r\n\
            X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n
            """
    }

    static let contentType = "text/html; charset=utf-8"

    private static func head(_ view: StatusView, _ nonce: String, _ page: inout MarkupWriter) {
        page.markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>")
        page.text("\(view.level.label) – Cistern")
        page.markup("</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")
        page.markup(
            "<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\"><meta name=\"description\"")
        page.attribute("content", view.lines.joined(separator: " "), limit: 1_000)
        page.markup("><link id=\"icon\" rel=\"icon\" type=\"image/svg+xml\"")
        page.attribute("href", icon(view.level), limit: 1_000)
        page.markup("><style")
        page.attribute("nonce", nonce)
        page.markup(">")
        page.markup(StatusStyle.text)
        page.markup("</style></head><body><header><h1>Cistern</h1><p class=\"quiet\" id=\"time\" data-live>")
        page.text("\(view.version), \(view.time)")
        page.markup("</p><p class=\"quiet\" id=\"live\" hidden></p><p class=\"hidden\" id=\"announcement\" role=\"status\"></p></header>")
    }

    /// A disk in the colour of the level, as a data URI.
    private static func icon(_ level: StatusView.Level) -> String {
        let colour = [StatusView.Level.well: "17693a", .strained: "b87400", .down: "a31621"][level] ?? ""
        return "data:image/svg+xml,%3Csvg xmlns='http%3A//www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
            + "%3Ccircle cx='8' cy='8' r='7' fill='%23\(colour)'/%3E%3C/svg%3E"
    }

    /// The script announces the state when `data-states` changes, and not when only a number does.
    private static func state(_ view: StatusView, _ page: inout MarkupWriter) {
        page.markup("<section aria-labelledby=\"h-state\"><h2 id=\"h-state\" class=\"hidden\">State</h2><div id=\"state\" data-live>")
        page.markup("<p class=\"state ")
        page.text(view.level.rawValue)
        page.markup("\"")
        page.attribute("data-states", states(view).joined(separator: ", "), limit: 1_000)
        page.markup(">")
        badge(view.level, view.level.label, &page)
        page.markup(" <span class=\"sentence\">")
        for (index, line) in view.lines.enumerated() {
            page.element(index == 0 ? "span class=\"first\"" : "span", "span", line, limit: 1_000)
            page.markup(" ")
        }
        page.markup("</span></p></div></section>")
    }

    /// The overall state, and that of each upstream.
    private static func states(_ view: StatusView) -> [String] {
        let upstreams = view.tables.first?.rows.compactMap { row in row.count > 1 ? "\(row[0].text): \(row[1].text)" : nil } ?? []
        return [view.level.label] + upstreams
    }

    private static func legend(_ page: inout MarkupWriter) {
        page.markup("<details class=\"legend quiet\"><summary>What the states and results mean</summary><dl>")
        for (level, meaning) in [
            (StatusView.Level.well, "Requests are served as usual."),
            (.strained, "Something fails or differs from usual operation. Clients get responses, some of them from the store."),
            (.down, "An upstream fails, and clients get errors."),
        ] {
            page.markup("<dt>")
            badge(level, level.label, &page)
            page.markup("</dt>")
            page.element("dd", "dd", meaning)
        }
        for (result, meaning) in [
            ("rescued", "A stored copy was served because the upstream failed or was too slow."),
            ("hit, stale, revalidated, collapsed", "A response from the store, or of another request."),
            ("miss, bypass", "A response of the upstream."), ("error", "The upstream failed, and no copy could be served."),
            ("p99", "99 % of the requests were faster."),
        ] {
            page.element("dt", "dt", result)
            page.element("dd", "dd", meaning)
        }
        page.markup("</dl></details>")
    }

    private static func menu(_ view: StatusView, _ page: inout MarkupWriter) {
        page.markup(
            "<nav class=\"quiet\" aria-label=\"Parts of this page\" id=\"menu\" data-live><a href=\"#h-tiles\">The last five minutes</a>")
        for table in view.tables where !table.rows.isEmpty {
            page.markup(" <a")
            page.attribute("href", "#h-" + table.id)
            page.markup(">")
            page.text(table.title)
            page.markup("</a>")
        }
        if view.tops.contains(where: { !$0.rows.isEmpty }) { page.markup(" <a href=\"#h-tops\">Frequent paths</a>") }
        page.markup(" <a href=\"#h-last\">The last exchanges</a> <a href=\"#h-facts\">Cistern itself</a></nav>")
    }

    static func badge(_ level: StatusView.Level, _ word: String, _ page: inout MarkupWriter) {
        page.markup("<span class=\"badge ")
        page.text(level.rawValue)
        page.markup("\">")
        page.text(word)
        page.markup("</span>")
    }

    // MARK: Tiles

    private static func tiles(_ tiles: [StatusView.Tile], _ page: inout MarkupWriter) {
        page.markup(
            "<section aria-labelledby=\"h-tiles\"><h2 id=\"h-tiles\">The last five minutes</h2><ul class=\"tiles\" id=\"tiles\" data-live>")
        for tile in tiles {
            page.markup("<li class=\"tile ")
            page.text(tile.level?.rawValue ?? "")
            page.markup("\">")
            page.element("h3", "h3", tile.title)
            page.element("p class=\"value\"", "p", tile.value)
            page.element("p class=\"quiet\"", "p", tile.note)
            line(tile, &page)
            page.markup("</li>")
        }
        page.markup("</ul></section>")
    }

    private static let (lineWidth, lineHeight) = (240.0, 44.0)

    private static func line(_ tile: StatusView.Tile, _ page: inout MarkupWriter) {
        guard !tile.lineWords.isEmpty else { return }
        page.markup("<svg viewBox=\"0 0 240 48\" preserveAspectRatio=\"none\" role=\"img\"")
        page.attribute("aria-label", tile.lineWords)
        page.markup("><path class=\"floor\" d=\"M0 46H240\"/>")
        let (stroke, area) = paths(tile.points)
        if !stroke.isEmpty {
            page.markup("<path class=\"area\"")
            page.attribute("d", area, limit: .max - 1)
            page.markup("/><path class=\"line\"")
            page.attribute("d", stroke, limit: .max - 1)
            page.markup("/>")
        }
        page.markup("</svg>")
    }

    /// SVG paths of the line through the known points, with the newest at the right end, and of the area below it.
    static func paths(_ points: [Double?]) -> (stroke: String, area: String) {
        let points = points.map { $0.flatMap { $0.isFinite ? $0 : nil } }
        let most = max(points.compactMap { $0 }.max() ?? 0, 1e-9)
        let step = lineWidth / Double(max(1, pointLimit - 1))
        let first = max(0, pointLimit - points.count)
        var (stroke, area, last) = ("", "", nil as String?)
        for (index, point) in points.suffix(pointLimit).enumerated() {
            guard let point else {
                if let ended = last { area += "L\(ended) 46Z" }
                last = nil
                continue
            }
            let x = tenths(Double(first + index) * step)
            let spot = "\(x) \(tenths(46 - max(0, point) / most * lineHeight))"
            area += last == nil ? "M\(x) 46L\(spot)" : "L\(spot)"
            stroke += (last == nil ? "M" : "L") + spot
            last = x
        }
        if let last { area += "L\(last) 46Z" }
        return (stroke, area)
    }

    /// Five minutes of samples at intervals of five seconds.
    static let pointLimit = 60

    private static func tenths(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10))"
    }

    // MARK: Tables and facts

    private static func section(_ table: StatusView.Table, _ page: inout MarkupWriter) {
        // Present even if it is empty, so that the script can fill it.
        page.markup("<div data-live")
        page.attribute("id", table.id)
        page.markup(">")
        if !table.rows.isEmpty {
            page.markup("<section")
            page.attribute("aria-labelledby", "h-" + table.id)
            page.markup("><h2")
            page.attribute("id", "h-" + table.id)
            page.markup(">")
            page.text(table.title)
            page.markup("</h2>")
            rows(table, &page)
            page.markup("</section>")
        }
        page.markup("</div>")
    }

    /// A table in a container that scrolls horizontally, also by keyboard.
    static func rows(_ table: StatusView.Table, _ page: inout MarkupWriter) {
        page.markup(table.columns.count > 2 ? "<div class=\"scroll wide\"" : "<div class=\"scroll\"")
        page.markup(" role=\"region\" tabindex=\"0\"")
        page.attribute("aria-label", table.caption)
        // Explicit roles, because the style displays rows as cards on narrow screens.
        page.markup("><table role=\"table\"><caption>")
        page.text(table.caption, limit: 400)
        page.markup("</caption><thead role=\"rowgroup\"><tr role=\"row\">")
        for column in table.columns {
            page.element(
                column.isNumber
                    ? "th scope=\"col\" role=\"columnheader\" class=\"number\"" : "th scope=\"col\" role=\"columnheader\"", "th",
                column.title)
        }
        page.markup("</tr></thead><tbody role=\"rowgroup\">")
        for row in table.rows {
            page.markup("<tr role=\"row\">")
            for (cell, column) in zip(row, table.columns) {
                self.cell(cell, column, isFirst: column.title == table.columns[0].title, &page)
            }
            page.markup("</tr>")
        }
        page.markup("</tbody></table></div>")
    }

    private static func cell(_ cell: StatusView.Cell, _ column: StatusView.Column, isFirst: Bool, _ page: inout MarkupWriter) {
        if isFirst {
            page.markup("<th scope=\"row\" role=\"rowheader\">")
        } else {
            page.markup(column.isNumber ? "<td role=\"cell\" class=\"number\"" : "<td role=\"cell\"")
            page.attribute("data-title", column.title)
            page.markup(">")
        }
        content(of: cell, &page)
        page.markup(isFirst ? "</th>" : "</td>")
    }

    private static func content(of cell: StatusView.Cell, _ page: inout MarkupWriter) {
        if let level = cell.level {
            badge(level, cell.text, &page)
        } else {
            page.element("bdi", "bdi", cell.text, limit: 400)
        }
        if !cell.note.isEmpty { page.element("span class=\"note\"", "span", cell.note, limit: 600) }
    }

    private static func facts(_ groups: [StatusView.Facts], _ page: inout MarkupWriter) {
        page.markup(
            "<section aria-labelledby=\"h-facts\"><h2 id=\"h-facts\">Cistern itself</h2><div class=\"facts\" id=\"facts\" data-live>")
        for group in groups {
            page.markup("<div>")
            page.element("h3", "h3", group.title)
            page.markup("<dl>")
            for fact in group.facts {
                page.element("dt", "dt", fact.name)
                page.markup("<dd>")
                content(of: fact.value, &page)
                page.markup("</dd>")
            }
            page.markup("</dl></div>")
        }
        page.markup("</div></section>")
    }

    private static func foot(_ nonce: String, _ page: inout MarkupWriter) {
        page.markup("<footer class=\"quiet\"><p>For graphs and alerts there is <a href=\"/metrics\">/metrics</a>. ")
        page.markup(
            "<code>cistern why</code> explains each request, and <a href=\"/-/openapi.json\">the interface</a> has all numbers.</p>")
        page.markup("<p>Guides of the manual (Configuration/Guides): ")
        page.markup("<cite>When the upstream fails: Troubleshooting</cite>, <cite>Monitoring</cite>, <cite>Practising Outages</cite>, ")
        page.markup("<cite>Purging</cite>.</p></footer><script")
        page.attribute("nonce", nonce)
        page.markup(">")
        page.markup(StatusScript.text)
        page.markup("</script></body></html>\n")
    }
}
