// Tests of reloads: which changes are reported, and which settings then apply.

import Settings
import Testing

@Suite("Changes between reloads")
struct SettingsChangeTests {
    private static func read(_ text: String) -> CisternSettings {
        var reader = SettingsReader()
        reader.read(file: "cistern.yaml", text: Array(text.utf8))
        reader.finish()
        return reader.settings
    }

    private static let one = "upstream: {url: http://a}\n"
    private static let apis = "apis:\n  - {name: a, upstream: [http://a], path: /a}\n  - {name: b, upstream: [http://b], path: /b}\n"

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var from = SettingsChangeTests.one
        let to: String
        var changed: [String] = []
        var awaitingRestart: [String] = []
        var unchangedAPIs: Set<String> = []
    }

    @Test(
        "changes are reported by name",
        arguments: [
            Row(testDescription: "nothing", to: one + "# a comment\nshards: 0\n", unchangedAPIs: [""]),
            Row(testDescription: "one setting", to: one + "cache: {rescue_after: 2s}\n", changed: ["cache.rescue_after"]),
            Row(
                testDescription: "a setting that needs a restart", to: one + "shards: 7\n", awaitingRestart: ["shards"], unchangedAPIs: [""]
            ),
            Row(
                testDescription: "both", to: one + "store: {size: 5MiB}\nlog: {level: debug}\n", changed: ["log.level"],
                awaitingRestart: ["store.size"]),
            Row(
                testDescription: "a route", to: one + "routes: [{name: r, path: /r}]\n", changed: ["routes.r"]),
            Row(
                testDescription: "a removed route", from: one + "routes: [{name: r, path: /r}, {name: s, path: /s}]\n",
                to: one + "routes: [{name: s, path: /s}]\n", changed: ["routes.r"]),
            Row(
                testDescription: "the order of routes", from: one + "routes: [{name: r, path: /r}, {name: s, path: /s}]\n",
                to: one + "routes: [{name: s, path: /s}, {name: r, path: /r}]\n", changed: ["routes"]),
            Row(
                testDescription: "an API", from: apis,
                to: "apis:\n  - {name: a, upstream: [http://a], path: /a}\n  - {name: b, upstream: [http://c], path: /b}\n",
                changed: ["apis.b"], unchangedAPIs: ["a"]),
            Row(
                testDescription: "a removed and a new API", from: apis,
                to: "apis:\n  - {name: b, upstream: [http://b], path: /b}\n  - {name: c, upstream: [http://c], path: /c}\n",
                changed: ["apis.c", "apis.a"], unchangedAPIs: ["b"]),
            Row(
                testDescription: "a setting of all APIs", from: apis, to: apis + "cache: {rescue_after: 2s}\n",
                changed: ["cache.rescue_after", "apis.a", "apis.b"]),
            Row(
                testDescription: "a setting that needs a restart, with several APIs", from: apis, to: apis + "store: {size: 5MiB}\n",
                awaitingRestart: ["store.size"], unchangedAPIs: ["a", "b"]),
        ])
    func reported(row: Row) {
        let (former, read) = (Self.read(row.from), Self.read(row.to))
        let change = SettingsChange(from: former, to: read)
        #expect(change.changed == row.changed)
        #expect(change.awaitingRestart == row.awaitingRestart)
        #expect(change.unchangedAPIs == row.unchangedAPIs)
        #expect(change.settings.store == former.store && change.settings["shards"] == former["shards"])
        #expect(change.settings.apis.allSatisfy { $0.settings.store == former.store })
        for path in ["cache.rescue_after", "log.level"] { #expect(change.settings[path] == read[path]) }
    }

    // MARK: All settings

    private static func change(_ setting: Setting<CisternSettings>, in settings: inout CisternSettings) {
        let mistake = setting.apply(setting.another(than: settings), to: &settings)
        #expect(mistake == nil)
    }

    @Test(
        "each setting takes effect at once or keeps its value until a restart, also in each API",
        arguments: SettingsTable.all.map(\.path))
    func each(path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        let former = Self.read(Self.apis)
        var read = former
        Self.change(setting, in: &read)
        for place in read.apis.indices { Self.change(setting, in: &read.apis[place].settings) }
        let change = SettingsChange(from: former, to: read)
        #expect(change.awaitingRestart == (setting.needsRestart ? [path] : []))
        #expect(change.changed == (setting.needsRestart ? [] : [path, "apis.a", "apis.b"]))
        #expect(change.settings == (setting.needsRestart ? former : read))
    }

    @Test("settings that need a restart are listed in the documentation")
    func named() throws {
        let page = try #require(TextFile.read("Configuration/README.md"))
        let line = page.split(separator: "\n\n").first { $0.hasPrefix("These settings need a restart: ") }
        let names = SettingsTable.all.filter(\.needsRestart).map { $0.path.hasPrefix("share.") ? "share" : $0.path }
        let named = (line ?? "").split(separator: "`").enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
        #expect(Set(named) == Set(names))
    }
}
