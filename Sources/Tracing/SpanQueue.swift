// Spans that wait to be sent, and what becomes of those that were. Pure.

/// Bounded: what does not fit is dropped, since nobody waits for a collector.
struct SpanQueue {
    /// What may wait, and what is sent at once.
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

    /// The oldest.
    mutating func take() -> [TraceSpan] {
        let taken = Array(spans.prefix(Self.batch))
        spans.removeFirst(taken.count)
        return taken
    }
}

/// Why a span was not delivered.
public enum SpanLoss: String, Sendable, CaseIterable {
    /// Too many waited.
    case queueFull = "queue_full"
    /// The endpoint did not take it.
    case rejected
    /// The endpoint could not be asked, or was not well, for too long.
    case undelivered
}

/// What came of posting a batch.
enum PostResult: Equatable {
    /// - Parameters:
    ///   - retryAfter: seconds; nil where it does not say.
    ///   - rejected: spans that it has not taken of a batch that it has (`partialSuccess`).
    case answered(status: Int, retryAfter: Int?, rejected: Int = 0)
    /// No response came: why, in words.
    case failed(String)
}

/// What is done next with a batch (OpenTelemetry protocol, "OTLP/HTTP Response" and "Connection").
enum Delivery: Equatable {
    case done(rejected: Int)
    case again(afterMilliseconds: Int)
    case lost(SpanLoss)

    /// Times that it is sent at most.
    static let attempts = 5
    private static let retried: Set = [429, 502, 503, 504]
    private static let longestPauseMilliseconds = 60_000

    /// - Parameters:
    ///   - attempt: 1 for the first.
    ///   - pause: milliseconds before the second, where the endpoint does not say.
    init(_ result: PostResult, attempt: Int, pause: Int, of count: Int) {
        var wait = min(pause << (attempt - 1), Self.longestPauseMilliseconds)
        switch result {
        case .answered(let status, _, let rejected) where (200..<300).contains(status):
            self = .done(rejected: min(max(0, rejected), count))
            return
        case .answered(let status, _, _) where !Self.retried.contains(status):
            // It would be no other the next time.
            self = .lost(.rejected)
            return
        case .answered(_, let retryAfter, _):
            if let retryAfter { wait = min(max(0, retryAfter), Self.longestPauseMilliseconds / 1_000) * 1_000 }
        case .failed: break
        }
        self = attempt < Self.attempts ? .again(afterMilliseconds: wait) : .lost(.undelivered)
    }
}

extension PostResult {
    /// What is wrong, in words; nil where nothing is.
    var trouble: String? {
        switch self {
        case .answered(let status, _, _): (200..<300).contains(status) ? nil : "the response has status \(status)"
        case .failed(let sentence): sentence
        }
    }
}
