// Counts completed exchanges: for the shard, for their route, and for their API.

import Figures

extension ShardMetrics {
    public mutating func record(_ exchange: borrowing ExchangeRecord) {
        requests[Self.position(exchange.result, exchange.method, StatusClass.index(of: exchange.status))] += 1
        durations[exchange.result.rawValue].observe(exchange.durationMicroseconds)
        if exchange.upstream.microseconds >= 0 { upstreamDuration.observe(exchange.upstream.microseconds) }
        if let age = exchange.age {
            servedAge.observe(age)
            oldestAges.note(age, exchange.result, at: exchange.wall)
        }
        responseBytes[exchange.source.rawValue] += UInt64(exchange.bodyBytes)
        if exchange.source == .store { savedBytes[exchange.result.rawValue] += UInt64(exchange.bodyBytes) }
        if let cause = exchange.rescueCause { rescued[cause] += 1 }
        if let place = exchange.reasons.sharedPermission.flatMap(MetricNames.place(of:)) { rescuedWithShared[place] += 1 }
        if let place = exchange.loggedNotStored.flatMap(MetricNames.place(of:)) {
            notStored[place] += 1
            if exchange.isServerError { errorsNotStored[place] += 1 }
        }
    }
}

extension RouteFigures {
    public func record(_ exchange: borrowing ExchangeRecord) {
        counts.requests[exchange.result.rawValue * StatusClass.count + StatusClass.index(of: exchange.status)] += 1
        counts.duration.observe(exchange.durationMicroseconds)
        if let cause = exchange.rescueCause { RouteCounts.count(cause, of: labels.rescueCauses.count, in: &counts.rescued) }
        if let place = exchange.loggedNotStored.flatMap(MetricNames.place(of:)) {
            RouteCounts.count(place, of: labels.notStored.count, in: &counts.notStored)
            if exchange.isServerError { RouteCounts.count(place, of: labels.notStored.count, in: &counts.errorsNotStored) }
        }
    }
}

extension APICounts {
    /// Counts a client's request, if there are several APIs.
    public mutating func record(_ exchange: borrowing ExchangeRecord) {
        requests[exchange.result.rawValue] += 1
        if exchange.isServerError { serverErrors += 1 }
        if let place = exchange.loggedNotStored.flatMap(MetricNames.place(of:)) {
            countNotStored(place, isServerError: exchange.isServerError, of: MetricNames.notStored.count)
        }
    }
}
