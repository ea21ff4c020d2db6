// Tests that settings reach the modules: defaults of both are equal, and each setting has an effect.

import Administration
import CachePolicy
import Downstream
import Identity
import Logging
import ResponseCache
import Settings
import Testing
import Upstream

@testable import ReverseProxy
@testable import cistern

@Suite("Mapping of settings to the proxy")
struct SettingsWiringTests {
    private static func text(_ settings: CisternSettings) -> String { text(ProxySettings(settings)) }

    private static func text(_ settings: ProxySettings) -> String {
        var text = ""
        dump(settings, to: &text)
        return text
    }

    @Test("the default settings of each module equal the proxy's default settings")
    func same() {
        var made = ProxySettings(Self.given)
        let own = ProxySettings(upstream: UpstreamSettings(host: "api.test", port: 81))
        // Values that depend on the machine and the program.
        (made.listening, made.store, made.shards, made.version) = (own.listening, own.store, own.shards, own.version)
        made.hash = own.hash
        made.admin.socket = own.admin.socket
        made.downstream.unsentLimitBytes = own.downstream.unsentLimitBytes
        made.downstream.requestBuffersBytes = own.downstream.requestBuffersBytes
        let (lines, ownLines) = (Self.text(made).split(separator: "\n"), Self.text(own).split(separator: "\n"))
        let differences = lines.difference(from: ownLines)
        #expect(differences.isEmpty)
    }

    // MARK: Effect of each setting

    /// Settings used outside the proxy: the log, and settings that affect only other settings or the start. `SharingSettingsTests` covers
    /// sharing.
    private static let elsewhere: Set = [
        "log.level", "log.format", "log.access", "log.access_format", "log.access_fields", "admin.token_file",
        "timeouts.drain_delay", "timeouts.shutdown",
    ]

    /// All settings without a successor. `RetiredSettingsTests` covers the others.
    private static let wired = SettingsTable.all.filter { $0.successor == nil }.map(\.path)

    private static let texts = [
        "failure.probe": "GET /changed", "probe": "GET /changed",
        "tracing.endpoint": "http://collector.test:4318", "upstream.url": "http://other.test/x", "path": "/x/*", "address": "127.0.0.1:9",
    ]
    private static let lists = [
        "listen": ":9", "admin_listen": ":9", "admin.names": "a.test", "admin.debug_fields": "why", "cache.content_types": "text/x",
        "methods": "QUERY",
        "cache.harmless_fields": "+x-changed", "harmless_fields": "+x-changed",
        "good.content_types": "text/x", "upstream.fields.set": "X-A: b", "fields.set": "X-A: b",
        "good.must_have": "/x", "good.must_not_have": "/x", "keep_if.must_have": "/x", "keep_if.must_not_have": "/x",
        "keep_if.content_types": "text/x", "cache.freshness.ignore": "expires", "freshness.ignore": "expires",
        "trusted_proxies": "10.0.0.0/8", "access.allow": "10.0.0.0/8", "access.deny": "10.0.0.0/8", "allow": "10.0.0.0/8",
        "deny": "10.0.0.0/8", "cache.negative_statuses": "500", "negative_statuses": "500",
    ]

    private static func change<Root>(_ setting: Setting<Root>, in root: inout Root) {
        let text = setting.text(in: root)
        let changed: SettingText =
            switch setting.binding.kind {
            case .text: .one(texts[setting.path] ?? "changed")
            case .choice(let words): .one(words.first { ($0.isEmpty ? "\"\"" : $0) != text } ?? "")
            case .list: .many([lists[setting.path] ?? "changed"])
            case .items: .one(lists[setting.path] ?? "a.pem:b.pem")
            case .flag: .one(text == "true" ? "false" : "true")
            case .number(let unit, let range):
                .one(unit.format(text == unit.format(range.upperBound) ? range.lowerBound : range.upperBound))
            }
        let mistake = setting.apply(changed, to: &root)
        #expect(mistake == nil)
    }

    private static var given: CisternSettings {
        var settings = CisternSettings()
        settings.upstreamURL = "http://api.test:81"
        // Settings about client certificates are copied to each server certificate.
        settings.tls.certificates = [CisternSettings.Certificate(shortForm: "own.pem")]
        return settings
    }

    /// Text of the default proxy settings. Made once, since it takes several milliseconds in debug builds.
    private static let told = text(given)
    private static let toldOfAPI = text(withAPI { _ in })
    private static let toldOfRoute = text(withRoute)

    @Test(
        "changing a setting changes the proxy's settings",
        arguments: wired.filter { !elsewhere.contains($0) && !$0.hasPrefix("share.") })
    func changesProxy(_ path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        var settings = Self.given
        Self.change(setting, in: &settings)
        let isTold = Self.text(settings) != Self.told
        #expect(isTold)
    }

    @Test("changing a listener's setting changes the proxy's settings", arguments: CisternSettings.Listener.table.map(\.path))
    func listenerSettingChangesProxy(_ path: String) throws {
        let setting = try #require(CisternSettings.Listener.table.first { $0.path == path })
        var settings = Self.given
        Self.change(setting, in: &settings.listen[0])
        let isTold = Self.text(settings) != Self.told
        #expect(isTold)
    }

    private static var withRoute: CisternSettings {
        var settings = given
        settings.routes = [settings.otherRoute]
        return settings
    }

