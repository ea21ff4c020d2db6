// Tests of the settings' hash: equal for equal settings, different for different ones, and independent of secrets.

import Settings
import Testing

@Suite("Hash of the settings")
struct SettingsHashTests {
    private static func hash(_ text: String) -> UInt64 {
        var reader = SettingsReader()
        reader.read(file: "cistern.yaml", text: Array(text.utf8))
        reader.finish()
        return reader.settings.hash
    }

    private static let one = "upstream: {url: http://a}\n"
    private static func apis(_ upstream: String, route: String) -> String {
        "apis:\n  - {name: a, upstream: [\(upstream)], path: /a, routes: [{name: r, path: \(route)}]}\n"
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var from = SettingsHashTests.one
        let to: String
        var isSame = false
    }

    @Test(
        "equal settings have equal hashes, and secrets do not affect the hash",
        arguments: [
            Row(testDescription: "a comment and a default", to: one + "# a comment\nshards: 0\n", isSame: true),
            Row(
                testDescription: "another order", from: one + "shards: 2\ncors: {credentials: on}\n",
                to: "cors: {credentials: on}\nshards: 2\n" + one,
                isSame: true),
            Row(
                testDescription: "a password", from: "upstream: {url: http://ann:sesame@a}\n", to: "upstream: {url: http://ann:other@a}\n",
                isSame: true),
            Row(
                testDescription: "a key in arguments", from: one + "failure: {probe: GET /p?api_key=1}\n",
                to: one + "failure: {probe: GET /p?api_key=2}\n", isSame: true),
            Row(
                testDescription: "a password of a proxy", from: "upstream: {url: http://a, proxy: \"http://u:1@p:1\"}\n",
                to: "upstream: {url: http://a, proxy: \"http://u:2@p:1\"}\n", isSame: true),
            Row(testDescription: "another upstream", to: "upstream: {url: http://b}\n"),
            Row(
                testDescription: "another upstream behind a password", from: "upstream: {url: http://u:p@a}\n",
                to: "upstream: {url: http://u:p@b}\n"),
            Row(testDescription: "another setting", to: one + "shards: 2\n"),
            Row(testDescription: "another value", from: one + "shards: 2\n", to: one + "shards: 3\n"),
            Row(
                testDescription: "the value of another setting", from: one + "cache: {refresh_ahead: 7}\n",
                to: one + "cache: {heuristics: 7}\n"),
            Row(
                testDescription: "a list that is divided differently", from: one + "access: {allow: [10.0.0.0/8]}\n",
                to: one + "access: {deny: [10.0.0.0/8]}\n"),
            Row(testDescription: "a route", to: one + "routes: [{name: r, path: /r}]\n"),
            Row(
                testDescription: "the order of routes", from: one + "routes: [{name: r, path: /r}, {name: s, path: /s}]\n",
                to: one + "routes: [{name: s, path: /s}, {name: r, path: /r}]\n"),
            Row(testDescription: "an API's upstream", from: apis("http://a", route: "/r"), to: apis("http://b", route: "/r")),
            Row(testDescription: "an API's route", from: apis("http://a", route: "/r"), to: apis("http://a", route: "/s")),
        ])
    func compared(_ row: Row) {
        let (one, other) = (Self.hash(row.from), Self.hash(row.to))
        #expect((one == other) == row.isSame)
        // A metric's value holds the hash exactly.
        #expect(one < 1 << 48 && UInt64(Double(one)) == one)
    }

    @Test("each setting affects the hash", arguments: SettingsTable.all.map(\.path))
    func every(path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        var (one, other) = (CisternSettings(), CisternSettings())
        setting.change(&other, 0)
        #expect(one.hash != other.hash)
        setting.change(&one, 0)
        #expect(one.hash == other.hash)
        setting.change(&one, 1)
        #expect(one.hash != other.hash || !setting.hasMoreValues)
    }
}

extension Setting {
    fileprivate var hasMoreValues: Bool {
        switch binding.kind {
        case .flag: false
        case .choice(let words): words.count > 2
        default: true
        }
    }

    /// Sets another value.
    fileprivate func change(_ settings: inout Root, _ number: Int) {
        let mistake = apply(another(than: settings, number), to: &settings)
        #expect(mistake == nil)
    }
}
