// The rules of keeping for a path, put together once: for each response that would cost more than to follow them.

import CachePolicy
import HTTPCore

/// A class, so that handing them on copies nothing.
final class RoutePolicy: Sendable {
    let settings: CachePolicySettings

    init(_ settings: CachePolicySettings, _ freshness: FreshnessRules) {
        var settings = settings
        settings.freshness = freshness
        self.settings = settings
    }

    /// RFC 9111 §3.
    func decide(_ response: ResponseHead, _ control: ResponseCacheControl, to request: StorableRequest) -> StorageDecision {
        Storing.decide(response, control, to: request, settings: settings)
    }
}

extension RoutePolicy: PathRules {
    func stricter(_ other: RoutePolicy) -> RoutePolicy {
        RoutePolicy(settings, settings.freshness.stricter(other.settings.freshness))
    }
}
