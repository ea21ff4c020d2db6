// Tests of retired settings: each has its effect, causes a warning, and has a replacement with an equal effect.

import ReverseProxy
import Testing
import Upstream

@testable import Settings

@Suite("Retired settings")
struct RetiredSettingsTests {
    private static func reader(_ text: String, _ environment: [String: String] = [:]) -> SettingsReader {
        var reader = SettingsReader()
        reader.read(file: "f.yaml", text: Array(text.utf8))
        reader.read(environment: environment)
        reader.finish()
        return reader
    }

    /// A setting and its value as lines of a file, and as those of an API.
    private static func lines(_ path: String, _ value: String) -> String {
        let names = path.split(separator: ".")
        return names.joined(separator: ": {") + ": \(value)" + String(repeating: "}", count: names.count - 1) + "\n"
    }

    private static func api(_ path: String, _ value: String) -> String {
        "apis: [{name: a, upstream: \"http://a.test\", \(path.split(separator: ".")[1]): \(value)}]\n"
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let old: (path: String, value: String)
        let new: (path: String, value: String)
        var testDescription: String { old.path }
        init(_ path: String, _ value: String, _ new: String, _ newValue: String) { (old, self.new) = ((path, value), (new, newValue)) }
    }

    private static let rows = [
        Row("upstream.retry", "off", "upstream.retry_budget", "0"),
        Row("failure.probe_path", "/health", "failure.probe", "GET /health 200 every 10s"),
        Row("admin.why_field", "on", "admin.debug_fields", "[\"why\"]"), Row("admin.key_field", "on", "admin.debug_fields", "[\"key\"]"),
        Row("admin.mode_field", "on", "admin.debug_fields", "[\"mode\"]"), Row("cache.profile", "rfc9111", "cache.policy", "rfc9111"),
        Row("forwarding.drop_overrides", "off", "forwarding.override_fields", "[]"),
    ]

