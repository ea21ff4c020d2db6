// `cistern export` and `import`: writes stored responses to an HTTP archive (HAR 1.2), and reads them from one.

import Administration
import Archives
import ArgumentParser
import CSystem
import CachePolicy
import Glibc
import HTTPCore
import JSON
import Reactor

struct Export: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Write what a running Cistern has stored into an HTTP archive.",
        discussion: """
            Omits responses to requests with credentials. Values of arguments and fields that look like secrets are replaced by \
            \(SecretNames.redaction). Contents are written unchanged. Only the owner can read a new file. \
            An existing file is replaced when the new one is complete.

            Examples:
              cistern export --har stored.har
              cistern export --har users.har --prefix /users
            """)

    @Option(help: ArgumentHelp("File to write; - for standard output.", valueName: "file"))
    var har: String

    @Option(help: "Only responses to targets with this prefix.")
    var prefix: String?

    @Flag(help: "Include responses to requests with credentials. The credentials themselves are not stored.")
    var withPartitions = false

    @Flag(help: "Write secret values unchanged.")
    var withSecrets = false

    @OptionGroup var which: APIOption

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let version = try client.value("GET", "stats")["version"]?.string ?? ""
        let file = try OutputFile(har)
        let creator: JSONValue = ["name": "cistern", "version": .string(version)]
        try file.write(Array("{\"log\":{\"version\":\"1.2\",\"creator\":".utf8) + creator.serialized() + Array(",\"entries\":[".utf8))
        var written = 0
        var omitted: [NotExportedReason: Int] = [:]
        var hasPlaceholders = false
        var after: String?
        repeat {
            let page = try client.value("GET", "entries", [("prefix", prefix), ("limit", "200"), ("after", after), which.argument])
            guard let entries = page["entries"]?.array else {
                throw AdminFailure("\(client.address) returned no list of responses: check that it is the admin interface")
            }
            for entry in entries {
                if let reason = reason(notToExport: entry) {
                    omitted[reason, default: 0] += 1
                    continue
                }
                guard let id = entry["id"]?.string, let copy = try details(id, client) else {
                    omitted[.removed, default: 0] += 1
                    continue
                }
                let gone = try copy["gone"]?.string.flatMap { try details($0, client) }
                // A stored removal follows the response that it replaces. Without it, an import would restore the response.
                for entry in [copy] + (gone.map { [$0] } ?? []) {
                    guard let archived = try archive(entry, client) else {
                        omitted[.removed, default: 0] += 1
                        continue
                    }
                    hasPlaceholders = hasPlaceholders || Self.containsPlaceholder(archived)
                    try file.write(Array((written > 0 ? ",\n" : "\n").utf8) + archived.serialized())
                    written += 1
                }
            }
            after = page["next"]?.string
        } while after != nil
        try file.write(Array("\n]}}\n".utf8))
        try file.finish()
        StandardError.write("\(written) responses written\(omitted.isEmpty ? "" : ", \(omitted.values.reduce(0, +)) omitted:")\n")
        for reason in NotExportedReason.allCases {
            if let count = omitted[reason] { StandardError.write("  \(count) \(reason.rawValue)\n") }
        }
        if hasPlaceholders {
            StandardError.write(
                "Secret values are written as \(SecretNames.redaction), and import omits them; --with-secrets writes the values\n")
        }
    }

    /// Why an export omits a response, and how to include it.
    private enum NotExportedReason: String, CaseIterable {
        case partition = "requested with credentials; --with-partitions includes them, without the credentials"
        case keyedByMore =
            "stored under more than their target (content, host, https or fields of the request); use cistern record for them"
        case removed = "removed during the export, or damaged on disk"
    }

    private func reason(notToExport entry: JSONValue) -> NotExportedReason? {
        if entry["partition"] != nil, !withPartitions { return .partition }
        return entry["keyed_by_more"] == true ? .keyedByMore : nil
    }

    private static func containsPlaceholder(_ archived: JSONValue) -> Bool {
        let fields = [archived["request"], archived["response"]].flatMap { $0?["headers"]?.array ?? [] }
        return archived["request"]?["url"]?.string?.contains("=" + SecretNames.redaction) == true
            || fields.contains { $0["value"]?.string?.contains(SecretNames.redaction) == true }
    }

    /// nil if it is no longer stored.
    private func details(_ id: String, _ client: AdminClient) throws -> JSONValue? {
        try client.unlessRemoved { try $0.value("GET", "entries/\(id)", [("secrets", withSecrets ? "true" : nil)]) }
    }

    /// nil if it is no longer stored, or if its content is damaged.
    private func archive(_ entry: JSONValue, _ client: AdminClient) throws -> JSONValue? {
        guard let id = entry["id"]?.string, let content = try client.unlessRemoved({ try $0.request("GET", "entries/\(id)/content") })
        else { return nil }
        let fields = Self.fields(entry)
        let type = fields.first { $0["name"]?.string?.lowercased() == "content-type" }?["value"]?.string ?? ""
        let requestFields = (entry["vary"]?.array ?? []).filter { $0["value"]?.string != nil }
        let times = ["requested_at", "stored_at"].map { entry[$0]?.string.flatMap { RFC3339.parse($0) } ?? 0 }
        return ArchiveEntry.make(
            ArchiveEntry.Request(
                method: "GET", url: (entry["upstream"]?.string ?? "") + (entry["upstream_target"]?.string ?? "/"), fields: requestFields),
            ArchiveEntry.Response(status: entry["status"]?.integer ?? 0, fields: fields, content: content, type: type),
            started: entry["requested_at"], milliseconds: max(0, Int(clamping: times[1] - times[0])),
            more: (entry["partition"].map { [.init("_partition", $0)] } ?? []) + [.init("_cistern", Self.origin(entry))])
    }

    /// The fields as the upstream sent them, as far as known.
    private static func fields(_ entry: JSONValue) -> [JSONValue] {
        var fields = (entry["fields"]?.array ?? []).compactMap { field -> JSONValue? in
            guard field["name"]?.string?.lowercased() == "etag", let tag = field["value"]?.string else { return field }
            if entry["own_tag"] == true { return nil }
            guard entry["weakened_tag"] == true else { return field }
            let original = String(decoding: Validation.original(ofWeakened: Array(tag.utf8)[...]), as: UTF8.self)
            return ["name": "ETag", "value": .string(original)]
        }
        if let age = entry["freshness"]?["age_value"]?.integer, age > 0 { fields.append(["name": "Age", "value": .string(String(age))]) }
        return fields
    }

    /// Additional data for an import.
    private static func origin(_ entry: JSONValue) -> JSONValue {
        let isStale = entry["marked_stale"] == true || entry["freshness"]?["lifetime"]?.integer == 0
        return [
            "decoded": entry["weakened_tag"], "authorized": entry["authorized"], "open": entry["open"],
            "starts_session": entry["starts_session"], "stale": .bool(isStale), "api": entry["api"],
        ]
    }
}

