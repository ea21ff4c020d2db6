// Counters of spans for the page at /metrics.

import Figures
import ReverseProxy
import Tracing

extension MetricsSnapshot.Tracing {
    /// nil if tracing is off and no span was ever counted.
    init?(_ process: ProcessState) {
        let figures = process.spanCounts.figures
        guard process.spans != nil || figures.exported > 0 || !figures.lost.isEmpty || figures.failures > 0 else { return nil }
        self.init()
        (exported, failures, overLimit) = (figures.exported, figures.failures, figures.overLimit)
        dropped = SpanLoss.allCases.map { ($0.rawValue, figures.lost[$0] ?? 0) }
    }
}
