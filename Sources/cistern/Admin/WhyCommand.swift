// `cistern why`: explains the handling of exchanges, and names the settings that would change it.

import ArgumentParser
import Glibc
import HTTPCore
import JSON
import Settings

struct Why: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain how a running Cistern handled the last requests, such as why a response was not stored.",
        discussion: """
            Shows the newest exchange first, including fetches in the background. An arrow names a setting that prevented storing or serving. \
            With an id, or with --long, it also shows the key, the fields removed from it, the freshness and the upstream's times. \
            admin.records sets how many exchanges are remembered. With --follow, the last exchanges come oldest first, and then all new ones \
            until Ctrl-C. --json prints JSON; with --follow, one object on each line.

            Examples:
              cistern why
              cistern why /users --last 3
              cistern why 0-42
              cistern why --follow --result error,rescued
              cistern why --follow --last 0 --slower 500ms --status 5xx
            """)

    @Argument(
        help: ArgumentHelp("Prefix of the targets to show, as received; or the ID of one exchange.", valueName: "path or id"))
    var what: String?

    @Option(help: ArgumentHelp("Maximum number of exchanges to print.", valueName: "number"))
    var last = 10

    /// Spelling in earlier versions.
    @Option(name: .customLong("path"), help: .hidden)
    var pathOption: String?

    @Option(help: ArgumentHelp("Only these results, with commas: hit, miss, stale, rescued, error …", valueName: "results"))
    var result: String?

    @Option(
        help: ArgumentHelp(
            "Only exchanges with this reason, as in metrics, such as no_store or connection_refused.",
            valueName: "reason"))
    var reason: String?

    @Option(help: ArgumentHelp("Only exchanges that took longer, such as 500ms or 2s.", valueName: "time"))
    var slower: String?

    @Option(help: ArgumentHelp("Only this status, or class: 503, 5xx.", valueName: "status"))
    var status: String?

    @Flag(name: [.short, .long], help: "Continue with new exchanges until Ctrl-C.")
    var follow = false

    @Flag(help: "Show all details.")
    var long = false

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    private var path: String? { pathOption ?? what.flatMap { $0.hasPrefix("/") ? $0 : nil } }
    private var id: String? { what.flatMap { $0.hasPrefix("/") ? nil : $0 } }

    func validate() throws {
        guard (1...10_000).contains(last) || (follow && last == 0) else {
            throw ValidationError("--last must be from 1 to 10000, or 0 with --follow")
        }
        if let slower, TimeSpan.parse(slower) == nil {
            throw ValidationError("--slower must be a time such as 500ms or 2s, not \(slower)\(NumberUnit.duration.advice(slower)).")
        }
        let filters: [Any?] = [path, result, reason, slower, status]
        if id != nil, follow || filters.contains(where: { $0 != nil }) {
            throw ValidationError("Give either an ID or filters, not both")
        }
    }

    private var filter: [(String, String?)] {
        [
            ("path", path), ("result", result), ("reason", reason), ("slower", slower.flatMap(TimeSpan.parse).map(String.init)),
            ("status", status),
        ]
    }

    func run(_ client: AdminClient) throws {
        if let id {
            let exchange = try client.value("GET", "why/\(PercentCoding.encode(id))")
            return StandardOutput.write(
                json ? exchange.document : Array(Self.describe(exchange, long: true).utf8))
        }
        let response = try client.value("GET", "why", [("last", String(max(1, last)))] + filter)
        let exchanges = response["exchanges"]?.array ?? []
        if follow {
            show(exchanges.prefix(last).reversed())
            return try resume(client, response["next"]?.string)
        }
        if json { return StandardOutput.write(response.document) }
        let isFiltered = filter.contains { $0.0 != "path" && $0.1 != nil }
        guard !exchanges.isEmpty else {
            throw AdminFailure("no\(isFiltered ? " such" : "") exchange\(path.map { " with \($0)" } ?? "") is recorded")
        }
        StandardOutput.write(exchanges.map { Self.describe($0, long: long) }.joined(separator: "\n"))
    }

    // MARK: Following

    /// Interval between polls in milliseconds. The server holds no state for followers; polls ask for newer exchanges.
    private static let pause: Int32 = 250
    /// Maximum number of exchanges of an event loop per poll.
    private static let most = 1_000

    /// Follows until the reader of the output closes it, or Cistern ends.
    private func resume(_ client: AdminClient, _ start: String?) throws {
        var next = start
        var isBehind = false
        while true {
            // Detects a closed output also without new exchanges.
            var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            if poll(&output, 1, isBehind ? 0 : Self.pause) > 0 { return }
            let response = try client.value("GET", "why", [("last", String(Self.most)), ("after", next)] + filter)
            let exchanges = response["exchanges"]?.array ?? []
            show(exchanges)
            if StandardOutput.hasFailed { return }
            let missed = response["missed"]?.integer ?? 0
            if missed > 0 {
                StandardError.write(
                    "cistern: \(missed) exchanges were overwritten before they were read; raise admin.records to record more\n")
            }
            next = response["next"]?.string
            isBehind = exchanges.count >= Self.most
        }
    }

    private func show(_ exchanges: [JSONValue]) {
        guard !exchanges.isEmpty else { return }
        if json { return StandardOutput.write(exchanges.flatMap { $0.serialized() + [0x0a] }) }
        StandardOutput.write(exchanges.map { Self.describe($0, long: long) + "\n" }.joined())
    }

    private static func describe(_ exchange: JSONValue, long: Bool) -> String {
        let text = { (name: String) in exchange[name]?.string ?? "" }
        let clock = text("time").dropFirst(11).prefix(12)
        let duration = Printable.duration(exchange["duration_seconds"]?.double ?? 0)
        let status = exchange["status"]?.integer.map { $0 == 0 ? "-" : String($0) } ?? "-"
        let result = exchange["behind"]?.string.map { "background fetch for \($0)" } ?? text("result")
        var lines = ["\(clock)  \(text("method")) \(text("target"))  \(status) \(result)  \(duration)  [\(text("id"))]"]
        lines += (exchange["explanation"]?.array ?? []).compactMap(\.string).map { "  " + $0 }
        if long { lines += details(exchange).map { "  " + $0 } }
        for advice in exchange["advice"]?.array ?? [] {
            lines.append("  → \(advice["setting"]?.string ?? "") \(advice["effect"]?.string ?? "")")
        }
        return lines.map { Printable.text($0) + "\n" }.joined()
    }

    private static func details(_ exchange: JSONValue) -> [String] {
        var lines = [
            "decision   \(exchange["decision"]?.string ?? "") (\(exchange["reason"]?.string ?? "")), mode \(exchange["mode"]?.string ?? "")"
        ]
        if let route = exchange["route"]?.string, !route.isEmpty { lines.append("route      \(route)") }
        if let key = exchange["key"], key != .null {
            lines.append("key        \(key["target"]?.string ?? "")" + (key["partition"]?.string.map { ", partition \($0)" } ?? ""))
            for dropped in key["dropped"]?.array ?? [] { lines.append("not in it  \(dropped.string ?? "")") }
        }
        lines.append("found      \(exchange["found"]?.string ?? "")")
        if let freshness = exchange["freshness"], freshness != .null {
            let age = freshness["age"]?.integer ?? 0
            let lifetime = freshness["lifetime"]?.integer
            lines.append(
                "freshness  " + (lifetime.map { "lifetime \($0) s - age \(age) s = \($0 - age) s left" } ?? "age \(age) s, no lifetime"))
        }
        if let content = exchange["request_content"], content != .null {
            let wait = content["wait_seconds"]?.double.map { ", waited for \(Printable.duration($0))" } ?? ""
            lines.append("content    \(content["outcome"]?.string ?? "")\(wait)")
        }
        guard let upstream = exchange["upstream"], upstream != .null else { return lines }
        for (word, name) in [("set", "fields_set"), ("removed", "fields_removed")] {
            let fields = (upstream[name]?.array ?? []).compactMap(\.string)
            if !fields.isEmpty { lines.append("fields     \(word): \(fields.joined(separator: ", "))") }
        }
        let phases = ["resolve", "connect", "tls", "wait", "content", "total"].compactMap { phase in
            upstream["\(phase)_seconds"]?.double.map { "\(phase) \(Printable.duration($0))" }
        }
        let outcome = upstream["status"]?.integer.map { "status \($0)" } ?? "no response"
        let error = [upstream["error"]?.string, upstream["error_details"]?.string].compactMap { $0 }.joined(separator: ": ")
        lines.append("upstream   \(outcome)" + (error.isEmpty ? "" : " (\(error))") + ": " + phases.joined(separator: ", "))
        return lines
    }
}
