// Tests that the status page is a well-formed document whatever names and numbers contain, and that text is escaped.

import Testing

@testable import Administration

@Suite("The status page")
struct StatusPageTests {
    private func shown(_ text: String, limit: Int = ShownText.limit) -> String {
        var bytes: [UInt8] = []
        ShownText.append(text, limit: limit, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test(
        "foreign text is escaped, left to right, and visible",
        arguments: [
            ("/plain?a=b", "/plain?a=b"), ("<script>&'\"", "&lt;script&gt;&amp;&#39;&quot;"), ("über \u{4f60}", "über \u{4f60}"),
            ("a\u{202e}b", "a⟨U+202E⟩b"), ("\u{2066}\u{200f}", "⟨U+2066⟩⟨U+200F⟩"), ("a\nb\u{0}", "a⟨U+000A⟩b⟨U+0000⟩"),
            ("\u{85}\u{2028}", "⟨U+0085⟩⟨U+2028⟩"), ("\u{200b}\u{feff}", "⟨U+200B⟩⟨U+FEFF⟩"), ("\u{e0041}", "⟨U+E0041⟩"),
            ("\u{3164}", "⟨U+3164⟩"),
            ("e\u{301}\u{301}\u{301}\u{301}x", "e\u{301}\u{301}x"), ("\u{e000}", "⟨U+E000⟩"),
        ])
    func escaped(text: String, expected: String) {
        #expect(shown(text) == expected)
    }

    @Test("long text is truncated in the middle before it is escaped")
    func cut() {
        let long = "/start/" + String(repeating: "<", count: 8_192) + "/end"
        let text = shown(long, limit: 20)
        #expect(text == "/start/" + String(repeating: "&lt;", count: 7) + "…&lt;/end")
        #expect(shown(String(repeating: "a", count: 20), limit: 20).count == 20)
    }

    private static let hostile =
        "</title></style></script><script nonce=\"\">alert(1)</script>\u{202e}\"'>" + String(repeating: "x", count: 8_192)

    private var view: StatusView {
        let hostile = Self.hostile
        var view = StatusView()
        (view.lines, view.version, view.time, view.level) = ([hostile, hostile], hostile, hostile, .down)
        view.tiles = [StatusView.Tile(title: hostile, value: hostile, note: hostile, points: [1, nil, 2, 3], lineWords: hostile)]
        view.tables = [
            StatusView.Table(
                id: "upstreams", title: hostile, caption: hostile, columns: [.init(hostile), .init("n", isNumber: true)],
                rows: [[.init(hostile, note: hostile), .init("1", level: .strained)]])
        ]
        view.tops = view.tables
        view.exchanges = [
            StatusView.Exchange(time: hostile, target: hostile, result: hostile, note: hostile, isFailed: false, sentences: [hostile])
        ]
        view.facts = [StatusView.Facts(hostile, [.init(hostile, hostile, note: hostile, level: .down)])]
        return view
    }

    @Test("hostile names cannot break out: elements are closed, no script is added, and no attribute executes")
    func hostile() {
        let page = String(decoding: StatusPage.render(view, nonce: "abc"), as: UTF8.self)
        #expect(page.utf8.count < 40_000)
        #expect(page.split(separator: "<script").count == 2 && page.split(separator: "</script").count == 2)
        #expect(!page.contains("\u{202e}") && !page.contains(" style="))
        #expect(Self.unclosed(page) == [])
    }

    /// Elements that are not closed, or closed twice.
    static func unclosed(_ page: String) -> [String] {
        var open: [Substring] = []
        var wrong: [String] = []
        let void: Set<Substring> = ["!doctype", "meta", "link", "path", "input", "br"]
        for piece in page.split(separator: "<").dropFirst(page.hasPrefix("<") ? 0 : 1) {
            // In script and style elements, `<` is not markup.
            if ["script", "style"].contains(open.last), !piece.hasPrefix("/script>"), !piece.hasPrefix("/style>") { continue }
            let name = piece.prefix { $0 != " " && $0 != ">" }
            guard let end = piece.firstIndex(of: ">") else {
                wrong.append(String(piece))
                continue
            }
            if name.hasPrefix("/") {
                if open.popLast() != name.dropFirst() { wrong.append(String(name)) }
            } else if !void.contains(name), piece[..<end].last != "/" {
                open.append(name)
            }
        }
        return wrong + open.map(String.init)
    }

    private func page(_ view: StatusView) -> String { String(decoding: StatusPage.render(view, nonce: "abc"), as: UTF8.self) }

    private static func upstreams(_ state: String, note: String) -> StatusView.Table {
        StatusView.Table(
            id: "upstreams", title: "Upstreams", caption: "", columns: [.init("Upstream"), .init("State")],
            rows: [[.init("users"), .init(state, note: note)]])
    }

    @Test("only a change of a state is announced: the announced text contains no number or time")
    func announcement() {
        var view = StatusView()
        (view.lines, view.time) = (["The upstream is up;", "3 requests rescued."], "12:00:00")
        view.tables = [Self.upstreams("Up", note: "last response 6 min ago")]
        let states = { (page: String) in page.split(separator: "data-states=\"").dropFirst().first?.prefix { $0 != "\"" } }
        let before = page(view)
        #expect(states(before) == "Healthy, users: Up" && before.contains("id=\"announcement\" role=\"status\"></p>"))
        // Neither the state nor another part that is replaced with each number is a live region.
        #expect(before.components("role=\"status\"") == 1 && !before.contains("aria-live"))
        (view.lines, view.time) = (["The upstream is up;", "4 requests rescued."], "12:00:02")
        view.tables = [Self.upstreams("Up", note: "last response 7 min ago")]
        #expect(states(page(view)) == states(before))
        view.tables = [Self.upstreams("Down", note: "")]
        #expect(states(page(view)) == "Healthy, users: Down")
    }

    @Test("the state has one fact a line, and a legend explains states and results")
    func facts() {
        var view = StatusView()
        view.lines = ["The upstream has been down for 30 s;", "8 requests rescued.", "The mode is offline, not live."]
        let page = page(view)
        #expect(
            page.contains(
                "<span class=\"first\">The upstream has been down for 30 s;</span> <span>8 requests rescued.</span> <span>The mode"))
        #expect(page.contains("<dt><span class=\"badge strained\">Degraded</span></dt>") && page.contains("<dt>rescued</dt>"))
        #expect(page.contains("rel=\"icon\"") && page.contains("fill=&#39;%2317693a"))
    }

    @Test("empty tables, groups and facts are hidden, with their links, and can be filled later")
    func empty() {
        var view = StatusView()
        let table = StatusView.Table(id: "switched", title: "Modes and faults", caption: "", columns: [.init("Path")], rows: [])
        (view.tables, view.tops) = ([table], [table])
        view.facts = [StatusView.Facts("Store", [.init("Evicted", "0"), .init("Faults", "none"), .init("Size", "0 B")])]
        let page = page(view)
        for hidden in ["Modes and faults", "h-tops", "h-switched", "Evicted", "Faults"] { #expect(!page.contains(hidden), "\(hidden)") }
        #expect(page.contains("<div data-live id=\"switched\"></div>") && page.contains("<div id=\"tops\" data-live></div>"))
        #expect(page.contains("<dt>Size</dt>"))
    }

    @Test("the last exchanges are in an element that a narrow screen closes, and a tile without a chart has none")
    func narrow() {
        var view = StatusView()
        view.exchanges = [StatusView.Exchange(time: "", target: "", result: "hit", note: "", isFailed: false, sentences: [])]
        view.tiles = [StatusView.Tile(title: "Store entries", value: "3", note: "", points: [], lineWords: "")]
        let page = page(view)
        #expect(page.contains("<details class=\"last\" id=\"last-all\" open><summary>1 exchange, newest first</summary>"))
        #expect(page.contains("(max-width: 46rem)") && !page.contains("<svg"))
        #expect(Self.unclosed(page) == [])
    }

    @Test("the header fields forbid foreign content and framing, and only the page has the nonce")
    func fields() {
        let lines = StatusPage.fieldLines(nonce: "abc").split(separator: "\r\n").map(String.init)
        #expect(
            lines.first
                == "Content-Security-Policy: default-src 'none'; style-src 'nonce-abc'; script-src 'nonce-abc'; connect-src 'self'; img-src data:; "
                + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
        for line in ["Referrer-Policy: no-referrer", "X-Frame-Options: DENY"] {
            #expect(lines.contains(line))
        }
        #expect(StatusPage.fieldLines(nonce: "abc").hasSuffix("\r\n"))
    }

    @Test("chart lines connect existing points, with the newest at the right end")
    func lines() {
        let all = StatusPage.paths((0..<60).map { Double($0) })
        #expect(all.stroke.hasPrefix("M0.0 46.0L4.1 45.3") && all.stroke.hasSuffix("L240.0 2.0"))
        #expect(StatusPage.paths([0, 0]).stroke == "M235.9 46.0L240.0 46.0")
        let broken = StatusPage.paths([1, nil, 1, .nan])
        #expect(broken.stroke.split(separator: "M").count == 2)
        #expect(StatusPage.paths([nil, nil]).stroke.isEmpty && StatusPage.paths([]).stroke.isEmpty)
        #expect(StatusPage.paths((0..<500).map { _ in 1 }).stroke.split(separator: "L").count == 60)
    }
}

extension String {
    /// Number of occurrences.
    fileprivate func components(_ text: String) -> Int { split(separator: text, omittingEmptySubsequences: false).count - 1 }
}
