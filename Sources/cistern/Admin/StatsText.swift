// Formats the server's statistics for `cistern status`. Plain values in, text out.

import JSON

enum StatsText {
    /// - Parameter stats: content of /-/stats.
    static func describe(_ stats: JSONValue) -> String {
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
        return text + "\n" + state(stats)
    }

    /// Number of open scopes of each kind.
    private static func failing(_ upstream: JSONValue?) -> String {
        let kinds = (upstream?["failing"]?.members ?? []).filter { $0.value != 0 }
        guard !kinds.isEmpty else { return upstream?["state"] == "up" ? ", nothing known to fail" : "" }
        return " (failing scopes: " + kinds.map { "\($0.name) \($0.value.integer ?? 0)" }.joined(separator: ", ") + ")"
    }

    private static func longestWait(_ stats: JSONValue) -> String {
        let waits = stats["loops"]?.array?.compactMap { $0["longest_wait_seconds"]?.double } ?? []
        return waits.max().map(Printable.duration) ?? "-"
    }

    /// Active modes with the number of their paths; empty if everything is live.
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
        let trouble = store?["writable"] == true ? "" : ", NOT WRITABLE"
        return """
            \(modes(stats))store        \(store?["entries"]?.integer ?? 0) entries, \(size)\(trouble)
            upstream     \(UpstreamWord.of(upstream))\(failing(upstream)), \
            \(upstream?["active_requests"]?.integer ?? 0) active requests
            connections  \(connections?["open"]?.integer ?? 0) of \(connections?["limit"]?.integer ?? 0)
            loops        \(longestWait(stats)) longest wait of an event within the last minute
            memory       \(Printable.bytes(stats["process"]?["resident_bytes"]?.integer ?? 0))

            """
    }
}
