// Sections of the status page about requests: frequent paths and the last exchanges.

extension StatusPage {
    static func tops(_ tables: [StatusView.Table], _ page: inout MarkupWriter) {
        // Present even if it is empty, so that the script can fill it.
        page.markup("<div id=\"tops\" data-live>")
        let filled = tables.filter { !$0.rows.isEmpty }
        if !filled.isEmpty {
            page.markup("<section aria-labelledby=\"h-tops\"><h2 id=\"h-tops\">Frequent paths</h2><div class=\"tops\">")
            for table in filled {
                page.markup("<div>")
                page.element("h3", "h3", table.caption)
                rows(table, &page)
                page.markup("</div>")
            }
            page.markup("</div></section>")
        }
        page.markup("</div>")
    }

    /// - Parameter exchanges: nil if the request may not see them.
    static func exchanges(_ exchanges: [StatusView.Exchange]?, _ page: inout MarkupWriter) {
        page.markup("<section aria-labelledby=\"h-last\"><h2 id=\"h-last\">The last exchanges</h2>")
        guard let exchanges else {
            page.markup("<p class=\"quiet\"><a href=\"/-/status/exchanges\">The page with the last exchanges</a> needs a password: ")
            page.markup("the token of admin.token_file. <code>cistern why</code> shows them too.</p></section>")
            return
        }
        // The script closes it on narrow screens.
        page.markup("<details class=\"last\" id=\"last-all\" open><summary>")
        page.text("\(exchanges.count == 1 ? "1 exchange" : "\(exchanges.count) exchanges"), newest first")
        page.markup("</summary><div class=\"list\" id=\"last\" data-live>")
        if exchanges.isEmpty { page.markup("<p class=\"quiet\">No exchange yet.</p>") }
        for exchange in exchanges {
            page.markup("<details><summary>")
            page.element("span class=\"quiet\"", "span", exchange.time)
            page.markup(" ")
            badge(exchange.isFailed ? .down : ["rescued", "error"].contains(exchange.result) ? .strained : .well, exchange.result, &page)
            page.markup(" ")
            page.element("bdi", "bdi", exchange.target)
            page.markup(" ")
            page.element("span class=\"quiet\"", "span", exchange.note)
            page.markup("</summary><ul>")
            for sentence in exchange.sentences { page.element("li", "li", sentence, limit: 600) }
            page.markup("</ul></details>")
        }
        page.markup("</div></details></section>")
    }
}
