// What is counted of one API on a shard, and what of it goes to the page at /metrics.

import Coordination
import Downstream
import Explanation
import FaultInjection
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Telemetry
import Upstream

extension ProxyShard {
    /// Adds what is counted here, beside what all APIs of the shard have in common.
    package func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        messages.storedResponses.addFigures(to: &snapshot.shards.coding)
        messages.passedCodings.addFigures(to: &snapshot.shards.coding)
        addUpstream(to: &snapshot.connections)
        addFaults(to: &snapshot)
        background.addFigures(to: &snapshot.connections)
        let tokens = keys.maker.tokenFigures
        snapshot.tokens.looked.merge(tokens.looked, uniquingKeysWith: +)
        snapshot.tokens.remembered += tokens.remembered
    }

    private func addFaults(to snapshot: inout MetricsSnapshot) {
        if snapshot.faults.isEmpty { snapshot.faults = InjectedFault.kinds.map { ($0, 0) } }
        for (place, count) in upstream.counters.faults.enumerated() { snapshot.faults[place].count += UInt64(count) }
    }

    private func addUpstream(to figures: inout MetricsSnapshot.Connections) {
        let counters = upstream.counters
        figures.upstreamActive += counters.active
        figures.upstreamOpened += counters.connectionsOpened
        figures.upstreamRequests += counters.requests
        figures.handshakesFull += counters.handshakesFull
        figures.handshakesResumed += counters.handshakesResumed
        for cause in ConnectionEnd.allCases { figures.upstreamEnded[cause.rawValue, default: 0] += counters.ended[cause] ?? 0 }
        figures.upstreamHTTP2Opened += counters.http2Connections
        figures.upstreamHTTP2Streams += counters.http2Exchanges
        for end in HTTP2ExchangeEnd.allCases { figures.upstreamHTTP2Ended[end.rawValue, default: 0] += counters.http2Ended[end] ?? 0 }
        figures.upstreamRetries += counters.retries
        figures.upstreamMovedOn += counters.movedOn
        figures.upstreamTurnedAway += counters.turnedAway
        figures.upstreamWaiting += upstream.waitingCount
        figures.upstreamLeftQueue += counters.leftQueue
        figures.streams += counters.streams
        figures.streamsBegun += counters.streamsBegun
        figures.streamsTurnedAway += counters.streamsTurnedAway
    }

    // MARK: Counting

    /// For one of several.
    func countOfAPI(_ result: CacheResult) { records.apis[Int(shared.place)].counts[result.rawValue] += 1 }

    func countRepeated() { records.metrics.repeated += 1 }

    func countIgnoredDirectives() { records.metrics.ignoredDirectives += 1 }

    func countCarriedGrant() { records.metrics.carriedGrants += 1 }

    func countCompressed() { records.metrics.coding.whole += 1 }

    func countRefused(_ refusal: AccessRefusal) {
        if let place = MetricNames.place(of: refusal) { records.metrics.refuse(place) }
    }

    func countStored() { records.metrics.stored += 1 }

    func countExaminedBeside() { records.metrics.examinedBeside += 1 }

    /// Only counted: whoever watches us is not in the access log.
    package func countOwnPage(_ method: MethodLabel, _ status: Status) {
        var record = ExchangeRecord(result: .own, method: method, status: status.rawValue)
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - loop.batchMicroseconds
        records.metrics.record(record)
    }

    func countRequestBytes(_ count: Int) { records.metrics.requestBytes += UInt64(count) }

    func countContent(_ outcome: ContentOutcome) { records.metrics.countContent(MetricNames.contentOutcomes.firstIndex(of: outcome) ?? 0) }

    func countUpstreamError(_ error: UpstreamError) {
        records.metrics.upstreamFailed(MetricNames.upstreamErrors.firstIndex { $0.rawValue == error.rawValue } ?? 0)
    }
}

extension MethodLabel {
    package init(_ method: Method) {
        self =
            switch method {
            case .get: .get
            case .head: .head
            case .post: .post
            case .put: .put
            case .patch: .patch
            case .delete: .delete
            case .options: .options
            case .query: .query
            case .connect, .trace, .other: .other
            }
    }
}
