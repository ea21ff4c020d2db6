// Settings of freshness, of all paths (`cache.…`) and of each route.

import ReverseProxy

enum FreshnessGroup {
    private static let year = 366 * 24 * 3_600_000

    static let all: [Setting<CisternSettings.Route>] = [
        Setting(
            path: "freshness.default", binding: .duration(\.freshness.standard, 0...year),
            help: "How long a response that says nothing of it counts as fresh; 0 for not at all."),
        Setting(
            path: "freshness.minimum", binding: .duration(\.freshness.minimum, 0...year),
            help:
                "Shortest freshness, also of what says nothing; not of no-cache, max-age=0 and must-revalidate, but where ignore names them."
        ),
        Setting(
            path: "freshness.maximum", binding: .duration(\.freshness.maximum, 0...year),
            help: "Longest freshness, whatever a response says; 0 for no limit."),
        Setting(
            path: "freshness.ignore", binding: .list(\.freshness.ignore),
            help:
                "Directives of responses that are ignored: no-store, no-cache, private, max-age (and s-maxage), expires, must-revalidate, vary."
        ),
        Setting(
            path: "stale_for", binding: .duration(\.freshness.staleFor, 0...year),
            help: "Maximum staleness of a response that is served while the upstream fails; 0 for no limit."),
        Setting(
            path: "stale_while_revalidate", binding: .duration(\.freshness.staleWhileRevalidate, 0...year),
            help:
                "Staleness up to which a response is served while a new one is fetched, if it has no stale-while-revalidate; 0 disables this."
        ),
        Setting(
            path: "client_directives", binding: .choice(\.rules.usesClientDirectives, [("obey", true), ("ignore", false)]),
            help:
                "Whether a client's no-cache, max-age, min-fresh and Pragma can have the upstream asked; no-store and only-if-cached always count."
        ),
        Setting(
            path: "negative", binding: .duration(\.freshness.negative, 0...year),
            help: "How long errors of the statuses below are kept, so that they are not asked for each time; 0: not."),
        Setting(
            path: "negative_statuses", binding: .list(\.freshness.negativeStatuses),
            help: "The statuses of those errors. They never replace a good response, and are never served in an outage.",
            changes: .names),
    ]
}
