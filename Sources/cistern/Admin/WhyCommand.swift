// `cistern why`: why an exchange went as it did, and which setting would change it.

import ArgumentParser
import HTTPCore
import JSON

struct Why: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain what a running Cistern did with the last requests: why was this not stored, why not served?",
        discussion: """
            Newest first; fetches in the background are told of too. An arrow names a setting that stands in the way. With an id, or \
            with --long, the key and what was dropped from it, the freshness and the upstream's times are shown too. How many exchanges are remembered: admin.records.

            Examples:
              cistern why
              cistern why --path /users --last 3
              cistern why 0-42
            """)

    @Argument(help: "One exchange, by its id.")
    var id: String?

    @Option(help: ArgumentHelp("So many.", valueName: "number"))
    var last = 10

    @Option(help: "Only targets, as received, that begin with this.")
    var path: String?

    @Flag(help: "All that is known.")
    var long = false

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard (1...10_000).contains(last) else { throw ValidationError("--last must be from 1 to 10000") }
    }

    func run(_ client: AdminClient) throws {
        if let id {
            let exchange = try client.value("GET", "why/\(PercentCoding.encode(id))")
            return StandardOutput.write(
                json ? exchange.document : Array(Self.describe(exchange, long: true).utf8))
        }
        let response = try client.value("GET", "why", [("last", String(last)), ("path", path)])
        if json { return StandardOutput.write(response.document) }
        let exchanges = response["exchanges"]?.array ?? []
        guard !exchanges.isEmpty else { throw AdminFailure("no exchange\(path.map { " with \($0)" } ?? "") is remembered") }
        StandardOutput.write(exchanges.map { Self.describe($0, long: long) }.joined(separator: "\n"))
    }

    private static func describe(_ exchange: JSONValue, long: Bool) -> String {
        let text = { (name: String) in exchange[name]?.string ?? "" }
        let clock = text("time").dropFirst(11).prefix(12)
        let duration = Printable.duration(exchange["duration_seconds"]?.double ?? 0)
        let status = exchange["status"]?.integer.map { $0 == 0 ? "-" : String($0) } ?? "-"
        let result = exchange["behind"]?.string.map { "in the background of \($0)" } ?? text("result")
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
        let phases = ["resolve", "connect", "tls", "wait", "content", "total"].compactMap { phase in
            upstream["\(phase)_seconds"]?.double.map { "\(phase) \(Printable.duration($0))" }
        }
        let outcome = upstream["status"]?.integer.map { "status \($0)" } ?? "no response"
        lines.append("upstream   \(outcome)" + (upstream["error"]?.string.map { " (\($0))" } ?? "") + ": " + phases.joined(separator: ", "))
        return lines
    }
}
