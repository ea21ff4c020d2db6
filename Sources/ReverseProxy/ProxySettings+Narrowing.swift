// Warnings about reloaded settings that narrow which clients may receive a response, or that may change what the upstream responds.
// Responses stored under the former settings are still served until the operator purges them.

import CachePolicy

extension ProxySettings {
    /// Returns one sentence for each such setting.
    public func warningsOfNarrowing(since former: ProxySettings) -> [String] {
        guard store != nil, former.store != nil else { return [] }
        let pairs = pairs(since: former)
        var changes: [String] = []
        if former.policy.isPrivate, !policy.isPrivate {
            changes.append("cache.role is no longer private: responses to one user may be served to all")
        } else if !policy.isPrivate {
            if policy.credentials.distinguishesMore(than: former.policy.credentials) {
                changes.append(
                    "more fields or cookies count as credentials than before: stored responses to requests with them may be "
                        + "served to other users")
            }
            if policy.strictness == .rescue, !Set(former.policy.harmlessFields).isSubset(of: policy.harmlessFields) {
                changes.append(
                    "fewer request fields are harmless than before: stored responses to requests with them may be served to "
                        + "other users")
            }
            if pairs.areNarrowed({ $0.credentials.areIgnored }) {
                changes.append(
                    "credentials are no longer ignored: stored responses to one user may be served to all clients without "
                        + "credentials")
            }
        }
        if former.policy.setCookie == .keep, policy.setCookie != .keep {
            changes.append("cache.set_cookie is no longer keep: stored Set-Cookie fields are still sent to clients")
        }
        for directive in [IgnoredDirective.noStore, .privateResponse, .vary]
        where pairs.areNarrowed({ $0.freshness.ignored.contains(directive) }) {
            changes.append("cache.freshness.ignore no longer has \(directive.rawValue): responses stored despite it are still served")
        }
        if pairs.contains(where: { $0.hasChanged(\.arguments) }) {
            changes.append("arguments have changed: stored responses may be served to requests with other arguments")
        }
        if pairs.contains(where: { $0.demandsOther(\.good) || $0.demandsOther(\.kept) }) {
            changes.append("good or keep_if has changed: stored responses that do not meet it are still served")
        }
        let sentences =
            changes.map { "\($0), until they are purged (cistern purge)" } + fieldsWarnings(pairs)
            + upstreamWarnings(since: former.upstreamText)
        return sentences.map(inAPI)
    }

    private func inAPI(_ sentence: String) -> String { apiName.isEmpty ? sentence : "API \(apiName): \(sentence)" }

    private var upstreamText: String { String(decoding: upstreamOrigin.bytes + upstreamOrigin.basePath, as: UTF8.self) }

    /// The cache keys of an API contain its name. Without a name, they contain the upstream.
    private func upstreamWarnings(since former: String) -> [String] {
        guard upstreamText != former else { return [] }
        let effect =
            apiName.isEmpty
            ? "responses of \(former) are not used while this upstream is set, not even in an outage"
            : "responses of the former upstream are still served, until they are purged (cistern purge --all --api \(apiName))"
        return ["the upstream has changed from \(former) to \(upstreamText): \(effect)"]
    }

    /// A key of another account may yield other responses. A renewed key of one account does not, so nothing is purged.
    private func fieldsWarnings(_ pairs: [RoutePair]) -> [String] {
        let changed = pairs.filter { $0.hasChanged(\.upstreamFields) }.map(\.pattern)
        guard !changed.isEmpty else { return [] }
        let selections = changed.contains(nil) ? ["--all"] : Set(changed.compactMap(\.self)).sorted().map { "--matching '\($0)'" }
        let commands = selections.map { "cistern purge \($0)" + (apiName.isEmpty ? "" : " --api \(apiName)") }
        return [
            "upstream.fields has changed: responses fetched with the former fields are kept. If the new ones belong to another account or "
                + "tenant, purge them: \(commands.joined(separator: "; "))"
        ]
    }

    /// The rules before and now of all patterns of routes, and of other paths.
    private func pairs(since former: ProxySettings) -> [RoutePair] {
        let rules = [former, self].map { Dictionary($0.routes.map { ($0.pattern.text, $0) }) { first, _ in first } }
        let ofRoutes = (former.routes + routes).map { route in
            let text = route.pattern.text
            return RoutePair(before: rules[0][text] ?? former.otherRoute, now: rules[1][text] ?? otherRoute, pattern: text)
        }
        return ofRoutes + [RoutePair(before: former.otherRoute, now: otherRoute, pattern: nil)]
    }
}