    @Test("a replaced setting has the same effect, causes a warning and is printed under its new name", arguments: rows)
    func replaced(_ row: Row) {
        let (old, new) = (Self.reader(Self.lines(row.old.path, row.old.value)), Self.reader(Self.lines(row.new.path, row.new.value)))
        #expect(old.mistakes == [] && new.mistakes == [] && new.retirements == [])
        #expect(old.settings == new.settings && old.settings != CisternSettings())
        #expect(old.retirements.count == 1 && old.retirements.first?.line == 1)
        #expect(
            old.retirements.first?.sentence.contains("\(row.old.path) will be removed in the next version: use \(row.new.path): ") == true)
        #expect(old.effective == new.effective && old.effective.contains("  # f.yaml:1\n"))
        let name = row.old.path.split(separator: ".")[1]
        #expect(!old.effective.contains("  \(name):"))
    }

    @Test(
        "a replaced setting of an API has the same effect and causes a warning",
        arguments: rows.filter { row in APITable.all.contains { row.old.path.hasSuffix("." + $0.path) } })
    func ofAPI(_ row: Row) {
        let (old, new) = (Self.reader(Self.api(row.old.path, row.old.value)), Self.reader(Self.api(row.new.path, row.new.value)))
        #expect(old.mistakes == [] && new.mistakes == [] && old.settings == new.settings && old.effective == new.effective)
        let name = row.new.path.split(separator: ".")[1]
        #expect(old.retirements.first?.sentence.contains(": use \(name): ") == true)
        // A setting of an API overrides the global one, also if one of them has the former name.
        let both = Self.reader(Self.lines(row.old.path, row.old.value) + Self.api(row.old.path, row.old.value == "off" ? "on" : "\"\""))
        #expect(both.mistakes == [])
        var plain = Self.reader(Self.api("cache.json", "standard")).settings.apis[0].settings
        plain.upstreamURL = "http://a.test"
        #expect(both.settings.apis[0].settings == plain)
    }

    @Test("precedence between layers is applied before a retired setting is converted")
    func layers() {
        let file = "cache: {collapse: off}\nfailure: {memory: off}\nupstream: {retry: off}\nadmin: {key_field: on}\n"
        let reader = Self.reader(
            file,
            [
                "CISTERN_CACHE_COLLAPSE": "on", "CISTERN_FAILURE_MEMORY": "on", "CISTERN_UPSTREAM_RETRY": "on",
                "CISTERN_ADMIN_KEY_FIELD": "off",
            ])
        #expect(reader.mistakes == [] && reader.settings == CisternSettings())
        #expect(reader.retirements.count == 4 && reader.retirements.allSatisfy { $0.file == "environment" })
        let effective = Self.reader("", ["CISTERN_UPSTREAM_RETRY": "off"]).effective
        #expect(effective.contains("  retry_budget: 0  # environment, CISTERN_UPSTREAM_RETRY\n"))
    }

    @Test("a flag keeps the values that it disables, which the health checks of an address and the wait for other nodes use")
    func keptValues() {
        let reader = Self.reader(
            """
            failure: {memory: off, recheck: 30s}
            cache: {collapse: off, collapse_wait: 7s}
            apis:
              - {name: a, upstream: "http://a.test"}
              - {name: b, upstream: "http://b.test", memory: on, collapse: on, recheck: 20s}
            """)
        #expect(reader.mistakes == [])
        let all = [reader.settings] + reader.settings.apis.map(\.settings)
        #expect(all.map(\.proxy.upstream.failure.isOn) == [false, false, true])
        #expect(all.map(\.proxy.upstream.failure.recheck) == [30_000, 30_000, 20_000])
        #expect(all.map(\.proxy.collapsing.isOn) == [false, false, true] && all.allSatisfy { $0.proxy.collapsing.wait == 7_000 })
    }

    @Test("a value that never had an effect is not replaced by one that has", arguments: rows.filter { $0.old.value != "/health" })
    func ineffective(_ row: Row) {
        let reader = Self.reader(Self.lines(row.old.path, row.old.value == "off" ? "on" : row.old.value == "on" ? "off" : "none"))
        #expect(reader.mistakes == [] && reader.settings == CisternSettings())
        #expect(reader.retirements.map(\.sentence).allSatisfy { $0.hasSuffix(" if it is \(row.old.value), else remove it") })
    }

    @Test("the three retired probe settings become one")
    func probe() {
        let old = Self.reader("failure: {probe_path: /p, probe_interval: 1500ms, probe_status: 204}")
        #expect(old.mistakes == [] && old.settings.probe == "GET /p 204 every 1500ms" && old.retirements.count == 3)
        let text = HealthCheckText(old.settings.probe)
        #expect(text?.path == "/p" && text?.status == 204 && text?.interval == 1_500)
        #expect(Self.reader("failure: {probe_interval: 1s}").settings == CisternSettings())
    }

    @Test(
        "a health check has a path and an optional status and interval",
        arguments: [
            ("GET /a", 200, 10_000), ("GET /a?b=c 204", 204, 10_000), ("GET /a every 1m", 200, 60_000),
            ("GET  /a 503 every 100ms", 503, 100),
        ])
    func healthCheck(text: String, status: Int, interval: Int) {
        let check = HealthCheckText(text)
        #expect(check?.path.hasPrefix("/a") == true && check?.status == status && check?.interval == interval)
    }

    @Test(
        "an invalid health check is rejected",
        arguments: [
            "", "/a", "GET", "GET a", "POST /a", "GET /a 99", "GET /a 200 1s", "GET /a every", "GET /a every 1s 2s", "GET /a every 1ms",
            "GET /a every 2h", "GET /a 200 200",
        ])
    func noHealthCheck(text: String) { #expect(HealthCheckText(text) == nil) }

    @Test("setting a retired and a new name is an error; beside an older name, a retired off still takes effect")
    func both() {
        #expect(
            Self.reader("failure:\n  probe: GET /a\n  probe_path: /b\nadmin:\n  why_field: on\n  debug_fields: [key]").mistakesInOrder.map(
                \.description) == [
                    "f.yaml:3: failure.probe_path and failure.probe are both set: remove failure.probe_path",
                    "f.yaml:5: admin.why_field and admin.debug_fields are both set: remove admin.why_field",
                ])
        let api = Self.reader(
            "failure: {probe_path: /b}\napis:\n  - name: a\n    upstream: http://a.test\n    probe: GET /a")
        #expect(
            api.mistakes.map(\.description) == ["f.yaml:1: failure.probe_path and apis.a.probe are both set: remove failure.probe_path"])
        for (text, isOff) in [("retry: off, retry_budget: 20", true), ("retry: on, retry_budget: 20", false)] {
            let reader = Self.reader("upstream: {\(text)}")
            #expect(reader.mistakes == [] && reader.settings["upstream.retry_budget"] == (isOff ? "0" : "20"))
        }
        let policy = Self.reader("cache: {profile: rfc9111, policy: rescue}")
        #expect(policy.mistakes == [] && policy.settings["cache.policy"] == "rescue" && policy.settings["cache.store"] == "any")
    }

    @Test("an API may have a different cache policy", arguments: ["policy", "profile"])
    func policy(name: String) {
        let reader = Self.reader(
            """
            cache: {\(name): rfc9111, set_cookie: strip}
            apis:
              - {name: a, upstream: http://a.test}
              - {name: b, upstream: http://b.test, policy: rescue, routes: [{name: r, path: /r}]}
            """)
        let apis = reader.settings.apis.map(\.settings)
        #expect(reader.mistakes == [] && reader.settings["cache.store"] == "any")
        let cache = SettingsTable.all.filter { $0.path.hasPrefix("cache.") }
        #expect(cache.areEqual(apis[0], reader.settings) && apis[1]["cache.set_cookie"] == "strip")
        // The profile applied to the whole process, so its values apply to each API.
        #expect(apis[1]["cache.store"] == (name == "policy" ? "json" : "any") && apis[1]["cache.policy"] == "rescue")
        #expect(apis[1].routes.map { $0["rescue_after"] } == [name == "policy" ? "1500ms" : "0"])
        let own = Self.reader("apis: [{name: a, upstream: \"http://a.test\", policy: rfc9111, rescue_after: 1s}]").settings
        let api = own.apis[0].settings
        #expect(cache.areEqual(own, CisternSettings()) && api["cache.store"] == "any")
        #expect(api["cache.rescue_after"] == "1s" && api["cache.entity_tags"] == "false")
    }

    @Test(
        "a retired setting without a replacement takes effect and causes a warning",
        arguments: SettingsTable.all.filter { $0.replacement != nil && $0.successor == nil }.map(\.path))
    func fixed(path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        let advice = try #require(setting.replacement)
        let value =
            switch setting.binding.kind {
            case .flag: setting.text(in: CisternSettings()) == "true" ? "false" : "true"
            case .list: "[a.test]"
            case .number(let unit, let range): unit.format(range.upperBound)
            default: "a"
            }
        let reader = Self.reader(Self.lines(path, value))
        #expect(reader.mistakes == [] && reader.settings != CisternSettings())
        #expect(reader.retirements.map(\.sentence) == ["\(path) will be removed in the next version: \(advice)"])
        let isOther = advice.hasPrefix("use ") || advice.hasSuffix(" then applies")
        #expect(isOther || advice == "remove it; the default, \(setting.text(in: CisternSettings())), stays in effect")
        #expect(reader.effective.contains(" \(setting.text(in: reader.settings))  # f.yaml:1\n") || path == "admin.names")
    }

    @Test("each replacement of a retired setting exists and is current, and retired route settings are reported likewise")
    func replacements() {
        let current = Set(SettingsTable.current.map(\.path))
        for setting in SettingsTable.all {
            #expect((setting.replacement == nil) == current.contains(setting.path))
            if let advice = setting.replacement, advice.hasPrefix("use ") {
                #expect(current.contains(String(advice.dropFirst(4).prefix { $0 != ":" && $0 != "," && $0 != " " })), "\(advice)")
            }
            if let successor = setting.successor { #expect(current.contains(successor)) }
        }
        #expect(Set(SettingsTable.current.map(\.environment)).count == current.count)
        let route = Self.reader("routes: [{name: r, path: /r, refresh_ahead_hits: 7}]")
        #expect(route.settings.routes.map { $0["refresh_ahead_hits"] } == ["7"])
        #expect(
            route.retirements.map(\.sentence) == [
                "routes.r.refresh_ahead_hits will be removed in the next version: remove it; the default, 3, stays in effect"
            ])
        let document = String(decoding: SettingsSchema.document, as: UTF8.self)
        #expect(!document.contains("\"probe_path\"") && !document.contains("refresh_ahead_hits") && document.contains("\"debug_fields\""))
    }

    // MARK: Changes to lists

    @Test("a list with a default accepts additions and removals from every layer")
    func changes() {
        var reader = SettingsReader()
        reader.read(
            file: "f.yaml",
            text: Array("cache:\n  credential_fields: [+x-tenant-key, -Cookie]\n  content_types: [+text/csv, ++xml, -+json]\n".utf8))
        reader.read(environment: ["CISTERN_CACHE_CREDENTIAL_FIELDS": "+x-other", "CISTERN_CACHE_IGNORED_COOKIES": "+theme"])
        reader.read(path: "forwarding.override_fields", .one("-x-host,+x-more"), option: "--set")
        reader.finish()
        func words(_ path: String, _ settings: CisternSettings) -> [String]? {
            settings[path]?.split(separator: "\"").map(String.init).filter { !["[", ", ", "]", "[]"].contains($0) }
        }
        let (settings, standard) = (reader.settings, CisternSettings())
        #expect(reader.mistakes == [])
        #expect(
            words("cache.credential_fields", settings)
                == words("cache.credential_fields", standard)?.filter { $0.lowercased() != "cookie" }.appending("x-tenant-key", "x-other"))
        #expect(words("cache.content_types", settings) == ["application/json", "text/json", "text/csv", "+xml"])
        #expect(words("cache.ignored_cookies", settings) == words("cache.ignored_cookies", standard)?.appending("theme"))
        #expect(
            words("forwarding.override_fields", settings)
                == words("forwarding.override_fields", standard)?.filter { $0 != "x-host" }.appending("x-more"))
        // A suffix alone is a whole list, as before.
        #expect(words("cache.content_types", Self.reader("cache: {content_types: [+json]}").settings) == ["+json"])
        let api = Self.reader(
            "cache: {ignored_cookies: [a]}\napis: [{name: a, upstream: \"http://a.test\", ignored_cookies: [+b]}]\nroutes: []")
        #expect(api.settings.apis.map { words("cache.ignored_cookies", $0.settings) } == [["a", "b"]])
        let route = Self.reader("routes: [{name: r, path: /r, negative_statuses: [-410, +500]}]")
        #expect(route.settings.routes.map { $0["negative_statuses"] } == [#"["404", "500"]"#])
    }

    @Test("an invalid addition or removal is an error")
    func badChanges() {
        let reader = Self.reader(
            """
            cache:
              ignored_cookies: [+a, b]
              credential_fields: [-x-none]
              content_types: [+text/csv, +json]
              targeted_fields: ["+"]
            """)
        #expect(
            reader.mistakes.map(\.description) == [
                "f.yaml:2: cache.ignored_cookies mixes names with changes: write +b to add \"b\", or give the whole list without + and -",
                "f.yaml:3: cache.credential_fields cannot remove \"x-none\": the list does not contain it",
                "f.yaml:4: cache.content_types mixes names with changes: write ++json to add \"+json\", or give the whole list without + and -",
                "f.yaml:5: cache.targeted_fields has \"+\" without a name",
            ])
    }
}

extension [String] {
    fileprivate func appending(_ words: String...) -> [String] { self + words }
}
