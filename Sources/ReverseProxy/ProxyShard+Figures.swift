// What a shard counts, and what of it goes to the page at /metrics.

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
    /// Adds this shard's counts to those of the others.
    package func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        snapshot.shards.merge(records.metrics)
        snapshot.loops.append(
            MetricsSnapshot.LoopLine(
                shard: number, longestWait: loop.waits.longestLately(now: loop.batchMicroseconds), waits: Histogram(loop.waits),
                workers: [("content", workers.content), ("gzip", workers.gzip)].map { ($0, $1.queue.count, $1.queue.bytes) }))
        messages.storedResponses.addFigures(to: &snapshot.shards.coding)
        messages.passedCodings.addFigures(to: &snapshot.shards.coding)
        addClients(to: &snapshot.connections)
        addHandshakes(to: &snapshot.clientTLS)
        addUpstream(to: &snapshot.connections)
        addFaults(to: &snapshot)
        background.addFigures(to: &snapshot.connections)
        let tokens = keys.maker.tokenFigures
        snapshot.tokens.looked.merge(tokens.looked, uniquingKeysWith: +)
        snapshot.tokens.remembered += tokens.remembered
    }

    private func addClients(to figures: inout MetricsSnapshot.Connections) {
        let counters = connections.counters
        figures.open += counters.open
        figures.accepted += counters.accepted
        figures.timedOut += counters.timedOut
        figures.proxyHeadersRefused += counters.proxyHeadersRefused
        figures.acceptPauses += counters.acceptPauses
        figures.http2Connections += counters.http2.connections
        figures.http2Streams += counters.http2.streams
        figures.http2Resets += counters.http2.resets
        figures.http2Errors += counters.http2.connectionErrors
        figures.http2Floods += counters.http2.floods
    }

    private func addHandshakes(to figures: inout MetricsSnapshot.ClientTLS) {
        guard let counters = connections.tls?.counters else { return }
        figures.isSpoken = true
        figures.running += counters.running
        figures.full += counters.full
        figures.resumed += counters.resumed
        for (failure, count) in zip(HandshakeFailure.allCases, counters.failed) { figures.failed[failure.rawValue, default: 0] += count }
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
        figures.upstreamTurnedAway += counters.turnedAway
        figures.upstreamWaiting += upstream.waitingCount
        figures.upstreamLeftQueue += counters.leftQueue
        figures.streams += counters.streams
        figures.streamsBegun += counters.streamsBegun
        figures.streamsTurnedAway += counters.streamsTurnedAway
    }

    // MARK: Counting

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

extension Histogram {
    /// How long events waited, in microseconds; the bounds are powers of two.
    fileprivate init(_ waits: LoopWaits) {
        let last = LoopWaits.buckets - 1
        self.init(bounds: (0..<last).map { Int64(1) << Int64($0) }, counts: (0...last).map { waits.counts[$0] }, sum: waits.sum)
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
