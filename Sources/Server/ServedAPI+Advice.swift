// The observed traffic of an API, and the settings that advice depends on.

import Advice
import CachePolicy
import ReverseProxy
import Upstream

extension ServedAPI {
    func observedTraffic(since: Int64) -> [ObservedSummary]? {
        state.traffic?.summaries(since: since, now: server.monotonicMilliseconds)
    }

    var advisedSettings: AdvisedSettings {
        let timeout = state.settings.upstream.firstByteTimeout.components
        return AdvisedSettings(
            routes: state.routes.all.map { route in
                AdvisedRoute(
                    name: route.name, pattern: route.pattern.text, lifetime: route.freshness.standard, rescueAfter: route.rescueAfter,
                    negative: route.freshness.negative, ignoredArguments: route.arguments.ignore.map(\.text),
                    ignoredDirectives: route.freshness.ignored.map(\.rawValue).sorted())
            }, firstByteTimeout: timeout.seconds * 1_000 + timeout.attoseconds / 1_000_000_000_000_000)
    }
}
