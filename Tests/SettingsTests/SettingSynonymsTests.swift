// Tests of setting names from other proxies: each has a suggestion, and each suggested setting exists.

import Testing

@testable import Settings

@Suite("Setting names of other proxies")
struct SettingSynonymsTests {
    private func mistakes(_ text: String) -> [String] {
        var reader = SettingsReader()
        reader.read(file: "f.yaml", text: Array(text.utf8))
        reader.finish()
        return reader.mistakes.map { String($0.description.split(separator: ": ", maxSplits: 1).last ?? "") }
    }

    /// Settings and lists as in the file.
    private static let known =
        SettingsTable.current.map(\.path) + RouteTable.current.map { "routes." + $0.path } + APITable.current.map { "apis." + $0.path } + [
            "routes", "apis",
        ]

    @Test("each synonym is not itself a setting, and its target exists", arguments: SettingSynonyms.all.keys.sorted())
    func names(_ name: String) throws {
        let synonym = try #require(SettingSynonyms.all[name])
        #expect(!Self.known.contains(name))
        #expect(synonym.target != nil || !synonym.note.isEmpty)
        guard let target = synonym.target else { return }
        // CommandTests checks the commands.
        #expect(Self.known.contains(target) || target.hasPrefix("cistern "), "\(target)")
    }

