// Work of a shard that no client waits for: background fetches, and health checks of a failing upstream.

import Figures

/// Used on its shard's loop only.
final class BackgroundWork {
    let fetches: BackgroundFetches
    let rechecks: Rechecks
    let looks: UpstreamLooks
    /// Retained here for the lifetime of the shard.
    private let probe: ActiveProbe

    init(shard: ProxyShard) {
        fetches = BackgroundFetches(shard: shard)
        rechecks = Rechecks(shard: shard)
        probe = ActiveProbe(shard: shard)
        looks = UpstreamLooks(shard: shard, probe: probe)
    }

    /// Starts the active probe. One shard runs it for all.
    func startProbe() { probe.start() }

    /// Starts no further work. Active fetches continue.
    func end() {
        probe.end()
        rechecks.end()
        looks.end()
    }

    func addFigures(to figures: inout Figures) {
        figures[.backgroundRunning] += fetches.running
        figures[.backgroundStarted] += fetches.started
        figures[.backgroundSkipped] += fetches.skipped
        figures[.connectionAttempts] += rechecks.attempted
    }
}
