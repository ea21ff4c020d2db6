// Work of a shard for which no client waits: background fetches, and health checks of a failing upstream.

import Figures
import Reactor
import Upstream

/// Dependencies of background work on its shard.
struct BackgroundContext {
    let loop: EventLoop
    let upstream: UpstreamClient
    let coordination: Coordination
    let reporting: Reporting
    let requests: UpstreamRequests
}

/// Used on its shard's loop only.
final class BackgroundWork {
    let context: BackgroundContext
    let fetches: BackgroundFetches
    let rechecks: Rechecks
    let healthChecks: UpstreamHealthChecks
    /// nil if no route refreshes ahead.
    var refreshAhead: RefreshAhead?
    /// nil if its path is empty. One shard starts it for all shards.
    let probe: ActiveProbe?

    init(_ context: BackgroundContext, _ settings: ProxySettings, _ routes: Routes) {
        self.context = context
        fetches = BackgroundFetches(context, settings)
        rechecks = Rechecks(context, fetches)
        probe = settings.background.probe.path.isEmpty ? nil : ActiveProbe(context, settings, routes)
        refreshAhead = RefreshAhead(routes)
        healthChecks = UpstreamHealthChecks(context, fetches, probe: probe)
    }

    /// Starts no more background work. Active fetches continue.
    func end() {
        probe?.end()
        rechecks.end()
        healthChecks.end()
    }

    func addFigures(to figures: inout Figures) {
        figures[.backgroundRunning] += fetches.running
        figures[.backgroundStarted] += fetches.started
        figures[.backgroundSkipped] += fetches.skipped
        figures[.connectionAttempts] += rechecks.attempted
    }
}