    @Test("each synonym in a file is reported in one sentence with its setting", arguments: SettingSynonyms.all.keys.sorted())
    func inFile(_ name: String) throws {
        let synonym = try #require(SettingSynonyms.all[name])
        let parts = name.split(separator: ".")
        let text =
            switch parts.first {
            case "routes": "routes: [{name: a, path: /a, \(parts[1]): x}]"
            case "apis": "apis: [{name: a, upstream: \"http://a.test\", \(parts[1]): x}]"
            default: parts.count == 1 ? "\(name): x" : "\(parts[0]): {\(parts[1]): x}"
            }
        let found = mistakes(text)
        #expect(found.count == 1)
        let sentence = try #require(found.first)
        // The message reports an unknown group first.
        let isGroup = parts.count == 1 || Self.known.contains { $0.hasPrefix(parts[0] + ".") }
        if isGroup { #expect(sentence.hasPrefix("\(name) is not a setting")) }
        if let target = synonym.target, isGroup { #expect(sentence.contains("; use \(target)"), "\(sentence)") }
        if isGroup { #expect(sentence.hasSuffix(synonym.note)) }
        #expect(sentence.split(separator: " ").count <= 40, "\(sentence)")
    }

    @Test("each synonym as an environment variable gets a suggestion", arguments: SettingSynonyms.all.keys.sorted())
    func inEnvironment(_ name: String) throws {
        let variable = Setting<CisternSettings>.environment(of: name)
        let words = SettingSuggestion.words(forVariable: variable)
        #expect(!words.isEmpty)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let text: String
        let sentence: String
        var testDescription: String { text }
        init(_ text: String, _ sentence: String) { (self.text, self.sentence) = (text, sentence) }
    }

    @Test(
        "the suggestion fits the group of the misplaced name",
        arguments: [
            Row(
                "ttl: 60s",
                "ttl is not a setting; use cache.freshness.default: for responses without a lifetime; "
                    + "cache.freshness.minimum and cache.freshness.maximum limit the lifetime of others"),
            Row("cache: {ttl: 60s}", "cache.ttl is not a setting; use cache.freshness.default: *"),
            Row("cache: {max_age: 60}", "cache.max_age is not a setting; use cache.freshness.default: *"),
            Row("routes: [{name: a, path: /a, ttl: 1s}]", "routes.ttl is not a setting; use routes.freshness.default: *"),
            Row("routes: [{name: a, path: /a, store: off}]", "routes.store is not a setting; use cache.store, for all paths: *"),
            Row(
                "routes: [{name: a, path: /a, caching: off}]",
                "routes.caching is not a setting; use routes.cache: off on a route: its requests are forwarded, and nothing is stored"),
            Row("routes: [{name: a, path: /a, bypass: on}]", "routes.bypass is not a setting; use routes.cache: *"),
            Row("apis: [{name: a, upstream: \"http://a\", ttl: 1s}]", "apis.ttl is not a setting; use apis.freshness.default: *"),
            Row("apis: [{name: a, upstream: \"http://a\", timeout: 1s}]", "apis.timeout is not a setting; use apis.first_byte_timeout: *"),
            Row(
                "routes: [{name: a, path: /a, timeout: 1s}]",
                "routes.timeout is not a setting; use upstream.first_byte_timeout, for all paths: *"),
            Row(
                "routes: [{name: a, path: /a, total_timeout: 1s}]",
                "routes.total_timeout is not a setting; did you mean upstream.total_timeout?"),
            Row("upstream: http://a.test", "upstream is a group of settings and cannot have a value; did you mean upstream.url?"),
            Row("upstream: {port: 80}", "upstream.port is not a setting; use upstream.url: *"),
            Row("port: 80", "port is not a setting; use listen: *"),
            Row("connect_timeout: 1s", "connect_timeout is not a setting; did you mean upstream.connect_timeout?"),
            Row("upstream: {connectTimeout: 1s}", "upstream.connectTimeout is not a setting; did you mean upstream.connect_timeout?"),
            Row("admin-listen: \":1\"", "admin-listen is not a setting; did you mean admin_listen?"),
            Row("cacheDir: /x", "cacheDir is not a setting; use store.directory"),
            Row("listen: [{address: \":1\", certificate: x}]", "listen.certificate is not a setting; use tls.certificates: *"),
            Row("must_have: [/x]", "must_have is not a setting"),
            Row("user: nobody", "user is not a setting and has no equivalent: *"),
            Row("cache: {methods: [POST]}", "cache.methods is not a setting; use routes.methods: *"),
            Row("trusted_proxy: 10.0.0.1", "trusted_proxy is not a setting; use trusted_proxies"),
            Row("cache: {role_: x}", "cache.role_ is not a setting; did you mean cache.role?"),
            Row("cache: {abc: x}", "cache.abc is not a setting"),
            Row("xyz: 1", "xyz is not a setting"),
        ])
    func suggestions(_ row: Row) {
        let found = mistakes(row.text)
        #expect(found.count == 1)
        let isWhole = row.sentence.last != "*"
        #expect(isWhole ? found.first == row.sentence : found.first?.hasPrefix(row.sentence.dropLast()) == true, "\(found)")
    }

    @Test(
        "an unknown variable gets a suggestion with a variable if the setting has one",
        arguments: [
            ("CISTERN_PORT", "; use CISTERN_LISTEN: "), ("CISTERN_TTL", "; use CISTERN_CACHE_FRESHNESS_DEFAULT: "),
            ("CISTERN_CACHE_TTL", "; use CISTERN_CACHE_FRESHNESS_DEFAULT: "), ("CISTERN_UPSTREAM", "; did you mean CISTERN_UPSTREAM_URL?"),
            ("CISTERN_CACHE_DIR", "; use CISTERN_STORE_DIRECTORY"), ("CISTERN_ROUTES_BYPASS", "; use routes.cache: "),
            ("CISTERN_CONNECT_TIMEOUT", "; did you mean CISTERN_UPSTREAM_CONNECT_TIMEOUT?"), ("CISTERN_NONSENSE", ""),
        ])
    func variables(_ variable: String, _ words: String) {
        let found = SettingSuggestion.words(forVariable: variable)
        #expect(words.isEmpty ? found.isEmpty : found.hasPrefix(words), "\(found)")
    }

    @Test("the suggested setting exists for every group of settings")
    func groups() {
        let routes = RouteTable.all.map(\.path)
        for (group, setting) in SettingSynonyms.ofGroup {
            #expect(Self.known.contains(setting) || routes.contains(setting), "\(group)")
            #expect(setting.hasPrefix(group + ".") || group == "timeouts")
        }
        for setting in SettingsTable.current where setting.path.contains(".") {
            let group = String(setting.path.prefix { $0 != "." })
            #expect(SettingSynonyms.ofGroup[group] != nil || group == "credentials", "\(group)")
        }
    }
}
