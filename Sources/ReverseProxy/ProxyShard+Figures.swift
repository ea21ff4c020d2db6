// Counters of one API on one shard, for /metrics.

import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Upstream

extension ProxyShard {
    /// Adds the counters of this API. Counters that all APIs of the shard share are added by `Shard`.
    public func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        addCounts(to: &snapshot.figures)
        snapshot.figures.add(upstream.counters)
        snapshot.figures[.upstreamWaiting] += upstream.waitingCount
        snapshot.figures[.upstreamOpen] += upstream.openConnections
        snapshot.figures[.upstreamLimit] += upstream.connectionLimit
        let busiest = upstream.busiest
        snapshot.limits.note("upstream.connections", busiest.running, of: upstream.settings.maximumConnections)
        snapshot.limits.note("upstream.queue", busiest.waiting, of: upstream.settings.queueLimit)
        background.fetches.addUse(to: &snapshot.limits)
        let tokens = coordination.keys.maker.tokenFigures
        snapshot.tokens.lookUpResults.merge(tokens.lookUpResults, uniquingKeysWith: +)
        snapshot.figures[.tokensRemembered] += tokens.remembered
    }

    private func addCounts(to figures: inout Figures) {
        messages.storedResponses.addFigures(to: &figures)
        messages.passedCodings.addFigures(to: &figures)
        background.addFigures(to: &figures)
    }

    /// Adds this API's counters to the shard's past counts when the API ends.
    func leaveCounts() {
        addCounts(to: &reporting.records.past.figures)
        reporting.records.past.figures.add(upstream.counters)
        reporting.records.past.tokenLookUps.merge(coordination.keys.maker.tokenFigures.lookUpResults, uniquingKeysWith: +)
    }
}

extension PastCounts {
    func add(to snapshot: inout MetricsSnapshot) {
        snapshot.figures.add(figures)
        snapshot.tokens.lookUpResults.merge(tokenLookUps, uniquingKeysWith: +)
    }
}
