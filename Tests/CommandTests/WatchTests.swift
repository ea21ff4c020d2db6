// Tests of `cistern status --watch`: its output, its keys, and the real binary on a terminal.

import Addresses
import CachePolicy
import JSON
import ReverseProxy
import TestSupport
import Testing

@testable import cistern

@Suite("status --watch", .play)
struct WatchTests {
    /// A response of /-/stats with these counts.
    private static func stats(hits: Int, routes: [(name: String, hits: Int, rescued: Int, errors: Int, slow: Int)] = []) -> JSONValue {
        [
            "state": ["level": "down", "sentence": .string(words)], "version": "1", "time": "2026-11-23T12:04:00.000Z",
            "requests": ["hit": .integer(hits), "rescued": 0, "error": 0, "own": 5],
            "latency_seconds": ["hit": ["counts": [.integer(hits), 0, 0]]], "latency_bounds_seconds": [.number(0.001), .number(1)],
            "response_bytes": ["store": .integer(hits * 1_024), "upstream": 0], "store": ["writable": true],
            "apis": [
                ["name": "users", "up": false, "state": "down", "requests": ["hit": .integer(hits)]],
                ["name": "orders", "up": true, "state": "up", "requests": ["hit": 0]],
            ],
            "routes": .array(
                routes.map { route -> JSONValue in
                    [
                        "name": .string(route.name),
                        "requests": ["hit": .integer(route.hits), "rescued": .integer(route.rescued), "error": .integer(route.errors)],
                        // Half of the errors; the others were caused by clients.
                        "server_errors": .integer(route.errors / 2),
                        "latency_seconds": ["counts": [.integer(route.hits), .integer(route.slow), 0]],
                    ]
                }),
        ]
    }

    private static let words = "users has been down for 4 min (connection refused); 1,204 requests rescued, oldest copy 12 min, 3 failed."

    private static let change = StatsChange(
        from: stats(hits: 100, routes: [("users/a", 0, 0, 0, 0)]),
        to: stats(
            hits: 120,
            routes: [("users/a", 2, 0, 8, 0), ("users/b", 4, 4, 0, 4), ("orders/verylongnameofaroutethatdoesnotfit", 1, 0, 0, 0)]),
        seconds: 2)

