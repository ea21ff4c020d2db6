// The observed traffic of an API, and the settings that advice depends on.

import Advice
import CachePolicy
import HTTPCore
import Reactor
import ReverseProxy
import Upstream

extension ServedAPI {
    func observedTraffic(since: Int64) -> [ObservedSummary]? {
        state.traffic?.summaries(since: since, now: server.monotonicMilliseconds)
    }

    var advisedSettings: AdvisedSettings {
        AdvisedSettings(
            routes: state.routes.all.map { route in
                AdvisedRoute(
                    name: route.name, pattern: route.pattern.text,
                    lifetime: max(route.freshness.standard ?? 0, route.freshness.minimum ?? 0), maximum: route.freshness.maximum,
                    rescueAfter: route.rescueAfter, negative: route.freshness.negative,
                    ignoredArguments: route.arguments.ignore.map { PercentCoding.decode($0.text.utf8, plusIsSpace: false) ?? $0.text },
                    omitsArguments: !route.arguments.only.isEmpty || !route.arguments.drop.isEmpty,
                    ignoredDirectives: route.freshness.ignored.map(\.rawValue).sorted())
            }, firstByteTimeout: state.settings.upstream.firstByteTimeout.wholeMilliseconds)
    }
}
