// `cistern stats` and `top`: what happened since the start, and what happens now.

import ArgumentParser
import Glibc
import HTTPCore
import JSON

struct Stats: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what a running Cistern has done since its start.", discussion: "For graphs and alerts there is /metrics.")

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let stats = try client.value("GET", "stats")
        StandardOutput.write(json ? stats.document : Array(Self.describe(stats).utf8))
    }

    private static func describe(_ stats: JSONValue) -> String {
        var text = "cistern \(stats["version"]?.string ?? ""), up for \(Printable.seconds(stats["uptime_seconds"]?.integer ?? 0))\n\n"
        var table = TextTable([("RESULT", false), ("REQUESTS", true), ("SHARE", true), ("P50", true), ("P99", true)])
        let requests = stats["requests"]?.members?.filter { $0.name != "own" && $0.value != 0 } ?? []
        let total = requests.reduce(0) { $0 + ($1.value.integer ?? 0) }
        for result in requests {
            let latency = stats["latency_seconds"]?[result.name]
            let time = { (name: String) in latency?[name]?.double.map { "≤ " + Printable.duration($0) } ?? "-" }
            let count = result.value.integer ?? 0
            table.add([
                result.name, String(count), Printable.rounded(Double(count) * 100 / Double(max(1, total))) + " %", time("p50"), time("p99"),
            ])
        }
        text += total == 0 ? "no requests yet\n" : table.text
        for (title, name) in [("not stored", "not_stored"), ("rescued", "rescued")] {
            let counts = stats[name]?.members ?? []
            if !counts.isEmpty {
                text += "\(title): " + counts.map { "\($0.name) \($0.value.integer ?? 0)" }.joined(separator: ", ") + "\n"
            }
        }
        return text + "\n" + StatsLines.state(stats)
    }
}

enum StatsLines {
    /// How many scopes of each kind are known to fail.
    private static func failing(_ upstream: JSONValue?) -> String {
        let kinds = (upstream?["failing"]?.members ?? []).filter { $0.value != 0 }
        guard !kinds.isEmpty else { return "nothing known to fail" }
        return "failing: " + kinds.map { "\($0.name) \($0.value.integer ?? 0)" }.joined(separator: " ")
    }

    private static func longestWait(_ stats: JSONValue) -> String {
        let waits = stats["loops"]?.array?.compactMap { $0["longest_wait_seconds"]?.double } ?? []
        return waits.max().map(Printable.duration) ?? "-"
    }

    /// Those that are not as rules say, with the paths that they are for.
    private static func modes(_ stats: JSONValue) -> String {
        let modes = stats["modes"]?.members ?? []
        let texts = modes.map { mode in
            let parts = [("prefixes", "prefix"), ("routes", "route")].compactMap { name, one -> String? in
                guard let count = mode.value[name]?.integer, count > 0 else { return nil }
                return "\(count) \(count == 1 ? one : name)"
            }
            return "\(mode.name) for " + ((mode.value["for_all"] == true ? ["all paths"] : []) + parts).joined(separator: " and ")
        }
        return texts == ["live for all paths"] ? "" : "mode         \(texts.joined(separator: ", ")) (see cistern mode)\n"
    }

    static func state(_ stats: JSONValue) -> String {
        let store = stats["store"]
        let upstream = stats["upstream"]
        let connections = stats["connections"]
        let size = "\(Printable.bytes(store?["bytes"]?.integer ?? 0)) of \(Printable.bytes(store?["limit_bytes"]?.integer ?? 0))"
        let trouble = store?["writable"] == true ? "" : ", CANNOT BE WRITTEN TO"
        return """
            \(modes(stats))store        \(store?["entries"]?.integer ?? 0) entries, \(size)\(trouble)
            upstream     \(upstream?["up"] == true ? "up" : "DOWN"), \(failing(upstream)), \
            \(upstream?["active_requests"]?.integer ?? 0) requests running
            connections  \(connections?["open"]?.integer ?? 0) of \(connections?["limit"]?.integer ?? 0)
            loops        \(longestWait(stats)) the longest that an event waited in the last minute
            memory       \(Printable.bytes(stats["process"]?["resident_bytes"]?.integer ?? 0))

            """
    }
}

