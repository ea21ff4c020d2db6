// What has been counted by those that are served no more: the page at /metrics goes on from there. Only what is here outlasts a reload.

import Figures
import Telemetry

struct PastFigures: Sendable {
    /// How often scopes were found failing.
    var failures = MetricsSnapshot.Failures()
    var figures = Figures()
    /// By what became of what says that a copy is gone.
    var gone: [String: UInt64] = [:]
    /// How often the upstream was asked whom credentials belong to, by what that came to.
    var lookUps: [String: UInt64] = [:]
}

extension MetricsSnapshot {
    /// Before those that are served now are added.
    mutating func addPast(_ past: PastFigures) {
        for (event, count) in past.gone.sorted(by: { $0.key < $1.key }) { addGone(event, count) }
        tokens.lookUps.merge(past.lookUps, uniquingKeysWith: +)
        failures.scopes = past.failures.scopes
        figures.add(past.figures)
    }
}
