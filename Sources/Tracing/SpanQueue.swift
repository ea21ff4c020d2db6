// The queue of spans to be sent, and the decision after each attempt to send a batch. Pure.

import Figures
import JSON
import OwnRequests

/// A bounded queue. Spans that do not fit are dropped.
struct SpanQueue {
    /// Maximum number of waiting spans, and size of a batch.
    static let limit = 2_048
    static let batch = 512

    private var spans: [TraceSpan] = []

    var count: Int { spans.count }

    enum Place: Equatable { case queued, completesBatch, dropped }

    mutating func append(_ span: TraceSpan) -> Place {
        guard spans.count < Self.limit else { return .dropped }
        spans.append(span)
        return spans.count % Self.batch == 0 ? .completesBatch : .queued
    }

    /// Removes and returns the oldest spans.
    mutating func take() -> [TraceSpan] {
        let taken = Array(spans.prefix(Self.batch))
        spans.removeFirst(taken.count)
        return taken
    }
}

/// The next step for a batch (OpenTelemetry protocol, "OTLP/HTTP Response" and "Connection").
enum Delivery: Equatable {
    case done(rejected: Int)
    case again(afterMilliseconds: Int)
    case lost(SpanLoss)

    /// Maximum number of attempts.
    static let attempts = 5
    private static let retried: Set = [429, 502, 503, 504]
    private static let longestPauseMilliseconds = 60_000

    /// - Parameters:
    ///   - attempt: 1 for the first.
    ///   - pause: milliseconds before the second attempt, if the endpoint specifies none.
    init(_ result: OwnRequest.Outcome, attempt: Int, pause: Int, of count: Int) {
        var wait = min(pause << (attempt - 1), Self.longestPauseMilliseconds)
        switch result {
        case .answered(let status, _, let content) where (200..<300).contains(status):
            // Only the number of rejected spans is needed, so longer responses are not read.
            self = .done(rejected: content.map { min(max(0, Self.rejected(in: $0)), count) } ?? 0)
            return
        case .answered(let status, _, _) where !Self.retried.contains(status):
            // Another attempt would not succeed either.
            self = .lost(.rejected)
            return
        case .answered(_, let retryAfter, _):
            if let retryAfter { wait = min(max(0, retryAfter), Self.longestPauseMilliseconds / 1_000) * 1_000 }
        case .failed: break
        }
        self = attempt < Self.attempts ? .again(afterMilliseconds: wait) : .lost(.undelivered)
    }

    /// Returns the number of rejected spans in an ExportTraceServiceResponse.
    static func rejected(in response: [UInt8]) -> Int {
        guard let count = JSONValue(response)?["partialSuccess"]?["rejectedSpans"] else { return 0 }
        return count.integer ?? count.string.flatMap { Int($0) } ?? 0
    }
}
