// Takes the client's part in a background fetch: waits for its end and records the outcome, so that `why` can explain it like an exchange.

import CachePolicy
import Decisions
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// Used on its shard's loop only.
final class BackgroundRecord: FetchReceiver {
    private let reporting: Reporting
    private let head: RequestHead
    private var trace: ExchangeTrace
    private let began: Int64
    private let ended: () -> Void
    /// The fetch retains this record until its end.
    weak var fetch: Fetch?

    /// - Parameters:
    ///   - exchange: trace of the exchange that this fetch continues or follows.
    ///   - began: time at which the request to the upstream began, in microseconds.
    init(
        _ reporting: Reporting, head: RequestHead, _ exchange: ExchangeTrace, _ cause: BackgroundCause, began: Int64,
        ended: @escaping () -> Void = {}
    ) {
        self.reporting = reporting
        self.head = head
        self.ended = ended
        self.began = began
        trace = exchange
        trace.background = ExchangeTrace.Background(cause: cause, behind: exchange.number)
        trace.method = MethodLabel(head.method)
    }

    private func end() {
        trace.number = reporting.nextNumber()
        trace.api = reporting.api.place
        trace.wall = reporting.loop.batchWallMilliseconds
        trace.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        trace.upstream.microseconds = trace.durationMicroseconds
        trace.status = fetch?.status?.rawValue ?? 0
        trace.upstream.status = trace.status
        trace.upstream.times = fetch?.times ?? TransferTimes()
        trace.upstream.spoken = fetch?.spoken
        trace.upstream.isFaulted = fetch?.isFaulted ?? false
        reporting.records.why.append(&trace, target: head.pathAndQuery)
        ended()
    }

    func fetchBrought(_ response: FetchedResponse) {
        trace.result = .miss
        trace.isStored = response.storage == .allowed
        trace.found.isGone = response.isRememberedAsGone
        if case .forbidden(let reason) = response.storage { trace.reasons.notStored = reason }
        trace.reasons.fault = response.fault
        trace.bodyBytes = response.content.count
        end()
    }

    func fetchConfirmed(_ confirmation: Confirmation) {
        trace.result = .revalidated
        end()
    }

    func fetchFailed(_ failure: FetchFailure) {
        trace.result = .error
        trace.upstream.failure = failure
        end()
    }

    /// The response cannot be stored, so its content is not read.
    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason) -> Bool {
        trace.result = .miss
        trace.reasons.notStored = notStored
        end()
        return false
    }

    func fetchInformed(_ head: ResponseHead) {}
    func fetchChallenged(_ transfer: Transfer) {}
    func streamBrought(_ bytes: Span<UInt8>) {}
    func streamEnded() {}
    func streamBroke(_ error: UpstreamError) {}
    func fetchDrained() {}
}
