// Tests of the effective settings, printed as a file, and of the JSON Schema.

import JSON
import Testing

@testable import Settings

@Suite("Effective settings")
struct EffectiveSettingsTests {
    private static func reader(_ text: String) -> SettingsReader {
        var reader = SettingsReader()
        reader.read(file: "cistern.yaml", text: Array(text.utf8))
        reader.finish()
        return reader
    }

    private static func lines(_ reader: SettingsReader) -> [Substring] { reader.effective.split(separator: "\n") }

    @Test("each printed value has its origin")
    func origins() {
        var reader = SettingsReader()
        reader.read(file: "a.yaml", text: Array("cache:\n  rescue_after: 2s\n  profile: rfc9111\nupstream: {url: http://a}\n".utf8))
        reader.read(environment: ["CISTERN_LOG_LEVEL": "debug"])
        reader.read(path: "shards", .one("3"), option: "--shards")
        reader.finish()
        let lines = Self.lines(reader)
        for line in [
            "  url: \"http://a\"  # a.yaml:4", "  rescue_after: 2s  # a.yaml:2", "  level: debug  # environment, CISTERN_LOG_LEVEL",
            "shards: 3  # command line", "  collapse_wait: 5s  # default", "  policy: rfc9111  # a.yaml:3",
            "  targeted_fields: []  # cache.policy: rfc9111",
        ] {
            #expect(lines.contains(line[...]), "\(line)")
        }
        #expect(lines.count > SettingsTable.current.count)
    }

    @Test("the items of a route and an API are printed with their origin")
    func items() {
        let text = """
            apis:
              - name: users
                upstream: http://a
                rescue_after: 3s
                routes: [{name: r, path: /r/**, credentials: ignore}]
            """
        let expected = """
            apis:
              - name: "users"  # cistern.yaml:2
                upstream: ["http://a"]  # cistern.yaml:3
                rescue_after: 3s  # cistern.yaml:4
                routes:
                  - name: "r"  # cistern.yaml:5
                    path: "/r/**"  # cistern.yaml:5
                    credentials:
                      partition: ignore  # cistern.yaml:5
            """
        #expect(Self.reader(text).effective.hasSuffix(expected + "\n"))
    }

    /// Another valid value of a setting, as text of a file.
    private static func changed(_ setting: Setting<CisternSettings>, _ number: Int) -> String? {
        switch setting.binding.kind {
        case .text: #""a\"b\\ #: \#(number)""#
        case .choice(let words): words[number % words.count]
        // Values of fields are not printed, but references are.
        case .list where setting.holdsFields: #"["X-A: file:/\#(number)", "X-B: env:B"]"#
        case .list: #"["x, y", "a\"b", "\#(number)"]"#
        case .flag: setting.text(in: CisternSettings()) == "true" ? "false" : "true"
        case .number(.share, _): "0.25"
        case .number(let unit, let range): unit.format(range.lowerBound + number % (range.upperBound - range.lowerBound + 1))
        case .items where setting.path == "tls.certificates": #"["a.pem:b.pem", {certificate: c.pem, client_verify: required}]"#
        case .items where setting.path == "notify": #"["a.url", {name: b, command: ["/bin/b", "c d"], events: ["path_failing"]}]"#
        case .items: #"["127.0.0.1:1", {address: "127.0.0.1:2", h2c: true, allow: [10.0.0.0/8]}]"#
        }
    }

    @Test("printed settings are read back as equal settings")
    func again() throws {
        for (number, setting) in SettingsTable.all.enumerated() {
            let names = setting.path.split(separator: ".")
            let value = try #require(Self.changed(setting, number * 7 + 1))
            let text =
                names.dropLast().enumerated().map { String(repeating: " ", count: $0) + "\($1):\n" }.joined()
                + String(repeating: " ", count: names.count - 1) + "\(names[names.count - 1]): \(value)\n"
            let reader = Self.reader(text)
            #expect(reader.mistakes.isEmpty, "\(text) \(reader.mistakes)")
            let again = Self.reader(reader.effective)
            #expect(again.mistakes.isEmpty && again.settings == reader.settings, "\(setting.path) \(again.mistakes)")
        }
    }

    @Test("user information and query strings of URLs are hidden")
    func secrets() {
        let text = Self.reader("upstream: {url: http://a, proxy: \"http://user:hidden-word@b:1\"}\ntls: {}\n").effective
        #expect(!text.contains("hidden-word") && text.contains("@b:1"))
    }

    // MARK: Schema

    private static let file =
        String(#filePath.dropLast("Tests/SettingsTests/EffectiveSettingsTests.swift".count)) + "Configuration/cistern.schema.json"

    @Test("the schema file is the one that the program prints")
    func schema() throws {
        let document = String(decoding: SettingsSchema.document, as: UTF8.self)
        #expect(TextFile.isCurrent(Self.file, document), "write it anew with CISTERN_WRITE_SETTINGS=1")
    }

    @Test("the schema contains every setting with its help text")
    func complete() throws {
        let schema = try #require(JSONValue(SettingsSchema.document))
        for setting in SettingsTable.current {
            let end = setting.path.split(separator: ".").reduce(Optional(schema)) { found, name in
                let group = found?["oneOf"]?.array?.last ?? found
                return group?["properties"]?[String(name)]
            }
            #expect(end?["description"]?.string == setting.help, "\(setting.path)")
        }
    }
}
