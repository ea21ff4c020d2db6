// What a shard does without a client that waits for it: fetches behind responses that went out, and looks whether what fails is well again.

import Telemetry

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

    var counts: BackgroundCounts {
        BackgroundCounts(running: fetches.running, started: fetches.started, skipped: fetches.skipped, attempted: rechecks.attempted)
    }
}

/// Counts since the start, except `running`.
struct BackgroundCounts {
    var running = 0
    var started = 0
    var skipped = 0
    /// Connections tried without a request.
    var attempted = 0

    mutating func add(_ other: BackgroundCounts) {
        running += other.running
        started += other.started
        skipped += other.skipped
        attempted += other.attempted
    }

    func add(to figures: inout MetricsSnapshot.Connections) {
        figures.attempted += attempted
        figures.backgroundRunning += running
        figures.backgroundStarted += started
        figures.backgroundSkipped += skipped
    }
}
