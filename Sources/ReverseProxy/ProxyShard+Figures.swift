// The part of one API on a shard in the page at /metrics.

import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Upstream

extension ProxyShard {
    /// Adds the counters of this API. The counters that all APIs of the shard share are added elsewhere.
    public func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        addCounts(to: &snapshot.figures)
        snapshot.add(upstream.counters)
        snapshot.figures[.upstreamWaiting] += upstream.waitingCount
        snapshot.figures[.upstreamOpen] += upstream.openConnections
        snapshot.figures[.upstreamLimit] += upstream.connectionLimit
        let busiest = upstream.busiest
        snapshot.limits.note("upstream.connections", busiest.running, of: upstream.settings.maximumConnections)
        snapshot.limits.note("upstream.queue", busiest.waiting, of: upstream.settings.queueLimit)
        background.fetches.addUse(to: &snapshot.limits)
        let tokens = coordination.keys.maker.tokenFigures
        snapshot.tokens.looked.merge(tokens.looked, uniquingKeysWith: +)
        snapshot.figures[.tokensRemembered] += tokens.remembered
    }

    private func addCounts(to figures: inout Figures) {
        messages.storedResponses.addFigures(to: &figures)
        messages.passedCodings.addFigures(to: &figures)
        background.addFigures(to: &figures)
    }

    /// Adds this API's counters to the shard's past counts when the API ends.
    func leaveCounts() {
        addCounts(to: &reporting.records.past.upstream.figures)
        reporting.records.past.upstream.add(upstream.counters)
        reporting.records.past.tokensLooked.merge(coordination.keys.maker.tokenFigures.looked, uniquingKeysWith: +)
    }
}

extension PastCounts {
    func add(to snapshot: inout MetricsSnapshot) {
        snapshot.add(upstream)
        snapshot.tokens.looked.merge(tokensLooked, uniquingKeysWith: +)
    }
}

extension MetricsSnapshot {
    fileprivate mutating func add(_ counters: UpstreamCounters) {
        if faults.isEmpty { faults = InjectedFault.kinds.map { ($0, 0) } }
        for (place, count) in counters.faults.enumerated() { faults[place].count += UInt64(count) }
        figures.add(counters.figures)
        for cause in ConnectionEnd.allCases { upstreamEnded[cause.rawValue, default: 0] += counters.ended[cause] ?? 0 }
        for end in HTTP2ExchangeEnd.allCases { upstreamHTTP2Ended[end.rawValue, default: 0] += counters.http2Ended[end] ?? 0 }
    }
}
