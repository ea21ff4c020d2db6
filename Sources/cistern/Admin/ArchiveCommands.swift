// `cistern export` and `import`: what is stored as an HTTP archive (HAR 1.2), for a colleague or a browser's tools, and back.

import ArgumentParser
import CSystem
import CachePolicy
import Descriptors
import Glibc
import HTTPCore
import JSON

struct Export: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Write what a running Cistern has stored into an HTTP archive.",
        discussion: """
            Responses to requests with credentials are left out, and the values of arguments and fields that look like secrets are written as \
            \(SecretNames.redaction); contents are written as they are. Nothing but the file's owner can read it.

            Examples:
              cistern export --har stored.har
              cistern export --har users.har --prefix /users
            """)

    @Option(help: ArgumentHelp("Where to write it; - for standard output.", valueName: "file"))
    var har: String

    @Option(help: "Only targets that begin with this.")
    var prefix: String?

    @Flag(help: "Write responses to requests with credentials too; the credentials themselves are not known.")
    var withPartitions = false

    @Flag(help: "Write secret values too.")
    var withSecrets = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let version = try client.value("GET", "stats")["version"]?.string ?? ""
        let file = try OutputFile(har)
        let creator: JSONValue = ["name": "cistern", "version": .string(version)]
        try file.write(Array("{\"log\":{\"version\":\"1.2\",\"creator\":".utf8) + creator.serialized() + Array(",\"entries\":[".utf8))
        var written = 0
        var leftOut = 0
        var after: String?
        repeat {
            let page = try client.value("GET", "entries", [("prefix", prefix), ("limit", "200"), ("after", after)])
            for entry in page["entries"]?.array ?? [] {
                let isPlain = (entry["partition"] == nil || withPartitions) && entry["keyed_by_more"] != true
                guard isPlain, let id = entry["id"]?.string, let copy = details(id, client) else {
                    leftOut += 1
                    continue
                }
                // What says that it is gone comes after it: else it would come back where this is imported.
                for entry in [copy] + (copy["gone"]?.string.flatMap { details($0, client) }.map { [$0] } ?? []) {
                    guard let archived = archive(entry, client) else { continue }
                    try file.write(Array((written > 0 ? ",\n" : "\n").utf8) + archived.serialized())
                    written += 1
                }
            }
            after = page["next"]?.string
        } while after != nil
        try file.write(Array("\n]}}\n".utf8))
        let rest = leftOut == 0 ? "" : ", \(leftOut) left out: asked for with credentials, or kept by more than their target"
        StandardError.write("\(written) responses written\(rest)\n")
    }

    /// nil where it is stored no more.
    private func details(_ id: String, _ client: AdminClient) -> JSONValue? {
        try? client.value("GET", "entries/\(id)", [("secrets", withSecrets ? "true" : nil)])
    }

    private func archive(_ entry: JSONValue, _ client: AdminClient) -> JSONValue? {
        guard let id = entry["id"]?.string, let content = try? client.request("GET", "entries/\(id)/content") else { return nil }
        let fields = Self.fields(entry)
        let type = fields.first { $0["name"]?.string?.lowercased() == "content-type" }?["value"]?.string ?? ""
        let text = String(validating: content, as: UTF8.self)
        var body: [JSONValue.Member] = [.init("size", .integer(content.count)), .init("mimeType", .string(type))]
        body.append(.init("text", .string(text ?? Base64.encode(content))))
        if text == nil { body.append(.init("encoding", "base64")) }
        let requestFields = (entry["vary"]?.array ?? []).filter { $0["value"]?.string != nil }
        let target = entry["target"]?.string ?? "/"
        let request: JSONValue = [
            "method": "GET", "url": .string((entry["upstream"]?.string ?? "") + target), "httpVersion": "HTTP/1.1", "cookies": [],
            "headers": .array(requestFields), "queryString": .array(Self.arguments(target)), "headersSize": -1, "bodySize": 0,
        ]
        let response: JSONValue = [
            "status": entry["status"], "statusText": "", "httpVersion": "HTTP/1.1", "cookies": [], "headers": .array(fields),
            "content": .object(body), "redirectURL": "", "headersSize": -1, "bodySize": .integer(content.count),
        ]
        let times = ["requested_at", "stored_at"].map { entry[$0]?.string.flatMap { RFC3339.parse($0) } ?? 0 }
        let delay = max(0, Int(clamping: times[1] - times[0]))
        return [
            "startedDateTime": entry["requested_at"], "time": .integer(delay), "request": request, "response": response, "cache": [:],
            "timings": ["send": 0, "wait": .integer(delay), "receive": 0], "_partition": entry["partition"], "_cistern": Self.origin(entry),
        ]
    }

    /// As the upstream sent them, as far as that is known.
    private static func fields(_ entry: JSONValue) -> [JSONValue] {
        var fields = (entry["fields"]?.array ?? []).compactMap { field -> JSONValue? in
            guard field["name"]?.string?.lowercased() == "etag", let tag = field["value"]?.string else { return field }
            if entry["own_tag"] == true { return nil }
            return entry["weakened_tag"] == true ? ["name": "ETag", "value": .string(String(tag.dropFirst(2)))] : field
        }
        if let age = entry["freshness"]?["age_value"]?.integer, age > 0 { fields.append(["name": "Age", "value": .string(String(age))]) }
        return fields
    }

    /// What an import needs to know beside them.
    private static func origin(_ entry: JSONValue) -> JSONValue {
        let isStale = entry["marked_stale"] == true || entry["freshness"]?["lifetime"]?.integer == 0
        return ["decoded": entry["weakened_tag"], "authorized": entry["authorized"], "stale": .bool(isStale)]
    }

    private static func arguments(_ target: String) -> [JSONValue] {
        guard let question = target.firstIndex(of: "?") else { return [] }
        return target[target.index(after: question)...].split(separator: "&").map { argument in
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let decode = { (text: Substring) in PercentCoding.decode(Array(text.utf8), plusIsSpace: true) ?? String(text) }
            return ["name": .string(decode(parts[0])), "value": .string(parts.count > 1 ? decode(parts[1]) : "")]
        }
    }
}

