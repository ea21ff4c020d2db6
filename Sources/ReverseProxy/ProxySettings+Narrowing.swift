// Warnings about reloaded settings that narrow which clients may receive a response. Responses stored under the former settings are still
// served until the operator purges them.

import CachePolicy

extension ProxySettings {
    /// One sentence for each such setting.
    public func warningsOfNarrowing(since former: ProxySettings) -> [String] {
        guard store != nil, former.store != nil else { return [] }
        var changes: [String] = []
        if former.policy.isPrivate, !policy.isPrivate {
            changes.append("cache.role is no longer private: responses to one user may be served to all")
        } else if !policy.isPrivate {
            if policy.credentials.distinguishesMore(than: former.policy.credentials) {
                changes.append("there are more credentials than before: responses to requests with them may be served to others")
            }
            if policy.strictness == .rescue, !Set(former.policy.harmlessFields).isSubset(of: policy.harmlessFields) {
                changes.append("fewer fields are harmless than before: responses to requests with them may be served to others")
            }
            if isNarrowed(since: former, { $0.credentials.areIgnored }) {
                changes.append("credentials are no longer ignored: responses to one user may be served to all clients without credentials")
            }
        }
        if former.policy.setCookie == .keep, policy.setCookie != .keep {
            changes.append("cache.set_cookie is no longer keep: stored cookies are still sent")
        }
        for directive in [IgnoredDirective.noStore, .privateResponse, .vary]
        where isNarrowed(since: former, { $0.freshness.ignored.contains(directive) }) {
            changes.append("cache.freshness.ignore no longer has \(directive.rawValue): responses stored despite it are still served")
        }
        let prefix = apiName.isEmpty ? "" : "API \(apiName): "
        return changes.map { "\(prefix)\($0), until it is purged (cistern purge)" }
    }

    /// Whether the property held for some path under the former settings and does not hold any more.
    private func isNarrowed(since former: ProxySettings, _ isSo: (Route) -> Bool) -> Bool {
        func holds(_ settings: ProxySettings, on pattern: RoutePattern) -> Bool {
            isSo(settings.routes.first { $0.pattern == pattern } ?? settings.otherRoute)
        }
        let isLeft = (former.routes + routes).contains { holds(former, on: $0.pattern) && !holds(self, on: $0.pattern) }
        return isLeft || isSo(former.otherRoute) && !isSo(otherRoute)
    }
}

extension CredentialSettings {
    /// Whether requests that had equal credentials under the former settings may now differ.
    fileprivate func distinguishesMore(than former: CredentialSettings) -> Bool {
        !Set(fields).isSubset(of: former.fields) || !Set(groupFields).isSubset(of: former.groupFields)
            || !Set(cookies).isSubset(of: former.cookies) || !Set(former.ignoredCookies).isSubset(of: ignoredCookies)
    }
}
