// Tests the warnings of a reload with rules that give fewer clients access to stored responses.

import Administration
import CachePolicy
import CacheStore
import Forwarding
import ResponseCache
import ReverseProxy
import TestSupport
import Testing
import Upstream

@testable import Server

@Suite("Warnings about narrowed rules")
struct NarrowingTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let from: @Sendable (inout ProxySettings) -> Void
        let to: @Sendable (inout ProxySettings) -> Void
        let named: String?

        init(
            _ description: String, _ from: @escaping @Sendable (inout ProxySettings) -> Void = { _ in },
            to: @escaping @Sendable (inout ProxySettings) -> Void = { _ in }, _ named: String?
        ) {
            (testDescription, self.from, self.to, self.named) = (description, from, to, named)
        }
    }

    private static func route(_ pattern: String, ignoring: Bool) -> Route {
        var route = Route()
        (route.name, route.pattern, route.credentials.areIgnored) = ("r", RoutePattern(pattern), ignoring)
        return route
    }

    private static func fields(_ key: String) -> UpstreamFieldRules {
        var rules = UpstreamFieldRules()
        rules.set(Array("X-Api-Key".utf8), to: Array(key.utf8))
        return rules
    }

    private static func route(_ pattern: String, key: String) -> Route {
        var route = route(pattern, ignoring: false)
        route.upstreamFields = fields(key)
        return route
    }

    private static let moreCredentials = "more fields or cookies count as credentials"

    static let rows = [
        Row("nothing changes", { _ in }, nil),
        Row("credentials were ignored", { $0.otherRoute.credentials.areIgnored = true }, "credentials are no longer ignored"),
        Row("credentials are ignored now", to: { $0.otherRoute.credentials.areIgnored = true }, nil),
        Row("credentials were ignored on a route", { $0.routes = [route("/a", ignoring: true)] }, "credentials are no longer ignored"),
        Row(
            "credentials are ignored on a renamed route", { $0.routes = [route("/a", ignoring: true)] },
            to: {
                $0.routes = [route("/a", ignoring: true)]
                $0.routes[0].name = "s"
            }, nil),
        Row(
            "credentials are no longer ignored on one path", { $0.otherRoute.credentials.areIgnored = true },
            to: {
                $0.otherRoute.credentials.areIgnored = true
                $0.routes = [route("/a", ignoring: false)]
            }, "credentials are no longer ignored"),
        Row("a private cache becomes shared", { $0.policy.isPrivate = true }, "cache.role"),
        Row("a shared cache becomes private", to: { $0.policy.isPrivate = true }, nil),
        Row("cookies are no longer kept", { $0.policy.setCookie = .keep }, "cache.set_cookie"),
        Row("cookies are kept now", to: { $0.policy.setCookie = .keep }, nil),
        Row("private is no longer ignored", { $0.otherRoute.freshness.ignored = [.privateResponse] }, "ignore no longer has private"),
        Row("no-cache is no longer ignored", { $0.otherRoute.freshness.ignored = [.noCache] }, nil),
        Row("an additional credential field", to: { $0.policy.credentials.fields.append("x-more") }, moreCredentials),
        Row("a removed credential field", { $0.policy.credentials.fields.append("x-more") }, nil),
        Row("a credential cookie is configured", { $0.policy.credentials.cookies = ["sid"] }, moreCredentials),
        Row("a field is no longer harmless", { $0.policy.harmlessFields.append("x-more") }, "fewer request fields are harmless"),
        Row("an additional harmless field", to: { $0.policy.harmlessFields.append("x-more") }, nil),
        Row(
            "another key for the upstream", { $0.otherRoute.upstreamFields = fields("a") },
            to: { $0.otherRoute.upstreamFields = fields("b") },
            "purge them: cistern purge --all"),
        Row("a first key", to: { $0.otherRoute.upstreamFields = fields("b") }, "upstream.fields has changed"),
        Row(
            "another key on one route", { $0.routes = [route("/a/**", key: "a"), route("/b", key: "c")] },
            to: { $0.routes = [route("/a/**", key: "b"), route("/b", key: "c")] }, "purge them: cistern purge --matching '/a/**'"),
        Row(
            "the unchanged key", { $0.otherRoute.upstreamFields = fields("a") }, to: { $0.otherRoute.upstreamFields = fields("a") }, nil),
        Row(
            "an argument is no longer ignored", { $0.otherRoute.arguments.ignore = [ArgumentPattern("a")] },
            "arguments have changed"),
        Row(
            "a route requires more of good responses", { $0.routes = [route("/a", ignoring: false)] },
            to: {
                $0.routes = [route("/a", ignoring: false)]
                $0.routes[0].good.minimumBytes = 1
            }, "good or keep_if has changed"),
        Row("a cookie is no longer ignored", { $0.policy.credentials.ignoredCookies.append("lang") }, moreCredentials),
    ]

    @Test("a reload warns about a narrowed rule", .play)
    func warned() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) { $0.otherRoute.credentials.areIgnored = true }
        let outcome = play.reload { $0.settings.otherRoute.credentials.areIgnored = false }
        let warnings: [String] = if case .applied(let applied) = outcome { applied.warnings } else { [] }
        #expect(warnings.count == 1 && warnings.first?.hasPrefix("credentials are no longer ignored") == true)
    }

    @Test("each narrowed setting causes a warning", arguments: rows)
    func warnings(_ row: Row) {
        var settings = ProxySettings(upstream: UpstreamSettings(host: "a", port: 1))
        settings.store = StoreLocation(directory: "/none", capacityBytes: 8 << 20)
        var former = settings
        row.from(&former)
        row.to(&settings)
        let warnings = settings.warningsOfNarrowing(since: former)
        #expect(warnings.count == (row.named == nil ? 0 : 1))
        if let named = row.named { #expect(warnings.first?.contains(named) == true && warnings.first?.contains("cistern purge") == true) }
        settings.store = nil
        #expect(settings.warningsOfNarrowing(since: former).isEmpty)
    }

    @Test("facts for the next start name the narrowed settings, and nothing if no fewer clients may share", arguments: rows)
    func facts(_ row: Row) {
        var settings = ProxySettings(upstream: UpstreamSettings(host: "a", port: 1))
        var former = settings
        row.from(&former)
        row.to(&settings)
        let warning = settings.warnings(ofSharingSince: former.sharingFacts).first
        // These settings do not determine who shares a response.
        let isLeftOut = ["upstream.fields", "purge them", "arguments", "good"].contains { row.named?.contains($0) == true }
        guard !isLeftOut else { return #expect(warning == nil) }
        #expect((warning != nil) == (row.named != nil), "\(warning ?? "")")
    }

    @Test("another upstream causes a warning at a reload and at a start", arguments: [("", "are not used"), ("a", "are still served")])
    func upstream(_ row: (name: String, effect: String)) {
        func settings(_ host: String) -> ProxySettings {
            var settings = ProxySettings(upstream: UpstreamSettings(host: host, port: 1))
            settings.store = StoreLocation(directory: "/none", capacityBytes: 8 << 20)
            settings.apiName = row.name
            return settings
        }
        let (former, new) = (settings("a"), settings("b"))
        for warnings in [new.warningsOfNarrowing(since: former), new.warnings(ofSharingSince: former.sharingFacts)] {
            #expect(warnings.count == 1 && warnings.first?.contains("from http://a:1 to http://b:1: ") == true, "\(warnings)")
            #expect(warnings.first?.contains(row.effect) == true)
        }
        #expect(new.warnings(ofSharingSince: ["-cache.credential_fields\tcookie"]).allSatisfy { !$0.contains("upstream") })
    }

    @Test("a start with stricter settings warns once, and a start with the former ones does not", .play)
    func start() throws {
        let store = TestTools.temporaryDirectory()
        func warnings(_ change: @escaping (inout ProxySettings) -> Void) throws -> [String] {
            let location = StoreLocation(directory: store.path, capacityBytes: 8 << 20)
            var settings = ProxySettings(upstream: UpstreamSettings(host: "a", port: 1))
            settings.store = location
            change(&settings)
            return RememberedSharing(beside: location).note([settings])
        }
        #expect(try warnings { _ in }.isEmpty)
        #expect(try warnings { $0.policy.isPrivate = true }.isEmpty)
        let stricter = try warnings { $0.policy.credentials.fields.append("x-more") }
        #expect(stricter.count == 1 && stricter.first?.contains("(cache.credential_fields, cache.role)") == true)
        #expect(try warnings { $0.policy.credentials.fields.append("x-more") }.isEmpty)
        #expect(
            try warnings { $0.policy.credentials.fields += ["x-more", "x-member"] }.first?.contains("(cache.credential_fields)") == true)
    }
}
