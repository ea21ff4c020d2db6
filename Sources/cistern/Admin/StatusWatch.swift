// `cistern status --watch`: shows current rates. Redraws the screen on a terminal; otherwise, or with TERM=dumb, prints lines.

import ArgumentParser
import Glibc
import JSON

struct StatusWatch: ParsableArguments {
    @Option(help: ArgumentHelp("With --watch: interval between refreshes.", valueName: "seconds"))
    var interval = 1.0

    @Option(help: ArgumentHelp("With --watch: number of refreshes; 0 for no limit.", valueName: "number"))
    var count = 0

    @Option(help: ArgumentHelp("With --watch: order of APIs and routes: requests, rescued, errors, time or name.", valueName: "column"))
    var sort = WatchOrder.requests

    @Option(help: ArgumentHelp("With --watch: show only APIs and routes with these letters in their names.", valueName: "letters"))
    var filter = ""

    func validate() throws {
        guard (0.1...3_600).contains(interval), count >= 0 else { throw ValidationError("--interval must be from 0.1 to 3600 seconds") }
    }

    func run(_ client: AdminClient) throws {
        let environment = Environment.all()
        let isPicture = isatty(STDOUT_FILENO) == 1 && !["", "dumb"].contains(environment["TERM"] ?? "")
        guard isPicture else { return try writeLines(client) }
        let hasColours = environment["NO_COLOR", default: ""].isEmpty
        let keys = TerminalKeys()
        var view = WatchView()
        (view.order, view.filter) = (sort, filter.lowercased())
        var before = try Sample(client)
        // Shows a first picture immediately.
        var shown = (change: StatsChange(from: before.stats, to: before.stats, seconds: interval), sample: before)
        let draw = { (view: WatchView, shown: (change: StatsChange, sample: Sample)) in
            let size = Self.terminalSize
            let picture = view.render(
                shown.change, shown.sample.stats, width: size.width, height: size.height, hasColours: hasColours)
            StandardOutput.write("\u{1b}[H\u{1b}[J" + picture)
        }
        draw(view, shown)
        defer { StandardOutput.write("\n") }
        var sampleCount = 0
        while count == 0 || sampleCount < count {
            while let key = Self.key(keys, view.isPaused ? TerminalKeys.now + 3_600_000 : before.at + Int(interval * 1_000)) {
                let wasPaused = view.isPaused
                if view.handleKey(key) { return }
                // Activity during the pause must not count as current.
                if wasPaused, !view.isPaused { before = try Sample(client) }
                draw(view, shown)
            }
            if view.isPaused { continue }
            let now = try Sample(client)
            shown = (StatsChange(from: before.stats, to: now.stats, seconds: now.seconds(since: before)), now)
            draw(view, shown)
            before = now
            sampleCount += 1
        }
    }

    private static func key(_ keys: TerminalKeys?, _ end: Int) -> UInt8? {
        if let keys { return keys.next(until: end) }
        usleep(UInt32(max(0, end - TerminalKeys.now)) * 1_000)
        return nil
    }

    /// Prints lines, for pipes and logs.
    private func writeLines(_ client: AdminClient) throws {
        var before = try Sample(client)
        var shown = 0
        while count == 0 || shown < count, !StandardOutput.hasFailed {
            usleep(UInt32(interval * 1e6))
            let now = try Sample(client)
            StandardOutput.write(StatsChange(from: before.stats, to: now.stats, seconds: now.seconds(since: before)).line + "\n")
            before = now
            shown += 1
        }
    }

    /// The terminal's size; 80 columns and 24 lines if unknown.
    private static var terminalSize: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (max(20, Int(size.ws_col)), max(5, Int(size.ws_row)))
    }
}

/// Statistics from the admin interface at one time.
private struct Sample {
    let stats: JSONValue
    /// Milliseconds of the clock of `TerminalKeys`.
    let at: Int

    init(_ client: AdminClient) throws {
        stats = try client.value("GET", "stats")
        at = TerminalKeys.now
    }

    func seconds(since other: Sample) -> Double { Double(at - other.at) / 1_000 }
}

extension WatchOrder: ExpressibleByArgument {}
