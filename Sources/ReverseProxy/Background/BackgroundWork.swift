// Work of a shard that no client waits for: background fetches, and health checks of a failing upstream.

import Figures
import Reactor
import Upstream

/// What background work needs of its shard.
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
    /// Retained here for the lifetime of the shard.
    private let probe: ActiveProbe

    init(_ context: BackgroundContext, _ settings: ProxySettings, _ routes: Routes) {
        self.context = context
        fetches = BackgroundFetches(context, settings)
        rechecks = Rechecks(context, fetches)
        probe = ActiveProbe(context, settings, routes)
        refreshAhead = RefreshAhead(routes)
        healthChecks = UpstreamHealthChecks(context, fetches, probe: settings.background.probe.path.isEmpty ? nil : probe)
    }

    /// Starts the active probe. One shard runs it for all.
    func startProbe() { probe.start() }

    /// Starts no further work. Active fetches continue.
    func end() {
        probe.end()
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
