// `cistern ls` and `show`: lists and shows stored responses.

import ArgumentParser
import HTTPCore
import JSON

struct List: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "List what a running Cistern has stored.",
        discussion: """
            Sorted by target: path and arguments as in the key, after the method if that is not GET. TTL is the remaining freshness \
            lifetime. A stale response is validated before use, and remains available for a rescue. PARTITION identifies the credentials \
            of the request. TAGS are the values of Cache-Groups, Surrogate-Key and Cache-Tag.

            Examples:
              cistern ls
              cistern ls /users
              cistern ls --tag people --ids
            """)

    @Argument(help: "Only targets with this prefix.")
    var prefix: String?

    @Option(help: "Only responses with this tag.")
    var tag: String?

    @OptionGroup var which: APIOption

    @Option(help: ArgumentHelp("Maximum number of entries.", valueName: "number"))
    var limit = 1_000

    @Flag(help: "Show the IDs for show and purge --id.")
    var ids = false

    @Flag(help: "Print JSON, one object per line.")
    var json = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        guard limit > 0 else { throw ValidationError("--limit must be more than 0") }
        var left = limit
        var after: String?
        var found: [JSONValue] = []
        repeat {
            let arguments = [("prefix", prefix), ("tag", tag), ("limit", String(min(left, 500))), ("after", after), which.argument]
            let page = try client.value("GET", "entries", arguments)
            let entries = page["entries"]?.array ?? []
            if json {
                for entry in entries { StandardOutput.write(entry.serialized() + [0x0a]) }
            } else {
                found += entries
            }
            left -= entries.count
            after = page["next"]?.string
        } while after != nil && left > 0
        if !json { StandardOutput.write(table(found)) }
        if after != nil { StandardError.write("cistern: more entries exist; raise --limit\n") }
    }

    private func table(_ entries: [JSONValue]) -> String {
        let hasAPIs = entries.contains { $0["api"]?.string != nil }
        var table = TextTable(
            (ids ? [("ID", false)] : []) + (hasAPIs ? [("API", false)] : []) + [
                ("STATUS", true), ("SIZE", true), ("AGE", true), ("TTL", true), ("PARTITION", false), ("TAGS", false), ("TARGET", false),
            ])
        for entry in entries {
            table.add((ids ? [entry["id"]?.string ?? ""] : []) + (hasAPIs ? [entry["api"]?.string ?? "-"] : []) + row(entry))
        }
        return table.text
    }

    /// The target, preceded by the method if it is not GET.
    static func request(_ entry: JSONValue) -> String {
        let target = entry["target"]?.string ?? ""
        guard let method = entry["method"]?.string, method != "GET" else { return target }
        return "\(method) \(target)"
    }

    private func row(_ entry: JSONValue) -> [String] {
        var ttl = entry["ttl"]?.integer.map(Printable.seconds) ?? "-"
        if entry["marked_stale"] == true { ttl = "stale" }
        let tags = entry["tags"]?.array?.compactMap(\.string).joined(separator: " ") ?? ""
        var target = Self.request(entry)
        for field in entry["vary"]?.array ?? [] { target += "  [\(field["name"]?.string ?? ""): \(field["value"]?.string ?? "(absent)")]" }
        return [
            entry["status"]?.integer.map(String.init) ?? "", Printable.bytes(entry["bytes"]?.integer ?? 0),
            Printable.seconds(entry["age"]?.integer ?? 0), ttl, entry["partition"]?.string ?? "-", tags.isEmpty ? "-" : tags, target,
        ]
    }
}

struct Show: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show a stored response: its fields and freshness, or its content with --content.",
        discussion: """
            Every variant and partition of a target is shown; an id names one response.

            Examples:
              cistern show '/users?page=2'
              cistern show --content 70b345a6f744ad3525519bfc92e2b098
            """)

    @Argument(help: "A path with its arguments, in any spelling; or an ID from ls --ids.")
    var what: String

    @OptionGroup var which: APIOption

    @Flag(help: "Write only the content to standard output.")
    var content = false

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let ids = what.hasPrefix("/") ? try find(client) : [what]
        guard !ids.isEmpty else { throw AdminFailure("nothing is stored for \(what)") }
        if content {
            guard ids.count == 1 else {
                throw AdminFailure("\(ids.count) responses are stored for \(what): give the ID of one, from ls --ids")
            }
            return StandardOutput.write(try client.request("GET", "entries/\(PercentCoding.encode(ids[0]))/content"))
        }
        for (index, id) in ids.enumerated() {
            let entry = try client.value("GET", "entries/\(PercentCoding.encode(id))")
            if json {
                StandardOutput.write(entry.document)
            } else {
                StandardOutput.write((index > 0 ? "\n" : "") + Self.describe(entry))
            }
        }
    }

    private func find(_ client: AdminClient) throws -> [String] {
        var ids: [String] = []
        var after: String?
        repeat {
            let page = try client.value("GET", "entries", [("target", what), ("limit", "200"), ("after", after), which.argument])
            ids += page["entries"]?.array?.compactMap { $0["id"]?.string } ?? []
            after = page["next"]?.string
        } while after != nil
        return ids
    }

    private static func describe(_ entry: JSONValue) -> String {
        var lines: [(String, String)] = [("id", entry["id"]?.string ?? ""), ("target", List.request(entry))]
        if let api = entry["api"]?.string { lines.append(("API", api)) }
        lines.append(("upstream", entry["upstream"]?.string ?? ""))
        lines.append(("stored", entry["stored_at"]?.string ?? ""))
        if let partition = entry["partition"]?.string { lines.append(("partition", "\(partition) (identifies the request's credentials)")) }
        for field in entry["vary"]?.array ?? [] {
            lines.append(("varies by", "\(field["name"]?.string ?? ""): \(field["value"]?.string ?? "(absent)")"))
        }
        let tags = entry["tags"]?.array?.compactMap(\.string) ?? []
        if !tags.isEmpty { lines.append(("tags", tags.joined(separator: ", "))) }
        lines.append(("freshness", freshness(entry)))
        lines.append(("size", "\(entry["bytes"]?.integer ?? 0) bytes"))
        let width = 11
        var text = lines.map { name, value in
            name + String(repeating: " ", count: max(1, width - name.count)) + Printable.text(value) + "\n"
        }.joined()
        text += "\nHTTP/1.1 \(entry["status"]?.integer ?? 0)\n"
        for field in entry["fields"]?.array ?? [] {
            text += Printable.text("\(field["name"]?.string ?? ""): \(field["value"]?.string ?? "")") + "\n"
        }
        return text
    }

    private static func freshness(_ entry: JSONValue) -> String {
        let sum = entry["freshness"]
        let age = sum?["current_age"]?.integer ?? 0
        var text = "age \(age) s"
        if let lifetime = sum?["lifetime"]?.integer {
            text = "lifetime \(lifetime) s - age \(age) s = \(lifetime - age) s left"
            if let source = sum?["lifetime_source"]?.string, source != "response" { text += " (by \(source))" }
        } else {
            text += ", and the response has no freshness lifetime"
        }
        guard let reason = sum?["asks_upstream_because"]?.string else { return text + ": fresh" }
        return text + "; a request is sent to the upstream (\(reason))"
    }
}
