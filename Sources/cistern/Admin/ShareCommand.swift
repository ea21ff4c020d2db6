// `cistern share status`: what this node knows of the others, and of the engine between them.

import ArgumentParser
import JSON

struct ShareCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "share", abstract: "What nodes share through Redis or Valkey.", subcommands: [ShareStatus.self],
        defaultSubcommand: ShareStatus.self)
}

struct ShareStatus: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show whether other nodes are seen, how far behind, and what waits to be told.",
        discussion: """
            SEEING means that what others purge is obeyed here at once. BLIND means that the log cannot be read: copies count as fresh for \
            share.blind_limit only, and nothing is taken from other nodes. Exits with 1 where this node is blind.
            """)

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let state = try client.value("GET", "share")
        if json { StandardOutput.write(state.serialized() + [0x0a]) } else { StandardOutput.write(Self.text(state)) }
        if state["seeing"] != true { throw ExitCode(1) }
    }

    private static func text(_ state: JSONValue) -> String {
        func number(_ name: String) -> Int { state[name]?.integer ?? 0 }
        func word(_ name: String) -> String { Printable.text(state[name]?.string ?? "-") }
        var lines = ["fleet     \(word("fleet")), this node is \(word("node"))"]
        if state["seeing"] == true {
            lines.append("log       SEEING, at \(word("position")), \(number("lag_ms")) ms behind when it was read")
        } else {
            lines.append("log       BLIND since \(Printable.text(state["blind_since"]?.string ?? "the start")): \(word("trouble"))")
        }
        lines.append("nodes     \(number("nodes")) heard of in the last minute")
        for server in state["servers"]?.array ?? [] {
            let failure = server["failure"]?.string.map { "not asked: \(Printable.text($0))" } ?? "asked"
            lines.append("engine    \(Printable.text(server["address"]?.string ?? "-"))  \(failure)")
        }
        lines.append("replicas  \(number("replicas")) of the server that has the log")
        lines.append("purges    \(number("pending_purges")) wait to be told, or for a replica to have them")
        let gaps = state["gaps"]?.members ?? []
        let told = gaps.filter { ($0.value.integer ?? 0) > 0 }.map { "\($0.name) \($0.value.integer ?? 0)" }
        lines.append("gaps      \(told.isEmpty ? "none since the start" : told.joined(separator: ", "))")
        return lines.joined(separator: "\n") + "\n"
    }
}
