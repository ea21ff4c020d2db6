// Counts completed exchanges: for the process, for their route, and for their API.

import Figures

extension LabelledFigures {
    public mutating func record(_ exchange: borrowing ExchangeRecord) {
        count(.requests, RequestLabels.index(exchange.result, exchange.method, StatusClass.index(of: exchange.status)))
        observe(.requestDuration, exchange.result.rawValue, exchange.durationMicroseconds)
        if exchange.upstream.microseconds >= 0 { observe(.upstreamDuration, 0, exchange.upstream.microseconds) }
        if let age = exchange.age { observe(.servedAge, 0, age) }
        count(.responseBytes, exchange.source.rawValue, by: UInt64(exchange.bodyBytes))
        if exchange.source == .store { count(.savedBytes, exchange.result.rawValue, by: UInt64(exchange.bodyBytes)) }
        if let cause = exchange.rescueCause { count(.rescued, cause) }
        if exchange.result == .rescued, let permission = exchange.reasons.sharedRescuePermission {
            count(.rescuedWithShared, of: permission)
        }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.notStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }

    public mutating func recordOfRoute(_ exchange: borrowing ExchangeRecord) {
        count(.routeRequests, RequestLabels.index(exchange.result, StatusClass.index(of: exchange.status)))
        observe(.routeDuration, 0, exchange.durationMicroseconds)
        if let cause = exchange.rescueCause { count(.routeRescued, cause) }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.routeNotStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }

    /// Counts a client's request, if there are several APIs.
    public mutating func recordOfAPI(_ exchange: borrowing ExchangeRecord) {
        count(.apiRequests, exchange.result.rawValue)
        if exchange.isServerError { count(.apiServerErrors) }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.notStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }
}
