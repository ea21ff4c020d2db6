// `cistern top`: what happens now.

import ArgumentParser
import Glibc
import JSON

struct Top: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a running Cistern: how things are, rates, results, latency, APIs and routes.",
        discussion: """
            On a terminal the picture is drawn anew each time; else, and where TERM is dumb, a line is written. Colour is used for nothing but the \
            sentence that tells how things are, and not where NO_COLOR is set.

            q, Ctrl-C   end
            p, space    pause, and go on
            s           sort APIs and routes by requests, rescued, errors, time (P99) or name
            /           show only those with these letters in their names; Enter ends the filter, Esc takes it away
            """)

    @Option(help: ArgumentHelp("From one look to the next.", valueName: "seconds"))
    var interval = 1.0

    @Option(help: ArgumentHelp("End after so many; 0 for never.", valueName: "number"))
    var count = 0

    @Option(help: ArgumentHelp("By what APIs and routes are sorted: requests, rescued, errors, time, name.", valueName: "column"))
    var sort = TopOrder.requests

    @Option(help: ArgumentHelp("Show only APIs and routes with these letters in their names.", valueName: "letters"))
    var filter = ""

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard (0.1...3_600).contains(interval), count >= 0 else { throw ValidationError("--interval must be from 0.1 to 3600 seconds") }
    }

    func run(_ client: AdminClient) throws {
        let environment = Environment.all()
        let isPicture = isatty(STDOUT_FILENO) == 1 && !["", "dumb"].contains(environment["TERM"] ?? "")
        guard isPicture else { return try writeLines(client) }
        let hasColours = environment["NO_COLOR", default: ""].isEmpty
        let keys = TerminalKeys()
        var view = TopView()
        (view.order, view.filter) = (sort, filter.lowercased())
        var before = try Look(client)
        // So that something is there at once.
        var shown = (change: StatsChange(from: before.stats, to: before.stats, seconds: interval), look: before)
        let draw = { (view: TopView, shown: (change: StatsChange, look: Look)) in
            let size = Self.terminalSize
            let picture = view.picture(
                shown.change, shown.look.stats, width: size.width, height: size.height, hasColours: hasColours)
            StandardOutput.write("\u{1b}[H\u{1b}[J" + picture)
        }
        draw(view, shown)
        defer { StandardOutput.write("\n") }
        var looks = 0
        while count == 0 || looks < count {
            while let key = Self.key(keys, view.isPaused ? TerminalKeys.now + 3_600_000 : before.at + Int(interval * 1_000)) {
                let wasPaused = view.isPaused
                if view.press(key) { return }
                // What happened during the pause is no part of what happens now.
                if wasPaused, !view.isPaused { before = try Look(client) }
                draw(view, shown)
            }
            if view.isPaused { continue }
            let now = try Look(client)
            shown = (StatsChange(from: before.stats, to: now.stats, seconds: now.seconds(since: before)), now)
            draw(view, shown)
            before = now
            looks += 1
        }
    }

    private static func key(_ keys: TerminalKeys?, _ end: Int) -> UInt8? {
        if let keys { return keys.next(until: end) }
        usleep(UInt32(max(0, end - TerminalKeys.now)) * 1_000)
        return nil
    }

    /// For pipes and logs.
    private func writeLines(_ client: AdminClient) throws {
        var before = try Look(client)
        var shown = 0
        while count == 0 || shown < count {
            usleep(UInt32(interval * 1e6))
            let now = try Look(client)
            StandardOutput.write(StatsChange(from: before.stats, to: now.stats, seconds: now.seconds(since: before)).line + "\n")
            before = now
            shown += 1
        }
    }

    /// What it says of itself; else 80 columns and 24 lines.
    private static var terminalSize: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (max(20, Int(size.ws_col)), max(5, Int(size.ws_row)))
    }
}

/// What the admin interface says at one moment.
private struct Look {
    let stats: JSONValue
    /// Milliseconds, as the keys' clock counts them.
    let at: Int

    init(_ client: AdminClient) throws {
        stats = try client.value("GET", "stats")
        at = TerminalKeys.now
    }

    func seconds(since other: Look) -> Double { Double(at - other.at) / 1_000 }
}

extension TopOrder: ExpressibleByArgument {}
