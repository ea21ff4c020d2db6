// What is told of settings that were read again, and what holds from then on.

import Settings
import Testing

@Suite("Settings that were read again")
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
        "are told by name",
        arguments: [
            Row(testDescription: "nothing", to: one + "# a comment\nshards: 0\n", unchangedAPIs: [""]),
            Row(testDescription: "one setting", to: one + "cache: {rescue_after: 2s}\n", changed: ["cache.rescue_after"]),
            Row(testDescription: "what needs a restart", to: one + "shards: 7\n", awaitingRestart: ["shards"], unchangedAPIs: [""]),
            Row(
                testDescription: "both", to: one + "store: {size: 5MiB}\nlog: {level: debug}\n", changed: ["log.level"],
                awaitingRestart: ["store.size"]),
            Row(
                testDescription: "a route", to: one + "routes: [{name: r, path: /r}]\n", changed: ["routes.r"]),
            Row(
                testDescription: "a route that is no more", from: one + "routes: [{name: r, path: /r}, {name: s, path: /s}]\n",
                to: one + "routes: [{name: s, path: /s}]\n", changed: ["routes.r"]),
            Row(
                testDescription: "the order of routes", from: one + "routes: [{name: r, path: /r}, {name: s, path: /s}]\n",
                to: one + "routes: [{name: s, path: /s}, {name: r, path: /r}]\n", changed: ["routes"]),
            Row(
                testDescription: "an API", from: apis,
                to: "apis:\n  - {name: a, upstream: [http://a], path: /a}\n  - {name: b, upstream: [http://c], path: /b}\n",
                changed: ["apis.b"], unchangedAPIs: ["a"]),
            Row(
                testDescription: "an API that is no more, and one that is new", from: apis,
                to: "apis:\n  - {name: b, upstream: [http://b], path: /b}\n  - {name: c, upstream: [http://c], path: /c}\n",
                changed: ["apis.c", "apis.a"], unchangedAPIs: ["b"]),
            Row(
                testDescription: "what all APIs have", from: apis, to: apis + "cache: {rescue_after: 2s}\n",
                changed: ["cache.rescue_after", "apis.a", "apis.b"]),
            Row(
                testDescription: "what needs a restart, of several", from: apis, to: apis + "store: {size: 5MiB}\n",
                awaitingRestart: ["store.size"], unchangedAPIs: ["a", "b"]),
        ])
    func told(row: Row) {
        let (former, read) = (Self.read(row.from), Self.read(row.to))
        let change = SettingsChange(from: former, to: read)
        #expect(change.changed == row.changed)
        #expect(change.awaitingRestart == row.awaitingRestart)
        #expect(change.unchangedAPIs == row.unchangedAPIs)
        #expect(change.settings.store == former.store && change.settings.shards == former.shards)
        #expect(change.settings.apis.allSatisfy { $0.settings.store == former.store })
        #expect(change.settings.cache == read.cache && change.settings.log == read.log)
    }
}
