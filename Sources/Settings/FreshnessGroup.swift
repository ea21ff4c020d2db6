// Settings of freshness, of all paths (`cache.…`) and of each route.

import ReverseProxy

enum FreshnessGroup {
    private static let year = 366 * 24 * 3_600_000

    static let all: [Setting<CisternSettings.Route>] = [
        Setting(
            path: "freshness.default", binding: .duration(\.freshness.standard, 0...year),
            help: "Freshness lifetime of responses without one. 0: they are stale at once."),
        Setting(
            path: "freshness.minimum", binding: .duration(\.freshness.minimum, 0...year),
            help:
                "Minimum freshness lifetime, also of responses without one. It does not apply to no-cache, max-age=0 and must-revalidate, unless freshness.ignore names them."
        ),
        Setting(
            path: "freshness.maximum", binding: .duration(\.freshness.maximum, 0...year),
            help: "Maximum freshness lifetime, regardless of the response. 0 for no limit."),
        Setting(
            path: "freshness.ignore", binding: .list(\.freshness.ignore),
            help:
                "Response directives to ignore: no-store, no-cache, private, max-age (and s-maxage), expires, must-revalidate, vary."
        ),
        Setting(
            path: "stale_for", binding: .duration(\.freshness.staleFor, 0...year),
            help:
                "Maximum staleness of a response that is served while the upstream fails, or because of a client's max-stale; 0 for no limit."
        ),
        Setting(
            path: "stale_while_revalidate", binding: .duration(\.freshness.staleWhileRevalidate, 0...year),
            help:
                "Maximum staleness of a response that is served during a background refresh, if it has no stale-while-revalidate. 0 disables this."
        ),
        Setting(
            path: "client_directives", binding: .choice(\.rules.usesClientDirectives, [("obey", true), ("ignore", false)]),
            help:
                "Whether a client's no-cache, max-age, min-fresh and Pragma cause a request to the upstream. no-store and only-if-cached always apply."
        ),
        Setting(
            path: "negative", binding: .duration(\.freshness.negative, 0...year),
            help: "How long errors with a status of negative_statuses are served from the cache. 0 disables this."),
        Setting(
            path: "negative_statuses", binding: .list(\.freshness.negativeStatuses),
            help: "Statuses of errors that negative applies to. They never replace a good response, and are never served in an outage.",
            changes: .names),
    ]
}
