// Makes the table of settings in Configuration/README.md of the settings' one declaration and the defaults that Configuration/cistern.yaml
// shows (which another test holds against the code). With CISTERN_WRITE_SETTINGS set the table is written instead of compared.

import Glibc
import Settings
import Testing

@Suite("The page of settings")
struct SettingsPageTests {
    private static let root = String(#filePath.dropLast("Tests/SettingsTests/SettingsPageTests.swift".count))
    private static let page = root + "Configuration/README.md"
    private static let heading = "| Setting | Default | Meaning |\n|---|---|---|\n"

    /// The default of each setting, as the file spells it.
    private static func defaults(_ file: String) -> [String: String] {
        var values: [String: String] = [:]
        var groups: [Substring] = []
        for line in file.split(separator: "\n") {
            let name = line.drop { $0 == " " }.prefix { $0 != ":" }
            guard !line.drop(while: { $0 == " " }).hasPrefix("#"), name.endIndex < line.endIndex else { continue }
            let value = line[line.index(after: name.endIndex)...].drop { $0 == " " }
            // Each group is set in by two.
            groups = groups.prefix(line.prefix { $0 == " " }.count / 2) + [name]
            values[groups.joined(separator: ".")] = String(value)
        }
        return values
    }

    private static func rows() throws -> String {
        let values = defaults(try #require(TextFile.read(root + "Configuration/cistern.yaml")))
        return try SettingsTable.current.map { setting in
            let text = try #require(values[setting.path], "\(setting.path) is not in Configuration/cistern.yaml")
            let (value, more) = (setting.path == "upstream.url" ? "–" : "`\(text)`", setting.needsRestart ? " *Needs a restart.*" : "")
            return "| `\(setting.path)` | \(value) | \(setting.help)\(more) |\n"
        }.joined()
    }

    @Test("the page shows every setting as it is declared")
    func page() throws {
        let text = try #require(TextFile.read(Self.page))
        let start = try #require(text.firstRange(of: Self.heading)).upperBound
        let end = text[start...].firstRange(of: "\n\n").map { text.index(after: $0.lowerBound) } ?? text.endIndex
        let rows = try Self.rows()
        if getenv("CISTERN_WRITE_SETTINGS") != nil {
            let file = try #require(fopen(Self.page, "w"))
            fputs(text[..<start] + rows + text[end...], file)
            fclose(file)
        } else {
            #expect(text[start..<end] == rows, "write it anew with CISTERN_WRITE_SETTINGS=1")
        }
    }
}
