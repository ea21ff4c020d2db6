// `cistern drill`: simulates an outage of the upstream, observes it, and reports what clients received.

import ArgumentParser
import Glibc
import JSON
import Settings

struct Drill: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Practise an outage: make the upstream unreachable, or inject faults, and report the effect on clients.",
        discussion: """
            Requires the setting admin.faults. Without a subcommand, the whole upstream becomes unreachable for a while. A report says \
            which requests were rescued and which failed. Hits are served as usual, because a fault affects requests to the upstream only.

            Examples:
              cistern drill --for 60s
              cistern drill --path '/orders/**' --for 5m
              cistern drill add --refuse
              cistern drill add --path '/orders/**' --delay 2s..4s --status 503 --rate 20% --for 5m
              cistern drill add --path '/orders/**' --cut body
              cistern drill ls
              cistern drill clear
            """,
        subcommands: [Run.self, Add.self, List.self, Clear.self], defaultSubcommand: Run.self)

    struct Run: AdminCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make the upstream unreachable for a time, and report which requests were rescued and which failed.",
            discussion: """
                The drill sends no requests: it observes those of your users or tests. Active requests are completed. Ctrl-C ends the \
                drill early. For each path, the report says what was served and what failed, why, and which setting would change that. It \
                sees as many exchanges of a second as admin.records permits.
                """)

        @Option(name: .customLong("for"), help: ArgumentHelp("Duration of the drill.", valueName: "time"))
        var duration = "60s"

        @Option(help: ArgumentHelp("Only paths that match this pattern, as in routes.", valueName: "pattern"))
        var path = "/**"

        @OptionGroup var options: AdminOptions

        func validate() throws {
            guard let time = TimeSpan.parse(duration), (1_000...3_600_000).contains(time) else {
                throw ValidationError("--for must be a time between 1s and 1h, not \(duration)\(NumberUnit.duration.advice(duration)).")
            }
        }

        func run(_ client: AdminClient) throws {
            let seconds = (TimeSpan.parse(duration) ?? 60_000) / 1_000
            var report = DrillReport(before: try Self.exchanges(client))
            let number =
                try client.value(
                    "POST", "faults", [("path", path), ("effect", "refuse"), ("for", String(seconds + 5))])["number"]?.integer ?? 0
            StandardOutput.write("the upstream is unreachable for \(path), for \(seconds) s\n")
            for second in 1...seconds {
                let isInterrupted = Interrupt.wait(seconds: 1)
                report.add(try Self.exchanges(client))
                StandardOutput.write("\(second) s: \(report.line)\n")
                if isInterrupted { break }
            }
            _ = try client.value("DELETE", "faults/\(number)")
            StandardOutput.write("the upstream is reachable again\n\n" + report.text)
        }

        private static func exchanges(_ client: AdminClient) throws -> [JSONValue] {
            try client.value("GET", "why", [("last", "10000")])["exchanges"]?.array ?? []
        }
    }
}

/// Catches Ctrl-C, so that the drill can end its faults and report.
private enum Interrupt {
    /// - Returns: whether a signal arrived.
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