    private func picture(_ view: WatchView, width: Int = 80, height: Int = 40, hasColours: Bool = false) -> [String] {
        let stats = Self.stats(hits: 120)
        return view.render(Self.change, stats, width: width, height: height, hasColours: hasColours)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    @Test("rates cover the interval between two samples, and a restarted server counts from zero")
    func rates() {
        #expect(Self.change.rate == 10 && Self.change.storeBytes == 10_240)
        #expect(Self.change.routes.map(\.rate) == [5, 4, 0.5] && Self.change.routes[0].failed == 2)
        #expect(Self.change.apis.map(\.rate) == [10, 0])
        #expect(StatsChange(from: Self.stats(hits: 500), to: Self.stats(hits: 3), seconds: 1).rate == 0)
    }

    @Test("the status sentence is the server's, wrapped at the terminal's width")
    func sentence() {
        #expect(picture(WatchView(), width: 200)[1] == Self.words)
        let narrow = picture(WatchView())
        #expect(narrow[1] == "users has been down for 4 min (connection refused); 1,204 requests rescued,")
        #expect(narrow[2] == "oldest copy 12 min, 3 failed.")
    }

    @Test("no line exceeds the terminal's size, and the key help is always the last line", arguments: [20, 40, 80, 200])
    func size(width: Int) {
        for height in [5, 12, 24, 60] {
            let lines = picture(WatchView(), width: width, height: height)
            #expect(lines.allSatisfy { $0.count <= width }, "\(lines)")
            #expect(lines.last?.hasPrefix("q quit") == true)
            #expect(height < 12 || lines.count <= height, "\(lines.count) of \(height)")
            #expect(height == 60 || lines.contains { $0.hasPrefix("… ") } || lines.count <= height)
        }
    }

    @Test("at 80 columns all route columns are shown, and long route names are truncated")
    func columns() throws {
        let lines = picture(WatchView())
        let title = try #require(lines.first { $0.hasPrefix("ROUTE") })
        #expect(["REQUESTS/S", "STORE", "RESCUED/S", "ERRORS/S", "P50", "P99"].allSatisfy(title.contains))
        #expect(lines.contains { $0.hasPrefix("orders/verylong") && $0.contains("… ") && $0.hasSuffix("1.0 ms") })
        #expect(lines.contains { $0.hasPrefix("users ") && $0.hasSuffix("DOWN") })
    }

    @Test("colour is used only in the status sentence, and only if enabled")
    func colours() {
        #expect(!picture(WatchView()).joined().contains("\u{1b}"))
        let coloured = picture(WatchView(), hasColours: true)
        #expect(coloured.filter { $0.contains("\u{1b}") }.count == 2)
        #expect(coloured[2] == "\u{1b}[1;31moldest copy 12 min, 3 failed.\u{1b}[0m")
    }

    /// The routes in their displayed order.
    private func routes(_ view: WatchView) -> [String] {
        let lines = picture(view)
        guard let title = lines.firstIndex(where: { $0.hasPrefix("ROUTE") }) else { return [] }
        return lines[(title + 1)...].prefix { $0.contains("/") && !$0.hasPrefix("q ") }.map { String($0.prefix { $0 != " " }.prefix(8)) }
    }

    @Test("keys sort, filter, pause and quit")
    func keys() {
        var view = WatchView()
        func press(_ keys: String) -> [Bool] { keys.utf8.map { view.handleKey($0) } }
        #expect(routes(view) == ["users/a", "users/b", "orders/v"])
        for (order, sorted) in [
            ("rescued", ["users/b", "orders/v", "users/a"]), ("errors", ["users/a", "orders/v", "users/b"]),
            ("time", ["users/b", "orders/v", "users/a"]), ("name", ["orders/v", "users/a", "users/b"]),
            ("requests", ["users/a", "users/b", "orders/v"]),
        ] {
            #expect(press("s") == [false])
            #expect(view.order.rawValue == order && routes(view) == sorted, "\(order)")
        }
        // In the filter, q is a letter.
        #expect(press("/Qusers/Bx") == Array(repeating: false, count: 10))
        #expect(view.isTyping && view.filter == "qusers/bx")
        #expect(press("\u{7f}\u{1b}").contains(true) == false && view.filter.isEmpty && !view.isTyping)
        #expect(press("/users/b\r").contains(true) == false && routes(view) == ["users/b"])
        #expect(picture(view).contains("API  none of 2 has users/b in its name"))
        #expect(press("p") == [false] && view.isPaused && picture(view)[0].hasSuffix("PAUSED"))
        #expect(press(" ") == [false] && !view.isPaused)
        for key in ["q", "Q", "\u{03}", "\u{04}"] { #expect(press(key) == [true]) }
    }

    // MARK: The real binary

    private func played() throws -> ProxyPlay {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { settings in
            var route = Route()
            (route.name, route.pattern) = ("list", RoutePattern("/users/list/**"))
            settings.routes = [route]
            var apis = [settings, settings]
            (apis[0].apiName, apis[1].apiName) = ("users", "orders")
            apis[0].scope.path = Array("/users".utf8)
            apis[1].routes = []
            settings.apis = apis
        }
        for target in ["/users/list/1", "/users/list/1", "/orders"] { _ = try play.get(target) }
        return play
    }

    private func screen(_ play: ProxyPlay, _ keys: String, _ options: String, environment: String) throws -> CommandLineTool.Outcome {
        let watch =
            "stty cols 80 rows 30; exec env \(environment) \(CommandLineTool.path) status --watch \(options) --admin unix:\(play.adminSocket)"
        let outcome = try CommandLineTool.run(program: "printf '\(keys)' | script -qec '\(watch)' /dev/null")
        // Terminals end lines with CR and LF.
        return CommandLineTool.Outcome(
            status: outcome.status, text: String(String.UnicodeScalarView(outcome.text.unicodeScalars.filter { $0 != "\r" })))
    }

    @Test("an 80-column terminal shows the status sentence, APIs and routes, and keys work as described")
    func terminal() throws {
        let play = try played()
        let outcome = try screen(play, "/list\\rq", "--interval 3600", environment: "TERM=xterm NO_COLOR=1")
        #expect(outcome.status == 0)
        let pictures = outcome.text.split(separator: "\u{1b}[H\u{1b}[J").map(String.init)
        #expect(pictures.count >= 3)
        let first = try #require(pictures.first { $0.contains("cistern ") })
        for text in ["All 2 upstreams are up", "\nAPI ", "\nROUTE ", "\nusers/list ", "\nusers/* ", "\norders ", "s sort: requests"] {
            #expect(first.contains(text), "\(text): \(first)")
        }
        let last = try #require(pictures.last)
        #expect(last.contains("\nusers/list ") && !last.contains("\nusers/* ") && last.contains("/ filter: list"), "\(last)")
        for picture in pictures.dropFirst() { #expect(picture.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(picture)") }
        #expect(!outcome.text.contains("\u{1b}[1;"))
        #expect(try screen(play, "q", "--interval 3600", environment: "TERM=xterm NO_COLOR=").text.contains("\u{1b}[1;32mAll 2"))
    }

    @Test("a signal that ends the command restores the terminal", arguments: ["TERM", "HUP", "INT"])
    func ended(signal: String) throws {
        let play = try played()
        let watch = "TERM=xterm \(CommandLineTool.path) status --watch --interval 3600 --admin unix:\(play.adminSocket)"
        let shows = { (word: String) in "stty -a </dev/tty | grep -q -- ' \(word) '" }
        let script =
            "\(watch) </dev/tty >/dev/tty & until \(shows("-echo")); do :; done; kill -\(signal) $!; wait $!; \(shows("echo")) && echo well"
        let outcome = try CommandLineTool.run(program: "script -qec \"\(script.replacing("$", with: "\\$"))\" /dev/null </dev/null")
        #expect(outcome.text.contains("well"))
    }

    @Test("on a dumb terminal plain lines are printed")
    func dumb() throws {
        let play = try played()
        let outcome = try screen(play, "", "--interval 0.1 --count 2", environment: "TERM=dumb")
        #expect(outcome.status == 0 && !outcome.text.contains("\u{1b}"))
        #expect(outcome.lines.filter { $0.contains("requests=") }.count == 2)
    }

    @Test("status --json includes APIs and routes")
    func stats() throws {
        let outcome = try CommandLineTool(play: played()).run("status --json")
        let stats = try #require(JSONValue(Array(outcome.text.utf8)))
        #expect(stats["apis"]?.array?.map { $0["name"]?.string } == ["users", "orders"] && stats["apis"]?.array?[0]["up"] == true)
        #expect(stats["apis"]?.array?.map { $0["requests"]?["miss"]?.integer } == [1, 1])
        let routes = stats["routes"]?.array ?? []
        #expect(routes.map { $0["name"]?.string } == ["users/list", "users/*"])
        #expect(routes[0]["requests"]?["hit"]?.integer == 1 && routes[0]["latency_seconds"]?["p99"]?.double != nil)
    }
}
