// `cistern drill`: takes the upstream away for a while, watches, and says what users got.

import ArgumentParser
import Glibc
import HTTPCore
import JSON
import Settings

struct Drill: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Take the whole upstream away for a while, and report what was rescued and what was not.",
        discussion: """
            Only where the setting admin.faults is true. Requests that come meanwhile are those of your users or tests: the drill sends none \
            itself. Ctrl-C ends it sooner. How many exchanges it can see of a second: admin.records.

            Examples:
              cistern drill --for 60s
              cistern drill --path '/orders/**' --for 5m
            """)

    @Option(name: .customLong("for"), help: ArgumentHelp("So long.", valueName: "time"))
    var duration = "60s"

    @Option(help: ArgumentHelp("Only these paths, as routes have them.", valueName: "pattern"))
    var path = "/**"

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard let time = TimeSpan.parse(duration), (1_000...3_600_000).contains(time) else {
            throw ValidationError("--for must be a time between 1s and 1h, not \(duration).")
        }
    }

    func run(_ client: AdminClient) throws {
        let seconds = (TimeSpan.parse(duration) ?? 60_000) / 1_000
        var report = DrillReport(before: try Self.exchanges(client))
        let number =
            try client.value(
                "POST", "faults", [("path", path), ("effect", "refuse"), ("for", String(seconds + 5))])["number"]?.integer ?? 0
        StandardOutput.write("the upstream is away for \(path), for \(seconds) s\n")
        for second in 1...seconds {
            let isInterrupted = Interrupt.wait(seconds: 1)
            report.add(try Self.exchanges(client))
            StandardOutput.write("\(second) s: \(report.line)\n")
            if isInterrupted { break }
        }
        _ = try client.value("DELETE", "faults/\(number)")
        StandardOutput.write("the upstream is back\n\n" + report.text)
    }

    private static func exchanges(_ client: AdminClient) throws -> [JSONValue] {
        try client.value("GET", "why", [("last", "10000")])["exchanges"]?.array ?? []
    }
}

/// What users got, by path.
struct DrillReport {
    private struct Path {
        var requests = 0
        var rescued = 0
        /// Seconds.
        var oldest = 0
        var failed = 0
    }

    private var known: Set<String>
    private var paths: [String: Path] = [:]
    /// Settings that would have helped, and what each would do.
    private var advice: [String: String] = [:]

    /// - Parameter before: what had happened already.
    init(before: [JSONValue]) { known = Set(before.compactMap { $0["id"]?.string }) }

    mutating func add(_ exchanges: [JSONValue]) {
        for exchange in exchanges where exchange["behind"]?.string == nil {
            guard let id = exchange["id"]?.string, known.insert(id).inserted, let target = exchange["target"]?.string else { continue }
            var path = paths[String(target.prefix { $0 != "?" }), default: Path()]
            path.requests += 1
            switch exchange["result"]?.string {
            case "rescued":
                path.rescued += 1
                path.oldest = max(path.oldest, exchange["freshness"]?["age"]?.integer ?? 0)
            case "error":
                path.failed += 1
                for one in exchange["advice"]?.array ?? [] { advice[one["setting"]?.string ?? ""] = one["effect"]?.string ?? "" }
            default: break
            }
            paths[String(target.prefix { $0 != "?" })] = path
        }
    }

    private func sum(_ part: KeyPath<Path, Int>) -> Int { paths.values.reduce(0) { $0 + $1[keyPath: part] } }

    var line: String { "\(sum(\.requests)) requests, \(sum(\.rescued)) rescued, \(sum(\.failed)) failed" }

    var text: String {
        guard !paths.isEmpty else { return "No request came: nothing is known.\n" }
        var table = TextTable([("PATH", false), ("REQUESTS", true), ("RESCUED", true), ("OLDEST", true), ("FAILED", true)])
        for (path, one) in paths.sorted(by: { ($1.value.failed, $0.key) < ($0.value.failed, $1.key) }) {
            let oldest = one.rescued == 0 ? "-" : Printable.seconds(one.oldest)
            table.add([Printable.text(path), String(one.requests), String(one.rescued), oldest, String(one.failed)])
        }
        let failing = paths.values.count { $0.failed > 0 }
        var text = table.text + "\n"
        text += failing == 0 ? "Everybody got a response.\n" : "\(failing) of \(paths.count) paths had nothing for some.\n"
        for (setting, effect) in advice.sorted(by: { $0.key < $1.key }) { text += Printable.text("→ \(setting) \(effect)") + "\n" }
        return text
    }
}

/// Ctrl-C, without losing what has been begun.
private enum Interrupt {
    /// - Returns: whether it came.
    static func wait(seconds: Int) -> Bool {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var time = timespec(tv_sec: seconds, tv_nsec: 0)
        return sigtimedwait(&signals, nil, &time) > 0
    }
}