/// A new file that only its owner can read, or standard output.
private final class OutputFile {
    private let file: Descriptor
    private let path: String

    init(_ path: String) throws {
        self.path = path
        file = Descriptor(
            path == "-" ? csystem_duplicate(STDOUT_FILENO) : csystem_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
        guard file.isOpen else { throw AdminFailure("\(path): \(String(cString: strerror(errno)))") }
    }

    func write(_ bytes: [UInt8]) throws {
        let written = bytes.withUnsafeBytes { WholeWrite.write($0, to: file.number) }
        guard written == bytes.count else { throw AdminFailure("\(path): \(String(cString: strerror(errno)))") }
    }
}

struct Import: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Store the responses of an HTTP archive: a browser's or proxy's recording, or what export wrote.",
        discussion: """
            The same rules hold as for responses of the upstream: what it would not keep is left out, and counted by reason. Requests with \
            credentials in the archive lead to the partition of those credentials.

            Examples:
              cistern import recording.har
              cistern import recording.har --origin https://staging.example.com
            """)

    @Argument(help: "The archive.")
    var file: String

    @Option(help: "Take responses of this origin too: scheme and host, and a base path where it has one. May be repeated.")
    var origin: [String] = []

    @Flag(help: "Leave credentials out, so that everybody gets these responses. Only for what everybody may see.")
    var shared = false

    @OptionGroup var options: AdminOptions

    /// Largest archive: it is held whole.
    private static let limitBytes = 1 << 30

    func run(_ client: AdminClient) throws {
        guard let bytes = FileContent.read(file, limit: Self.limitBytes) else {
            throw AdminFailure("\(file): \(String(cString: strerror(errno)))")
        }
        guard let entries = JSONValue(bytes)?["log"]?["entries"]?.array else { throw AdminFailure("\(file) is not an HTTP archive") }
        var imported = 0
        var leftOut: [String: Int] = [:]
        for entry in entries {
            let arguments = origin.map { ("origin", Optional($0)) } + [("shared", shared ? "true" : nil)]
            let response = try client.value("POST", "entries", arguments, content: entry.serialized())
            if let reason = response["reason"]?.string { leftOut[reason, default: 0] += 1 } else { imported += 1 }
        }
        print("\(imported) of \(entries.count) responses stored")
        for (reason, count) in leftOut.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) { print("  \(count) left out: \(reason)") }
    }
}