/// A regular file that is replaced when the new content is complete; or standard output, a pipe or a device.
private final class OutputFile {
    private let path: String
    /// nil for a stream.
    private let replacement: NewFile?
    private let stream: Descriptor

    init(_ path: String) throws {
        self.path = path
        guard path == "-" || access(path, F_OK) == 0 && !WarmList.isFile(path) else {
            replacement = try NewFile(path, isUpdate: true)
            stream = Descriptor(-1)
            return
        }
        replacement = nil
        stream = Descriptor(path == "-" ? csystem_duplicate(STDOUT_FILENO) : csystem_open(path, O_WRONLY | O_CLOEXEC, 0))
        guard stream.isOpen else { throw AdminFailure(SystemError.words(path, cannotBe: "written")) }
    }

    func write(_ bytes: [UInt8]) throws {
        if let replacement { return try replacement.write(bytes) }
        let written = WholeWrite.write(bytes, to: stream.number)
        guard written == bytes.count else { throw AdminFailure(SystemError.words(path, cannotBe: "written")) }
    }

    func finish() throws { try replacement?.finish() }
}

struct Import: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Store the responses of an HTTP archive: a browser's or proxy's recording, or what export wrote.",
        discussion: """
            Applies the rules for responses of the upstream: a response that would not be stored is omitted, and counted by reason. A \
            request with credentials in the archive selects the partition of those credentials. With several APIs, exported responses \
            return to their API. Other responses go to the API with their upstream.

            Examples:
              cistern import recording.har
              cistern import recording.har --origin https://staging.example.com
            """)

    @Argument(help: "The HTTP archive (HAR).")
    var file: String

    @Option(help: "Also import responses of this origin: scheme and host, optionally with a base path. May be repeated.")
    var origin: [String] = []

    @Flag(help: "Omit credentials, so that all clients get these responses. Only for public responses.")
    var shared = false

    @OptionGroup var which: APIOption

    @OptionGroup var options: AdminOptions

    private static let tooLong = "too_long"

    /// Advice for omitted entries, by reason.
    private static let sentences = [
        tooLong: "longer than \(AdminInterface.contentLimitBytes >> 20) MiB in the archive",
        "other_origin": "the origin is no API's upstream; --origin imports it",
        "other_path": "its path belongs to no API, or to another one",
        "unknown_api": "it was exported from an API that does not exist here; select an API with --api",
        "ambiguous_api": "several APIs have this upstream; select one with --api",
    ]

    /// Maximum number of malformed entries that are reported with their positions.
    private static let toldLimit = 5

    func run(_ client: AdminClient) throws {
        let reader: ArchiveReader
        do throws(ArchiveReader.Mistake) {
            reader = try ArchiveReader(try ArchiveFile.read(file))
        } catch {
            throw AdminFailure("\(file): \(error)")
        }
        let arguments = origin.map { ("origin", Optional($0)) } + [("shared", shared ? "true" : nil), which.argument]
        var imported = 0
        var omitted: [String: Int] = [:]
        var hasCredentials = false
        for index in 0..<reader.count {
            let entry = reader.entry(index)
            do throws(ArchiveFault) {
                let fields = try ArchivedExchange(entry).requestFields
                hasCredentials = hasCredentials || fields.contains(.cookie) || fields.contains(.authorization)
            } catch {
                omitted[Self.reason(error), default: 0] += 1
                guard case .malformed(let what) = error, omitted["malformed", default: 0] <= Self.toldLimit else { continue }
                StandardError.write("cistern: \(file): \(reader.mistake(what, in: index))\n")
                continue
            }
            let content = entry.serialized()
            guard content.count <= AdminInterface.contentLimitBytes else {
                omitted[Self.tooLong, default: 0] += 1
                StandardError.write("cistern: \(file): \(reader.mistake("the entry is too long", in: index))\n")
                continue
            }
            let response = try client.value("POST", "entries", arguments, content: content)
            if let reason = response["reason"]?.string { omitted[reason, default: 0] += 1 } else { imported += 1 }
        }
        print("\(imported) of \(reader.count) responses stored")
        for (reason, count) in omitted.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
            let sentence = (UnusableReason(rawValue: reason)?.sentence ?? Self.sentences[reason]).map { " (\($0))" } ?? ""
            print("  \(count) omitted: \(reason)\(sentence)")
        }
        // Browsers export sanitized archives by default.
        if imported > 0, !shared, !hasCredentials, reader.creator?.hasPrefix("WebInspector") == true { print(Self.sanitized) }
    }

    private static let sanitized = """
        warning: no request has a Cookie or Authorization field: the browser may have removed them. If so, all clients get responses that \
        belong to one user: purge them (cistern purge), and export the archive with sensitive data. With --shared, this warning is omitted
        """

    private static func reason(_ fault: ArchiveFault) -> String {
        switch fault {
        case .malformed: "malformed"
        case .unusable(let reason): reason.rawValue
        }
    }
}