struct Top: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a running Cistern: rates, results, latency, the upstream's state.",
        discussion: "On a terminal the picture is drawn anew each time; else a line is written. q or Ctrl-C ends it.")

    @Option(help: ArgumentHelp("From one look to the next.", valueName: "seconds"))
    var interval = 1.0

    @Option(help: ArgumentHelp("End after so many; 0 for never.", valueName: "number"))
    var count = 0

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard (0.1...3_600).contains(interval), count >= 0 else { throw ValidationError("--interval must be from 0.1 to 3600 seconds") }
    }

    func run(_ client: AdminClient) throws {
        let isTerminal = isatty(STDOUT_FILENO) == 1
        let keys = isTerminal ? TerminalKeys() : nil
        var before = try client.value("GET", "stats")
        var shown = 0
        while count == 0 || shown < count {
            if let keys, keys.isEndWanted(within: interval) { return }
            if keys == nil { usleep(UInt32(interval * 1e6)) }
            let now = try client.value("GET", "stats")
            let change = StatsChange(from: before, to: now, seconds: interval)
            if isTerminal {
                StandardOutput.write("\u{1b}[H\u{1b}[J" + picture(change, now))
            } else {
                StandardOutput.write(change.line + "\n")
            }
            before = now
            shown += 1
        }
    }

    private func picture(_ change: StatsChange, _ now: JSONValue) -> String {
        var text = "cistern \(now["version"]?.string ?? "")  \(now["time"]?.string ?? "")  \(Printable.rounded(change.rate)) requests/s\n\n"
        var table = TextTable([("RESULT", false), ("REQUESTS/S", true), ("P50", true), ("P99", true), ("", false)])
        for result in change.results {
            let bar = String(repeating: "█", count: Int((result.rate / max(change.rate, 1e-9) * 30).rounded()))
            table.add([result.name, Printable.rounded(result.rate), result.time(0.5), result.time(0.99), bar])
        }
        text += table.text + "\n"
        text +=
            "to clients   \(Printable.bytes(change.storeBytes))/s from the store, \(Printable.bytes(change.upstreamBytes))/s from the upstream\n"
        return text + StatsLines.state(now)
    }
}

/// What happened between two looks.
struct StatsChange {
    struct Result {
        let name: String
        let rate: Double
        /// By the bounds of the histogram.
        let counts: [Int]
        let bounds: [Double]

        /// The bound within which this share of the requests was answered.
        func time(_ share: Double) -> String {
            let wanted = Double(counts.reduce(0, +)) * share
            guard wanted > 0 else { return "-" }
            var seen = 0
            for (count, bound) in zip(counts, bounds) {
                seen += count
                if Double(seen) >= wanted { return "≤ " + Printable.duration(bound) }
            }
            return "> " + Printable.duration(bounds.last ?? 0)
        }
    }

    let results: [Result]
    let storeBytes: Int
    let upstreamBytes: Int
    private let isUp: Bool

    init(from before: JSONValue, to now: JSONValue, seconds: Double) {
        let bounds = now["latency_bounds_seconds"]?.array?.compactMap(\.double) ?? []
        // A Cistern that was started anew counts from nothing again.
        func rise(_ new: Int?, _ old: Int?) -> Int { max(0, (new ?? 0) - (old ?? 0)) }
        results = (now["requests"]?.members ?? []).filter { $0.name != "own" }.map { member in
            let counts = { (stats: JSONValue) in stats["latency_seconds"]?[member.name]?["counts"]?.array?.map { $0.integer ?? 0 } ?? [] }
            let (new, old) = (counts(now), counts(before))
            return Result(
                name: member.name, rate: Double(rise(member.value.integer, before["requests"]?[member.name]?.integer)) / seconds,
                counts: new.indices.map { rise(new[$0], $0 < old.count ? old[$0] : 0) }, bounds: bounds)
        }
        func bytes(_ name: String) -> Int {
            Int(Double(rise(now["response_bytes"]?[name]?.integer, before["response_bytes"]?[name]?.integer)) / seconds)
        }
        storeBytes = bytes("store")
        upstreamBytes = bytes("upstream")
        isUp = now["upstream"]?["up"] == true
    }

    var rate: Double { results.reduce(0) { $0 + $1.rate } }

    /// For logs and pipes.
    var line: String {
        let parts = results.filter { $0.rate > 0 }.map { "\($0.name)=\(Printable.rounded($0.rate))" }
        let p99 = results.filter { $0.rate > 0 }.map { "\($0.name)_p99=\"\($0.time(0.99))\"" }
        return (["requests=\(Printable.rounded(rate))"] + parts + p99 + ["upstream=\(isUp ? "up" : "down")"]).joined(separator: " ")
    }
}
