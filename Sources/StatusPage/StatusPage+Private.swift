// The parts of the page that only a session sees.

extension StatusPage {
    static func hint(_ page: inout MarkupWriter) {
        page.markup("<section aria-labelledby=\"h-more\"><h2 id=\"h-more\">Targets, exchanges, what is stored</h2><p class=\"quiet\">")
        page.markup(
            "These are shown to a session only. <code>cistern status --open</code> on this machine opens the page with one.</p></section>")
    }

    static func parts(_ view: StatusView.Private, _ page: inout MarkupWriter) {
        page.markup(
            "<section data-session aria-labelledby=\"h-tops\"><h2 id=\"h-tops\">Targets lately</h2><div class=\"tops\" id=\"tops\" data-live>"
        )
        for table in view.tops {
            page.markup("<div>")
            page.element("h3", "h3", table.caption)
            if table.rows.isEmpty { page.element("p class=\"quiet\"", "p", table.empty) } else { rows(table, &page) }
            page.markup("</div>")
        }
        page.markup("</div></section>")
        exchanges(view.exchanges, &page)
        if let switched = view.switched { section(switched, isOfSession: true, &page) }
        store(view, &page)
        end(view, &page)
    }

    /// Nobody else is to find the page open.
    private static func end(_ view: StatusView.Private, _ page: inout MarkupWriter) {
        guard !view.formToken.isEmpty else { return }
        page.markup("<section data-session aria-labelledby=\"h-end\"><h2 id=\"h-end\" class=\"hidden\">This session</h2>")
        start(ofForm: "/end", view, &page)
        page.markup("<button>End the session</button></form></section>")
    }

    /// A form that changes something.
    private static func start(ofForm name: String, _ view: StatusView.Private, _ page: inout MarkupWriter) {
        page.markup("<form class=\"purge\" method=\"post\"")
        page.attribute("action", view.path + name)
        page.markup("><input type=\"hidden\" name=\"token\"")
        page.attribute("value", view.formToken)
        page.markup(">")
    }

    private static func exchanges(_ exchanges: [StatusView.Exchange], _ page: inout MarkupWriter) {
        page.markup(
            "<section data-session aria-labelledby=\"h-last\"><h2 id=\"h-last\">The last exchanges</h2><div class=\"list\" id=\"last\" data-live>"
        )
        if exchanges.isEmpty { page.markup("<p class=\"quiet\">There were none yet.</p>") }
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
        page.markup("</div></section>")
    }

    // MARK: The store

    private static func store(_ view: StatusView.Private, _ page: inout MarkupWriter) {
        page.markup("<section data-session aria-labelledby=\"h-store\" id=\"store\"><h2 id=\"h-store\">What is stored</h2>")
        if !view.said.isEmpty { page.element("p role=\"status\" class=\"said\"", "p", view.said, limit: 400) }
        page.markup("<form class=\"card\" method=\"get\" role=\"search\" aria-label=\"Stored responses\"")
        page.attribute("action", view.path + "#store")
        page.markup(">")
        field("prefix", "Path begins with", view.prefix, &page)
        field("tag", "Tag", view.tag, &page)
        page.markup("<button>Show</button></form>")
        if let entry = view.entry { show(entry, view, &page) }
        guard let listed = view.listed else {
            page.markup("</section>")
            return
        }
        if listed.rows.isEmpty { page.element("p class=\"quiet\"", "p", listed.empty) } else { rows(listed, &page) }
        if let all = view.all {
            purge(view.prefix.isEmpty ? "tag" : "prefix", view.prefix.isEmpty ? view.tag : view.prefix, all, view, &page)
        }
        page.markup("</section>")
    }

    /// The longest path and tag that are looked for.
    public static let searchLimit = 1_024

    private static func field(_ name: String, _ title: String, _ value: String, _ page: inout MarkupWriter) {
        page.markup("<div><label")
        page.attribute("for", "f-" + name)
        page.markup(">")
        page.text(title)
        page.markup("</label><input type=\"text\" maxlength=\"1024\" autocomplete=\"off\" spellcheck=\"false\"")
        page.attribute("id", "f-" + name)
        page.attribute("name", name)
        page.value(value)
        page.markup("></div>")
    }

    private static func show(_ entry: StatusView.Entry, _ view: StatusView.Private, _ page: inout MarkupWriter) {
        page.markup("<div class=\"card\">")
        page.markup("<h3><bdi>")
        page.text(entry.target, limit: 1_000)
        page.markup("</bdi></h3><dl>")
        for fact in entry.facts {
            page.element("dt", "dt", fact.name)
            page.element("dd", "dd", fact.value.text)
        }
        for field in entry.fields {
            page.element("dt", "dt", field.name)
            page.element("dd", "dd", field.value, limit: 400)
        }
        page.markup("</dl>")
        if entry.isContentShown {
            page.markup("<pre tabindex=\"0\" aria-label=\"The beginning of its content\">")
            page.text(entry.content, limit: 2_100)
            page.markup("</pre>")
        } else {
            page.element("p class=\"quiet\"", "p", entry.content)
        }
        purge("id", entry.id, "this response", view, &page)
        page.markup("</div>")
    }

    /// Nothing is purged that is not said to be meant.
    private static func purge(_ name: String, _ value: String, _ what: String, _ view: StatusView.Private, _ page: inout MarkupWriter) {
        guard !view.formToken.isEmpty else { return }
        start(ofForm: "/purge", view, &page)
        page.markup("<input type=\"hidden\"")
        page.attribute("name", name)
        page.value(value)
        page.markup("><label><input type=\"checkbox\" name=\"sure\" value=\"yes\" required> I mean <bdi>")
        page.text(what, limit: 300)
        page.markup("</bdi></label> <button name=\"how\" value=\"soft\">Count as stale</button> ")
        page.markup("<button name=\"how\" value=\"hard\" class=\"danger\">Take out for good</button></form>")
    }

    // MARK: Before the page

    /// A page of one sentence.
    /// - Parameters:
    ///   - path: where it leads.
    ///   - isAtOnce: without being asked; the sentence says so.
    public static func notice(_ sentence: String, to path: String, isAtOnce: Bool, nonce: String) -> [UInt8] {
        var page = MarkupWriter()
        page.markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Cistern</title>")
        page.markup(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">")
        if isAtOnce {
            page.markup("<meta http-equiv=\"refresh\"")
            page.attribute("content", "0;url=" + path)
            page.markup(">")
        }
        page.markup("<style")
        page.attribute("nonce", nonce)
        page.markup(">")
        page.markup(StatusStyle.text)
        page.markup("</style></head><body><main><h1>Cistern</h1><p class=\"state\">")
        if !isAtOnce { page.element("span", "span", sentence, limit: 400) }
        page.markup("<a")
        page.attribute("href", path)
        page.markup(">")
        page.text(isAtOnce ? sentence : "The page of the state", limit: 400)
        page.markup("</a></p></main></body></html>\n")
        return page.bytes
    }
}
