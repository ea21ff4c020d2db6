// The storing rules for a path, combined once, because combining them for each response would cost more than applying them.

import CachePolicy
import HTTPCore

/// A class, so that passing the rules along copies nothing.
final class RoutePolicy: Sendable {
    let settings: CachePolicySettings

    init(_ settings: CachePolicySettings, _ freshness: FreshnessRules) {
        var settings = settings
        settings.freshness = freshness
        self.settings = settings
    }
}

extension RoutePolicy: PathRules {
    func stricter(_ other: RoutePolicy) -> RoutePolicy {
        RoutePolicy(settings, settings.freshness.stricter(other.settings.freshness))
    }
}
