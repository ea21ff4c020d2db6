// Collects spans of all loops and sends them, on a separate queue, in batches or after an interval. Requests never wait for the endpoint.
// Spans that cannot be delivered in time are dropped and counted.

import Dispatch
import Figures
import OwnRequests
import Reactor

/// Counts since the start of the process. They outlive the exporter.
public final class SpanCounts: Sendable {
    /// Updated by the loops and the exporter's queue.
    private let state = Mutex(LabelledFigures())

    public init() {}

    public var figures: LabelledFigures { state.withLock { $0 } }

    func count(_ figure: LabelledFigure, by number: Int = 1) { state.withLock { $0.count(figure, by: UInt64(number)) } }

    func lose(_ number: Int, _ reason: SpanLoss) { state.withLock { $0.count(.spansDropped, of: reason, by: UInt64(number)) } }
}

/// `@unchecked Sendable` because mutable state is behind a mutex, or used on `serial` only.
public final class SpanExporter: @unchecked Sendable {
    /// An event for the log. Each is reported once per change of the state.
    public enum Event: Sendable, Equatable {
        case failed(String)
        case recovered
    }

    public let settings: TracingSettings
    private let source: SpanSource
    private let counts: SpanCounts
    private let onEvent: @Sendable (Event) -> Void
    private let serial = DispatchQueue(label: "cistern.traces", qos: .utility)

    private struct State {
        var queue = SpanQueue()
        var limit = SamplingLimit()
        /// Deadline for the last deliveries; nil before `finish`.
        var deadline: DispatchTime?
    }

    /// Loops append spans; the queue removes them.
    private let state = Mutex(State())

    /// A batch that is being delivered.
    private struct Pending {
        let body: [UInt8]
        let count: Int
        var attempt = 1
    }

    // Used on `serial` only.
    private var timer: (any DispatchSourceTimer)?
    private var pending: Pending?
    private lazy var request = OwnRequest(spansTo: settings.endpoint)
    private var isFailing = false

    /// - Parameter onEvent: called on the exporter's queue.
    public init(_ settings: TracingSettings, _ source: SpanSource, _ counts: SpanCounts, onEvent: @escaping @Sendable (Event) -> Void) {
        (self.settings, self.source, self.counts, self.onEvent) = (settings, source, counts, onEvent)
        let timer = DispatchSource.makeTimerSource(queue: serial)
        timer.schedule(
            deadline: .now() + .milliseconds(settings.intervalMilliseconds), repeating: .milliseconds(settings.intervalMilliseconds))
        timer.setEventHandler { [weak self] in self?.send(all: true) }
        timer.activate()
        self.timer = timer
    }

    /// Whether one more request may be recorded. May be called from any shard.
    /// - Parameter now: seconds since 1970.
    public func takeRoom(now: Int64) -> Bool { state.withLock { $0.limit.take(settings.limit, now: now) } }

    /// Counts a request that was not recorded because of the limit.
    public func countOverLimit() { counts.count(.tracedOverLimit) }

    /// Adds a span. May be called from any shard.
    public func append(_ span: TraceSpan) {
        switch state.withLock({ $0.queue.append(span) }) {
        case .queued: break
        case .completesBatch: serial.async { self.send(all: false) }
        case .dropped: counts.lose(1, .queueFull)
        }
    }

    /// Sends waiting spans once and ends, at the latest after `seconds`, because the endpoint may not respond. Spans that were not sent by
    /// then count as lost.
    public func finish(within seconds: Int = 2) {
        let deadline = DispatchTime.now() + .seconds(seconds)
        state.withLock { $0.deadline = deadline }
        let done = DispatchSemaphore(value: 0)
        serial.async {
            self.timer?.cancel()
            if let pending = self.pending { self.deliver(pending) }
            self.send(all: true)
            done.signal()
        }
        // An active delivery is aborted at the deadline and then counted.
        guard done.wait(timeout: deadline + .milliseconds(200)) == .timedOut else { return }
        while case let rest = state.withLock({ $0.queue.take() }), !rest.isEmpty { counts.lose(rest.count, .undelivered) }
    }

    // MARK: On the queue

    /// - Parameter all: whether to send an incomplete batch too.
    private func send(all: Bool) {
        while pending == nil {
            let spans = state.withLock { state in all || state.queue.count >= SpanQueue.batch ? state.queue.take() : [] }
            guard !spans.isEmpty else { return }
            deliver(Pending(body: SpanText.request(spans, from: source), count: spans.count))
        }
    }

    /// Remaining milliseconds until the deadline; nil before `finish`.
    private var patience: Int? {
        state.withLock { $0.deadline }.map { deadline in
            let now = DispatchTime.now()
            return deadline > now ? Int((deadline.uptimeNanoseconds - now.uptimeNanoseconds) / 1_000_000) : 0
        }
    }

    private func deliver(_ batch: Pending) {
        pending = nil
        if let patience, patience == 0 { return counts.lose(batch.count, .undelivered) }
        let result = request.send(batch.body, patience: patience)
        note(result.trouble)
        switch Delivery(result, attempt: batch.attempt, pause: settings.pauseMilliseconds, of: batch.count) {
        case .done(let rejected):
            counts.count(.spansExported, by: batch.count - rejected)
            counts.lose(rejected, .rejected)
        case .lost(let reason): counts.lose(batch.count, reason)
        case .again where patience != nil: counts.lose(batch.count, .undelivered)
        case .again(let wait):
            var batch = batch
            batch.attempt += 1
            pending = batch
            let attempt = batch.attempt
            serial.asyncAfter(deadline: .now() + .milliseconds(wait)) { [weak self] in self?.resume(attempt) }
        }
    }

    /// Continues after the pause.
    private func resume(_ attempt: Int) {
        // The batch may have been delivered early by `finish`.
        guard let pending, pending.attempt == attempt else { return }
        deliver(pending)
        send(all: false)
    }

    private func note(_ trouble: String?) {
        if trouble != nil { counts.count(.spanExportFailures) }
        guard isFailing != (trouble != nil) else { return }
        isFailing = trouble != nil
        onEvent(trouble.map { .failed($0) } ?? .recovered)
    }
}
