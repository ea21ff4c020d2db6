// Selects exchanges for display. It is applied to each record on the event loop, so cheap conditions come first.

import CachePolicy
import Decisions
import Figures
import Forwarding

public struct WhyFilter: Sendable {
    /// Prefix of the targets, as received or as displayed.
    private let prefix: [UInt8]
    /// If the prefix has a query, it is compared with targets as displayed. Otherwise redacted values could be guessed byte by byte.
    private let isOfShown: Bool
    /// Empty for all.
    public var results: [CacheResult] = []
    /// Minimum duration in microseconds (exclusive).
    public var slowerThan: Int64 = -1
    /// Statuses sent to the client; nil for any.
    public var statuses: ClosedRange<UInt16>?
    /// One of `reasons`: why the exchange went as it did, why it was not stored, or how the upstream failed. nil for any.
    public var reason: String?
    /// Only successful responses that were not stored.
    public var isNotStored = false

    /// - Parameter prefix: prefix of the targets as received.
    public init(prefix: [UInt8] = []) {
        isOfShown = prefix.contains(UInt8(ascii: "?"))
        self.prefix = isOfShown ? Array(SecretNames.redacted(prefix).utf8) : prefix
    }

    func accepts(_ exchange: borrowing ExchangeRecord, _ target: UnsafeBufferPointer<UInt8>) -> Bool {
        let (duration, status, result) = (exchange.durationMicroseconds, exchange.status, exchange.result)
        guard duration > slowerThan, statuses?.contains(status) ?? true, begins(target),
            results.isEmpty || results.contains(result)
        else { return false }
        if isNotStored, !exchange.isGoodAndNotStored { return false }
        guard let reason else { return true }
        let (notStored, failure) = (exchange.reasons.notStored, exchange.upstream.failure)
        if notStored?.rawValue == reason || failure?.label == reason { return true }
        return exchange.reason == reason
    }

    private func begins(_ target: UnsafeBufferPointer<UInt8>) -> Bool {
        isOfShown ? SecretNames.redacted(target).utf8.starts(with: prefix) : target.starts(with: prefix)
    }

    /// All possible values of `reason`: words of `why` and metric labels.
    public static let reasons: Set<String> = {
        var words: Set = [
            "fresh", "stale_while_revalidate", "failed", "client_left", "only_if_cached", "refused", "no_store", "nothing_stored",
            "other_variant_stored", "stale",
        ]
        words.formUnion(ServingMode.allCases.map(\.rawValue))
        words.formUnion(BypassReason.allCases.map(\.rawValue))
        words.formUnion(ValidationReason.allCases.map(\.rawValue))
        words.formUnion(BackgroundCause.allCases.map(\.rawValue))
        words.formUnion(AccessRefusal.allCases.map(\.rawValue))
        words.formUnion(MetricNames.notStored.map(\.rawValue))
        words.formUnion(MetricNames.rescueCauses)
        return words.subtracting([ServingMode.live.rawValue])
    }()
}
