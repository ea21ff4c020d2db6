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

    /// Decides whether a response may be stored (RFC 9111 §3).
    func decide(_ response: ResponseHead, _ control: ResponseCacheControl, to request: StorableRequest) -> StorageDecision {
        Storing.decide(response, control, to: request, settings: settings)
    }
}

extension RoutePolicy: PathRules {
    func stricter(_ other: RoutePolicy) -> RoutePolicy {
        RoutePolicy(settings, settings.freshness.stricter(other.settings.freshness))
    }
}
