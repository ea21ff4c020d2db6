// The common options of `serve` and `check`. Combines options, environment and file into settings.

import ArgumentParser
import CSystem
import Glibc
import Reactor
import Settings

struct SettingsOptions: ParsableArguments {
    @Option(
        name: [.short, .long], help: "YAML file with settings; see cistern.yaml(5). The variable CISTERN_CONFIG also sets it.")
    var config: String?

    @Option(help: "Base URL of the API, such as https://api.example.com.")
    var upstream: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Address to listen on: HOST:PORT, [IPV6]:PORT, :PORT or unix:/path. May be repeated. (default: 127.0.0.1:8080)",
            valueName: "address"))
    var listen: [String] = []

    @Option(
        help: ArgumentHelp(
            "Separate address for /metrics, the health pages and the admin interface. May be repeated.", valueName: "address"))
    var adminListen: [String] = []

    @Option(help: "Directory of the stored responses. (default: cistern in the user's cache directory)")
    var cacheDir: String?

    @Option(help: ArgumentHelp("Maximum size of the store, such as 512MiB. (default: 1GiB)", valueName: "size"))
    var cacheSize: String?

    @Flag(help: "Follow RFC 9111 to the letter, also while the upstream is down.")
    var strict = false

    @Option(help: ArgumentHelp("Maximum time to wait for a connection to the upstream. (default: 5s)", valueName: "duration"))
    var connectTimeout: String?

    @Option(help: ArgumentHelp("Maximum time to wait for the first byte of the upstream's response. (default: 60s)", valueName: "duration"))
    var firstByteTimeout: String?

    @Option(help: ArgumentHelp("Maximum time for an exchange with the upstream. 0 for no limit. (default: 2m)", valueName: "duration"))
    var totalTimeout: String?

    @Option(
        help: ArgumentHelp(
            "Maximum time to wait for the upstream if a stored response can be served. 0 for no limit. (default: 1.5s)",
            valueName: "duration")
    )
    var rescueAfter: String?

    @Option(help: ArgumentHelp("Maximum size of a buffered, and so of a stored, response. (default: 8MiB)", valueName: "size"))
    var bufferLimit: String?

    @Option(
        help: ArgumentHelp(
            "Minimum level of messages: trace, debug, info, notice, warning, error or critical. (default: info)", valueName: "level"))
    var logLevel: String?

    @Option(help: ArgumentHelp("Format of messages: text or json. (default: text)", valueName: "format"))
    var logFormat: String?

    @Option(help: ArgumentHelp("The access log: off, stdout or a file. (default: off)", valueName: "where"))
    var accessLog: String?

    @Flag(name: [.short, .long], help: "Do not show requests on the terminal.")
    var quiet = false

    @Option(help: ArgumentHelp("Number of event loops. 0 for one per core. (default: 0)", valueName: "number"))
    var shards: String?

    @Flag(help: "For local tests: use TLS with a self-signed certificate, which is stored in the cache directory.")
    var tlsSelfSigned = false

    @Option(
        name: .customLong("set"),
        help: ArgumentHelp(
            "Set any setting by its name in the file. Separate list items by commas. May be repeated.", valueName: "name=value"))
    var others: [String] = []

    private static let fileLimitBytes = 16 << 20

    /// The settings with all mistakes found.
    /// - Parameter kind: which kind of file the settings file may be. A pipe could block a reload for ever.
    func read(_ kind: FileContent.Kind = .any) -> SettingsReader {
        var reader = SettingsReader()
        let environment = Environment.all()
        if let file = config ?? environment["CISTERN_CONFIG"] {
            if let text = FileContent.read(file, limit: Self.fileLimitBytes, kind) {
                reader.read(file: file, text: text)
            } else {
                reader.addUnreadable(file: file, errno == ENODEV ? "it is not a regular file" : SystemError.words())
            }
        }
        reader.read(environment: environment)
        readCommandLine(&reader)
        reader.finish()
        if tlsSelfSigned {
            do throws(AdminFailure) {
                try reader.change { settings throws(AdminFailure) in try SelfSigned.use(in: &settings) }
            } catch {
                reader.add("command line", 0, "\(error)")
            }
        }
        SettingsCheck.check(&reader)
        return reader
    }

    /// Options that are short forms of settings, by the path of the setting.
    static let options = [
        "upstream.url": "--upstream", "store.directory": "--cache-dir", "store.size": "--cache-size", "cache.policy": "--strict",
        "upstream.connect_timeout": "--connect-timeout", "upstream.first_byte_timeout": "--first-byte-timeout",
        "upstream.total_timeout": "--total-timeout", "cache.rescue_after": "--rescue-after", "cache.buffer_limit": "--buffer-limit",
        "log.level": "--log-level", "log.format": "--log-format", "log.access": "--access-log", "shards": "--shards",
        "log.requests": "--quiet",
        "listen": "--listen", "admin_listen": "--admin-listen",
    ]

    private func readCommandLine(_ reader: inout SettingsReader) {
        let single: [(String, String?)] = [
            ("upstream.url", upstream), ("store.directory", cacheDir), ("store.size", cacheSize), ("cache.policy", strict ? "strict" : nil),
            ("upstream.connect_timeout", connectTimeout), ("upstream.first_byte_timeout", firstByteTimeout),
            ("upstream.total_timeout", totalTimeout), ("cache.rescue_after", rescueAfter), ("cache.buffer_limit", bufferLimit),
            ("log.level", logLevel), ("log.format", logFormat), ("log.access", accessLog), ("shards", shards),
            ("log.requests", quiet ? "off" : nil),
        ]
        for (path, value) in single {
            if let value { reader.read(path: path, .one(value), option: Self.options[path] ?? path) }
        }
        if !listen.isEmpty { reader.read(path: "listen", .many(listen), option: "--listen") }
        if !adminListen.isEmpty { reader.read(path: "admin_listen", .many(adminListen), option: "--admin-listen") }
        for other in others {
            guard let equals = other.firstIndex(of: "=") else {
                reader.add("command line", 0, "--set takes name=value, not \"\(other)\"")
                continue
            }
            reader.read(
                path: String(other[..<equals]), .one(String(other[other.index(after: equals)...])), option: "--set \(other[..<equals])")
        }
    }
}

enum Environment {
    static func all() -> [String: String] {
        var all: [String: String] = [:]
        var entry = environ
        while let pointer = entry.pointee {
            let text = String(cString: pointer)
            if let equals = text.firstIndex(of: "=") { all[String(text[..<equals])] = String(text[text.index(after: equals)...]) }
            entry += 1
        }
        return all
    }
}
