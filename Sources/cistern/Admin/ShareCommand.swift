// `cistern share status`: shows this node's view of the other nodes and the Redis servers.

import ArgumentParser
import Engine
import JSON
import Sharing

struct ShareCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "share", abstract: "Inspect the fleet of nodes that share responses and purges through Redis or Valkey.",
        subcommands: [ShareStatus.self],
        defaultSubcommand: ShareStatus.self)
}

struct ShareStatus: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show whether this node reads the purges of other nodes, its lag, and its pending purges.",
        discussion: """
            SEEING: purges of other nodes are applied here at once. BLIND: the log cannot be read. Copies then count as fresh for \
            share.blind_limit only, and no responses of other nodes are used. Exits with 1 if this node is blind.
            """)

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let state = try client.value("GET", "share")
        if json { StandardOutput.write(state.serialized() + [0x0a]) } else { StandardOutput.write(Self.text(state)) }
        if state["seeing"] != true { throw ExitCode(1) }
    }

    static func text(_ state: JSONValue) -> String {
        func number(_ name: String) -> Int { state[name]?.integer ?? 0 }
        func word(_ name: String) -> String { Printable.text(state[name]?.string ?? "-") }
        let fleet = word("fleet")
        var lines = ["fleet     \(fleet), this node is \(word("node"))"]
        if state["seeing"] == true {
            let lag = number("lag_ms") > 0 ? ", \(number("lag_ms")) ms behind when it was read" : ""
            lines.append("log       SEEING, \(word("position") == "0-0" ? "and it is empty" : "at \(word("position"))\(lag)")")
        } else {
            let trouble = state["trouble_sentence"]?.string ?? "log entries written during the disconnection are being read"
            lines.append("log       BLIND since \(Printable.text(state["blind_since"]?.string ?? "the start")): \(Printable.text(trouble))")
        }
        if let server = state["log_server"]?.string {
            let slot = state["log_slot"]?.integer.map { ", slot \($0)" } ?? ""
            let replicas = state["seeing"] == true ? " (replicas: \(number("replicas")))" : ""
            lines.append("          at \(Printable.text(server))\(slot)\(replicas)")
        }
        let others = number("nodes") == 1 ? "1 other process has" : "\(number("nodes")) other processes have"
        lines.append(
            "nodes     \(others) written readable log entries within the last hour; a restarted node counts twice, and a node without changes is not counted"
        )
        let servers = state["servers"]?.array ?? []
        let isCluster = servers.contains { $0["role"] == "primary" }
        lines += servers.map { server($0, isCluster: isCluster, isOnly: servers.count == 1, fleet) }
        if let failure = state["offers_rejected"]?.string {
            let sentence = EngineFailure(rawValue: failure)?.sentence(fleet: fleet) ?? Printable.text(failure)
            lines.append("responses of this node are NOT shared: Redis \(sentence)")
        }
        lines.append("purges    \(pending(state["pending_reasons"]))")
        if number("unopened") > 0 {
            lines.append(
                "secret    \(number("unopened")) log \(number("unopened") == 1 ? "entry" : "entries") could not be decrypted, the last at \(word("unopened_at")): check that all nodes of \(fleet) have the same share.secret_file"
            )
        }
        if number("foreign") > 0 {
            lines.append(
                "foreign   \(number("foreign")) log entries were written with a key that no node of \(fleet) has, the last at \(word("unopened_at")); they are ignored"
            )
        }
        if state["is_slow"] == true {
            lines.append("slow      a round trip to Redis takes too long: misses do not query it until it is faster")
        }
        let gaps = state["gaps"]?.members ?? []
        let parts = gaps.filter { ($0.value.integer ?? 0) > 0 }.map { "\($0.name) \($0.value.integer ?? 0)" }
        lines.append("gaps      \(parts.isEmpty ? "none since the start" : parts.joined(separator: ", "))")
        return lines.joined(separator: "\n") + "\n"
    }

    /// Number of purges that other nodes have not received for sure, by reason.
    private static func pending(_ reasons: JSONValue?) -> String {
        let parts = (reasons?.members ?? []).compactMap { reason -> String? in
            guard let count = reason.value.integer, count > 0 else { return nil }
            let meaning =
                switch reason.name {
                case "not_reached": ": other nodes NOT notified, because Redis cannot be reached"
                case "refused": ": other nodes NOT notified, because Redis rejects the entries"
                case "not_replicated": ": other nodes notified, but no Redis replica has the entries yet"
                default: ""
                }
            return "\(count) \(Printable.text(reason.name))\(meaning)"
        }
        return parts.isEmpty ? "none is pending" : "pending: " + parts.joined(separator: "; ")
    }

    private static let unlistedInCluster =
        "it is not in the Cluster's slot map, read every 30 s: it is down, has just returned, or has another name there"

    private static let unlistedAlone = "several addresses must be servers of one Cluster"

    private static func server(_ server: JSONValue, isCluster: Bool, isOnly: Bool, _ fleet: String) -> String {
        let role =
            switch server["role"]?.string {
            case "primary": "primary of \(server["slots"]?.integer ?? 0) slots"
            case "alone": "alone"
            case "replica": "replica, used if it takes over"
            default: isOnly ? "in share.servers" : "in share.servers, but not used: \(isCluster ? unlistedInCluster : unlistedAlone)"
            }
        let failure = server["failure"]?.string.map {
            ", not used: it \(EngineFailure(rawValue: $0)?.sentence(fleet: fleet) ?? Printable.text($0))"
        }
        return
            "engine    \(Printable.text(server["address"]?.string ?? "-"))  \(role)\(failure ?? "")\(server["has_log"] == true ? ", has the log" : "")"
    }
}
