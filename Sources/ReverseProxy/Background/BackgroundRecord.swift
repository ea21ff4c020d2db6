// Receives the result of a background fetch in place of a client, and completes its record, so that `why` can explain it like an exchange.

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
    private var record: ExchangeRecord
    private let began: Int64
    private let ended: () -> Void
    /// The fetch retains this record until its end.
    weak var fetch: Fetch?

    /// - Parameters:
    ///   - exchange: record of the exchange that this fetch continues or follows.
    ///   - began: time at which the request to the upstream began, in microseconds.
    init(
        _ reporting: Reporting, head: RequestHead, _ exchange: ExchangeRecord, _ cause: BackgroundCause, began: Int64,
        ended: @escaping () -> Void = {}
    ) {
        self.reporting = reporting
        self.head = head
        self.ended = ended
        self.began = began
        record = exchange
        record.background = ExchangeRecord.Background(cause: cause, behind: exchange.number)
        (record.bodyBytes, record.content.microseconds) = (0, -1)
    }

    private func end() {
        record.number = reporting.records.why.nextNumber()
        record.api = reporting.api.index
        record.wall = reporting.loop.batchWallMilliseconds
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        record.upstream.microseconds = record.durationMicroseconds
        if let fetch { record.upstream.note(fetch) }
        record.status = record.upstream.status
        reporting.records.why.append(&record, target: head.pathAndQuery)
        ended()
    }

    func fetchBrought(_ response: FetchedResponse) {
        record.result = .miss
        record.isStored = response.storage == .allowed
        record.found.isGone = response.isRememberedAsGone
        if case .forbidden(let reason) = response.storage { record.reasons.notStored = reason }
        record.reasons.fault = response.fault
        record.bodyBytes = response.content.count
        end()
    }

    func fetchConfirmed(_ confirmation: Confirmation) {
        record.result = .revalidated
        end()
    }

    func fetchFailed(_ failure: FetchFailure) {
        record.result = .error
        record.upstream.failure = failure
        end()
    }

    /// If the response cannot be stored, its content is not read.
    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason?) -> Bool {
        guard let notStored else { return false }
        record.result = .miss
        record.reasons.notStored = notStored
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

extension ExchangeRecord.Upstream {
    /// Copies the upstream's part from its fetch.
    mutating func note(_ fetch: Fetch) {
        (times, spoken, isFaulted) = (fetch.times, fetch.spoken, fetch.isFaulted)
        (address, status) = (UInt8(clamping: fetch.address), fetch.status?.rawValue ?? 0)
    }
}
