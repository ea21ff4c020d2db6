// Settings of freshness, declared once for all paths (`cache.…`) and for each route.

extension CisternSettings {
    /// Durations are in milliseconds; 0 means unset.
    public struct Freshness: Sendable, Equatable {
        public var standard = 0
        public var minimum = 0
        public var maximum = 0
        public var ignore: [String] = []
        public var staleFor = 0
        public var staleWhileRevalidate = 0
        public var clientDirectives = "obey"
        public var negative = 0
        public var negativeStatuses = ["404", "410"]
    }
}

enum FreshnessGroup {
    private static let year = 366 * 24 * 3_600_000

    /// - Parameters:
    ///   - group: where the values are stored.
    ///   - prefix: prefix of the settings' names.
    ///   - isRoute: whether the settings belong to a route or an API and default to the setting for all paths.
    static func settings<Root>(
        _ group: WritableKeyPath<Root, CisternSettings.Freshness>, prefix: String = "", isRoute: Bool = false
    ) -> [Setting<Root>] {
        func duration(_ name: String, _ path: WritableKeyPath<CisternSettings.Freshness, Int>, _ help: String) -> Setting<Root> {
            setting(name, .duration(group.appending(path: path), 0...year), help)
        }
        func setting(_ name: String, _ binding: Setting<Root>.Binding, _ help: String, changes: ListChanges? = nil) -> Setting<Root> {
            Setting(path: prefix + name, binding: binding, help: isRoute ? "As cache.\(name)." : help, changes: changes)
        }
        return [
            duration("freshness.default", \.standard, "How long a response that says nothing of it counts as fresh; 0 for not at all."),
            duration(
                "freshness.minimum", \.minimum,
                "Shortest freshness, also of what says nothing; not of no-cache, max-age=0 and must-revalidate, but where ignore names them."
            ),
            duration("freshness.maximum", \.maximum, "Longest freshness, whatever a response says; 0 for no limit."),
            setting(
                "freshness.ignore", .list(group.appending(path: \.ignore)),
                "What responses say in vain: no-store, no-cache, private, max-age (and s-maxage), expires, must-revalidate, vary."),
            duration("stale_for", \.staleFor, "How long a stale response may stand in for a failing upstream; 0 for ever."),
            duration(
                "stale_while_revalidate", \.staleWhileRevalidate,
                "How long a stale response goes out while a new one is fetched, where it does not say so itself; 0 for not at all."),
            setting(
                "client_directives", .choice(group.appending(path: \.clientDirectives), ["obey", "ignore"]),
                "Whether a client's no-cache, max-age, min-fresh and Pragma can have the upstream asked; no-store and only-if-cached always count."
            ),
            duration(
                "negative", \.negative, "How long errors of the statuses below are kept, so that they are not asked for each time; 0: not."),
            setting(
                "negative_statuses", .list(group.appending(path: \.negativeStatuses)),
                "The statuses of those errors. They never take the place of a good response, and never stand in for a failing upstream.",
                changes: .names),
        ]
    }
}