    @Test("changing a route's setting changes the proxy's settings", arguments: RouteTable.all.map(\.path))
    func routeSettingChangesProxy(_ path: String) throws {
        let setting = try #require(RouteTable.all.first { $0.path == path })
        var settings = Self.withRoute
        Self.change(setting, in: &settings.routes[0])
        let isTold = Self.text(settings) != Self.toldOfRoute
        #expect(isTold)
    }

    private static func withAPI(_ change: (inout CisternSettings.API) -> Void) -> CisternSettings {
        var settings = CisternSettings()
        var api = CisternSettings.API(settings)
        (api.name, api.upstream, api.path) = ("a", ["http://api.test:81"], "/x")
        api.settings.upstreamURL = "http://api.test:81"
        change(&api)
        settings.apis = [api]
        return settings
    }

    @Test("changing an API's setting changes the proxy's settings", arguments: APITable.all.filter { $0.successor == nil }.map(\.path))
    func apiSettingChangesProxy(_ path: String) throws {
        let setting = try #require(APITable.all.first { $0.path == path })
        let changed = Self.withAPI { api in
            if path == "upstream" { api.upstream.append("http://b.test") } else { Self.change(setting, in: &api) }
        }
        let isTold = Self.text(changed) != Self.toldOfAPI
        #expect(isTold)
    }

    // MARK: Settings of the cache

    /// Settings of `cache`, `credentials` and routes that only the request flow or senders use.
    private static let notForCache: Set = [
        "cache.mode", "cache.hold_limit", "cache.rescue_after", "cache.collapse", "cache.collapse_wait", "cache.refresh_ahead",
        "cache.refresh_ahead_hits", "cache.background_limit", "cache.recoded_memory", "cache.client_directives",
        "name", "path", "mode", "rescue_after", "refresh_ahead", "refresh_ahead_hits", "client_directives", "allow", "deny",
        "client_certificate", "methods", "content_limit", "stream", "upgrade", "invalidates_target",
    ]
    private static let flowGroups = ["good.", "keep_if.", "cors."]

    private static let forCache =
        wired.filter { ($0.hasPrefix("cache.") || $0.hasPrefix("credentials.")) && !notForCache.contains($0) }
        + [
            "upstream.url", "failure.window", "forwarding.name", "forwarding.via", "forwarding.rewrite_location",
            "forwarding.preserve_host",
        ]

    private static let ofRouteForCache = RouteTable.all.map(\.path).filter { path in
        !notForCache.contains(path) && !flowGroups.contains(where: path.hasPrefix)
    }

    /// Adds verified tokens, and lookups at the upstream.
    private static func identify(_ route: inout CisternSettings.Route) {
        let texts: [String: SettingText] = [
            "jwt.keys": .one("https://keys.test/"), "lookup.path": .one("/me"), "lookup.identity": .many(["/id"]),
        ]
        for (name, text) in texts {
            let mistake = RouteTable.all.first { $0.path == "credentials.identity." + name }?.apply(text, to: &route)
            #expect(mistake == .some(nil))
        }
    }

    /// Text of the cache's settings, without memory addresses, which vary.
    private static func cacheLines(_ settings: CisternSettings) -> [String] {
        let settings = ProxySettings(settings)
        let routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        let keys = TokenKeys(routes, beside: nil, logger: Logger(label: "wiring"))
        var text = ""
        dump(ResponseCacheSettings(settings, routes, keys, lookUps: routes.lookUps(after: [], fleet: nil)), to: &text)
        return text.split(separator: "\n").map(String.init).filter { !$0.contains("0x") && !$0.contains("pointerValue") }
    }

    @Test("changing a cache or credential setting changes the cache's settings", arguments: forCache)
    func changesCache(_ path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        var settings = Self.given
        Self.identify(&settings.otherRoute)
        let before = Self.cacheLines(settings)
        let same = Self.cacheLines(settings).difference(from: before)
        #expect(same.isEmpty)
        Self.change(setting, in: &settings)
        let changes = Self.cacheLines(settings).difference(from: before)
        #expect(!changes.isEmpty)
    }

    @Test("changing a route's cache setting changes the cache's settings", arguments: ofRouteForCache)
    func routeSettingChangesCache(_ path: String) throws {
        let setting = try #require(RouteTable.all.first { $0.path == path })
        var settings = Self.given
        // A route with the setting suffices.
        settings.otherRoute.rules.sharedRescueMode = .never
        var route = settings.otherRoute
        Self.identify(&route)
        settings.routes = [route]
        let before = Self.cacheLines(settings)
        Self.change(setting, in: &settings.routes[0])
        let changes = Self.cacheLines(settings).difference(from: before)
        #expect(!changes.isEmpty)
    }

    // MARK: Settings that need a restart

    @Test(
        "exactly the settings that are read only at start need a restart",
        arguments: wired.filter { !elsewhere.contains($0) && !$0.hasPrefix("share.") })
    func restart(_ path: String) throws {
        let setting = try #require(SettingsTable.all.first { $0.path == path })
        let before = ProxySettings(Self.given)
        var settings = Self.given
        Self.change(setting, in: &settings)
        var after = ProxySettings(settings)
        let all = Self.text(after)
        (after.store, after.shards, after.records) = (before.store, before.shards, before.records)
        #expect((all != Self.text(after)) == setting.needsRestart)
    }

    @Test("names of API settings are unique")
    func names() {
        let names = APITable.all.map(\.path)
        #expect(Set(names).count == names.count)
    }
}

/// Shows the settings only: the state of lookups is large, and contains random numbers.
extension LookedUpIdentities: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: ["settings": settings]) }
}
