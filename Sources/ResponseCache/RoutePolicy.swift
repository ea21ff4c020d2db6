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

    // Methods of this class that are not inlined, because the callers would copy the settings.

    @inline(never)
    func decide(_ response: ResponseHead, _ control: ResponseCacheControl, to storable: StorableRequest) -> StorageDecision {
        Storing.decide(response, control, to: storable, settings: settings)
    }

    @inline(never)
    func makeHead(_ received: ReceivedResponse) -> (bytes: [UInt8], metadata: StoredMetadata) {
        StoredHead.make(received, settings: settings)
    }

    func isShared(_ head: RequestHead, isPartitioned: Bool) -> Bool {
        Storing.isShared(head, isPartitioned: isPartitioned, settings: settings)
    }

    /// Whether an error with this status may be stored next to a good response.
    func storesError(_ status: Status) -> Bool { settings.freshness.negativeLifetime(of: status, said: nil) != nil }
}

extension RoutePolicy: PathRules {
    func stricter(_ other: RoutePolicy) -> RoutePolicy {
        RoutePolicy(settings, settings.freshness.stricter(other.settings.freshness))
    }
}