private struct RoutePair {
    let before: Route
    let now: Route
    /// nil for paths without a route.
    let pattern: String?

    /// Whether responses must meet other requirements than before.
    func demandsOther(_ rule: (Route) -> GoodResponse) -> Bool { hasChanged(rule) && rule(now) != GoodResponse() }

    func hasChanged(_ rule: (Route) -> some Equatable) -> Bool { rule(before) != rule(now) }
}

extension [RoutePair] {
    /// Whether the property held for some path under the earlier settings and no longer holds.
    fileprivate func areNarrowed(_ isSo: (Route) -> Bool) -> Bool { contains { isSo($0.before) && !isSo($0.now) } }
}

extension CredentialSettings {
    /// Whether requests that had equal credentials under the earlier settings may differ now.
    fileprivate func distinguishesMore(than former: CredentialSettings) -> Bool {
        !Set(fields).isSubset(of: former.fields) || !Set(groupFields).isSubset(of: former.groupFields)
            || !Set(cookies).isSubset(of: former.cookies) || !Set(former.ignoredCookies).isSubset(of: ignoredCookies)
    }
}

// MARK: - Starts

extension ProxySettings {
    /// The settings that determine which clients share responses: the name of a setting, a tab, and a value in each text. A `+` at the
    /// beginning lets more clients share responses, a `-` fewer, and a `=` neither.
    public var sharingFacts: Set<String> {
        var facts: Set<String> = [Self.upstreamFact + upstreamText]
        if policy.strictness != .rescue { facts.insert("+cache.policy\tnot rescue") }
        if policy.isPrivate { facts.insert("+cache.role\tprivate") }
        if policy.setCookie == .keep { facts.insert("+cache.set_cookie\tkeep") }
        for route in routes + [otherRoute] {
            let pattern = route.pattern.text
            facts.insert("\(route.credentials.areIgnored ? "+" : "-")credentials\t\(pattern)")
            for directive in [IgnoredDirective.noStore, .privateResponse, .vary] where route.freshness.ignored.contains(directive) {
                facts.insert("+freshness.ignore\t\(directive.rawValue) \(pattern)")
            }
        }
        let credentials = policy.credentials
        facts.formUnion((credentials.fields + credentials.groupFields.map { "group \($0)" }).map { "-cache.credential_fields\t\($0)" })
        facts.formUnion(credentials.cookies.map { "-cache.credential_cookies\t\($0)" })
        facts.formUnion(credentials.ignoredCookies.map { "+cache.ignored_cookies\t\($0)" })
        if policy.strictness == .rescue { facts.formUnion(policy.harmlessFields.map { "+cache.harmless_fields\t\($0)" }) }
        return Set(facts.map { $0.replacing("\n", with: "?") })
    }

    private static let upstreamFact = "=upstream\t"

    /// Returns warnings about settings that separate more clients than before, and about a changed upstream.
    /// - Parameter former: `sharingFacts` of the settings with which responses were stored.
    public func warnings(ofSharingSince former: Set<String>) -> [String] {
        let upstream = former.first { $0.hasPrefix(Self.upstreamFact) }.map { String($0.dropFirst(Self.upstreamFact.count)) }
        let warnings = [narrowingWarning(since: former)].compactMap(\.self) + upstreamWarnings(since: upstream ?? upstreamText)
        return warnings.map(inAPI)
    }

    private func narrowingWarning(since former: Set<String>) -> String? {
        let now = sharingFacts
        let ignored = former.filter { $0.hasPrefix("+credentials\t") }.map { RoutePattern(String($0.dropFirst("+credentials\t".count))) }
        let narrowed =
            former.subtracting(now).filter { $0.hasPrefix("+") }
            + now.subtracting(former).filter { fact in
                guard fact.hasPrefix("-credentials\t") else { return fact.hasPrefix("-") }
                // An exception to a path with ignored credentials.
                let path = Array(fact.dropFirst("-credentials\t".count).utf8)
                return ignored.contains { $0.matches(path[...]) }
            }
        var names = Set(narrowed.map { String($0.dropFirst().prefix { $0 != "\t" }) })
        if policy.strictness != .rescue { names.remove("cache.harmless_fields") }
        // A private cache has no partitions.
        if policy.isPrivate { names.formIntersection(["cache.set_cookie", "freshness.ignore"]) }
        guard !names.isEmpty else { return nil }
        return "changed settings separate more clients than when responses were stored (\(names.sorted().joined(separator: ", "))): "
            + "these responses may be served to other users, until they are purged (cistern purge)"
    }
}
