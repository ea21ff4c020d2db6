// The rules of keeping for each path, put together once: for each response that would cost more than to follow them.

import CachePolicy
import HTTPCore

/// Those of one route. A class, so that handing them on copies nothing.
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

struct RoutePolicies: Sendable {
    private let exceptions: [(pattern: RoutePattern, policy: RoutePolicy)]
    private let rest: RoutePolicy

    init(_ settings: CachePolicySettings, _ freshness: PathTable<FreshnessRules>) {
        exceptions = freshness.exceptions.map { ($0.pattern, RoutePolicy(settings, $0.rules)) }
        rest = RoutePolicy(settings, freshness.rest)
    }

    func policy(for head: RequestHead) -> RoutePolicy {
        guard !exceptions.isEmpty else { return rest }
        let target = head.pathAndQuery
        return exceptions.first { $0.pattern.matches(target) }?.policy ?? rest
    }
}
