// Tests the warnings of a reload with rules that give fewer clients access to stored responses.

import Administration
import CachePolicy
import CacheStore
import ResponseCache
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

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

    static let rows = [
        Row("nothing is new", { _ in }, nil),
        Row("credentials were ignored", { $0.otherRoute.credentials.areIgnored = true }, "credentials are no longer ignored"),
        Row("they are now", to: { $0.otherRoute.credentials.areIgnored = true }, nil),
        Row("they were on a route", { $0.routes = [route("/a", ignoring: true)] }, "credentials are no longer ignored"),
        Row(
            "they were on a route, and are by another name", { $0.routes = [route("/a", ignoring: true)] },
            to: {
                $0.routes = [route("/a", ignoring: true)]
                $0.routes[0].name = "s"
            }, nil),
        Row(
            "they were on all paths, and are on all but one", { $0.otherRoute.credentials.areIgnored = true },
            to: {
                $0.otherRoute.credentials.areIgnored = true
                $0.routes = [route("/a", ignoring: false)]
            }, "credentials are no longer ignored"),
        Row("one user's own cache is for all", { $0.policy.isPrivate = true }, "cache.role"),
        Row("one for all is one user's own", to: { $0.policy.isPrivate = true }, nil),
        Row("cookies were kept", { $0.policy.setCookie = .keep }, "cache.set_cookie"),
        Row("cookies are kept", to: { $0.policy.setCookie = .keep }, nil),
        Row("private was ignored", { $0.otherRoute.freshness.ignored = [.privateResponse] }, "ignore no longer has private"),
        Row("no-cache was ignored", { $0.otherRoute.freshness.ignored = [.noCache] }, nil),
        Row("a credential field more", to: { $0.policy.credentials.fields.append("x-more") }, "more credentials"),
        Row("one less", { $0.policy.credentials.fields.append("x-more") }, nil),
        Row("a cookie more", { $0.policy.credentials.cookies = ["sid"] }, "more credentials"),
        Row("a field is not harmless any more", { $0.policy.harmlessFields.append("x-more") }, "fewer fields are harmless"),
        Row("one more is", to: { $0.policy.harmlessFields.append("x-more") }, nil),
        Row("a cookie is not ignored any more", { $0.policy.credentials.ignoredCookies.append("lang") }, "more credentials"),
    ]

    @Test("a reload warns about a narrowed rule", .play)
    func told() throws {
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
}
