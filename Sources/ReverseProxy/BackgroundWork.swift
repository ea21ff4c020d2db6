// What a shard does without a client that waits for it: fetches behind responses that went out, and looks whether what fails is well again.

import Figures

/// Touched on its shard's loop only.
final class BackgroundWork {
    let fetches: BackgroundFetches
    let rechecks: Rechecks
    let looks: UpstreamLooks
    /// Held here for as long as the shard is.
    private let probe: ActiveProbe

    init(shard: ProxyShard) {
        fetches = BackgroundFetches(shard: shard)
        rechecks = Rechecks(shard: shard)
        probe = ActiveProbe(shard: shard)
        looks = UpstreamLooks(shard: shard, probe: probe)
    }

    /// Looks after the upstream without clients; one shard does it for all.
    func startProbe() { probe.start() }

    /// What has begun goes on.
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
