// Generates Configuration/Reference/settings.md, and comments and values in Configuration/cistern.yaml, from the declarations. With
// CISTERN_WRITE_SETTINGS set, both are written instead of compared.

import Settings
import Testing

@Suite("Settings reference")
struct SettingsPageTests {
    private static let root = String(#filePath.dropLast("Tests/SettingsTests/SettingsPageTests.swift".count))
    private static let page = root + "Configuration/Reference/settings.md"
    private static let sample = root + "Configuration/cistern.yaml"

    /// The default value in the notation of the sample file.
    private static func value(_ setting: Setting<CisternSettings>) -> String {
        var settings = CisternSettings()
        settings.upstreamURL = "https://api.example.com"
        let text = setting.text(in: settings)
        if case .number(.duration, _) = setting.binding.kind, let milliseconds = TimeSpan.parse(text) {
            if milliseconds >= 48 * 3_600_000 { return "\(milliseconds / 86_400_000)d" }
            return milliseconds > 1_000 && milliseconds % 1_000 != 0 ? "\(Double(milliseconds) / 1_000)s" : text
        }
        guard case .list = setting.binding.kind else { return text }
        let plain = { (word: Substring) in word.allSatisfy { $0.isLetter || $0.isNumber || "-_.*+/".contains($0) } && word.first != "*" }
        return "["
            + text.split(separator: "\"").filter { ![", ", "[", "]", "[]"].contains($0) }.map { word in
                plain(word) ? String(word) : "\"\(word)\""
            }.joined(separator: ", ") + "]"
    }

    private static func comment(_ setting: Setting<CisternSettings>) -> String {
        if case .choice(let words) = setting.binding.kind { return "\(setting.help) One of: \(words.joined(separator: ", "))." }
        return setting.help
    }

    /// The sample file with the comment and the value of each setting as declared. The rest of the file is written by hand.
    private static func sample(_ file: String) -> String {
        var (lines, groups): ([String], [Substring]) = ([], [])
        for line in file.split(separator: "\n", omittingEmptySubsequences: false) {
            let indent = line.prefix { $0 == " " }
            let name = line[indent.endIndex...].prefix { $0 != ":" && $0 != "#" }
            guard !name.isEmpty, line[name.endIndex...].first == ":" else {
                lines.append(String(line))
                continue
            }
            groups = groups.prefix(indent.count / 2) + [name]
            let path = groups.joined(separator: ".")
            guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
                lines.append(String(line))
                continue
            }
            while let last = lines.last, last.hasPrefix(indent + "# ") { lines.removeLast() }
            lines.append("\(indent)# \(comment(setting))")
            lines.append("\(indent)\(name): \(value(setting))")
        }
        return lines.joined(separator: "\n")
    }

    @Test("the comments and values of the sample file match the declarations")
    func file() throws {
        let text = try #require(TextFile.read(Self.sample))
        #expect(TextFile.isCurrent(Self.sample, Self.sample(text)), "write it anew with CISTERN_WRITE_SETTINGS=1")
    }

    @Test("the reference page describes every setting as declared")
    func page() {
        let page = SettingsPage { Self.value($0) }
        #expect(TextFile.isCurrent(Self.page, page.text), "write it anew with CISTERN_WRITE_SETTINGS=1")
    }
}
