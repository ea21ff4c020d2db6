// Counts of APIs, and of an access log, that a reload has replaced. The page at /metrics adds them, so counters do not decrease.

import Figures

struct ReplacedFigures: Sendable {
    /// Number of times that scopes opened in the failure memory.
    var failures = MetricsSnapshot.Failures()
    var figures = Figures()
    /// Number of responses that report a deleted resource, by outcome.
    var gone: [String: UInt64] = [:]
    /// Number of identity lookups at the upstream, by result.
    var lookUps: [String: UInt64] = [:]
}

extension MetricsSnapshot {
    /// Adds past counts. Called before the current counts are added.
    mutating func addPast(_ past: ReplacedFigures) {
        for (event, count) in past.gone.sorted(by: { $0.key < $1.key }) { addGone(event, count) }
        tokens.lookUps.merge(past.lookUps, uniquingKeysWith: +)
        failures.scopes = past.failures.scopes
        figures.add(past.figures)
    }
}
