// Which exchanges somebody wants to see. Asked of each record on its loop, so what is cheap comes first.

import CachePolicy
import Decisions
import Forwarding
import Telemetry

public struct WhyFilter: Sendable {
    /// What the targets begin with: as received, or as they are shown.
    private let prefix: [UInt8]
    /// Where it has a query, it is held against targets as they are shown: what is left out of them could else be guessed byte by byte.
    private let isOfShown: Bool
    /// Empty for all.
    public var results: [CacheResult] = []
    /// Microseconds: those that took longer.
    public var slowerThan: Int64 = -1
    /// Of what the client got; nil for any.
    public var statuses: ClosedRange<UInt16>?
    /// Why it went so, why it was not stored, or how the upstream failed: one of `reasons`.
    public var reason: String?
    /// Responses that were no errors and were not kept.
    public var isNotStored = false

    /// - Parameter prefix: what the targets, as received, begin with.
    public init(prefix: [UInt8] = []) {
        isOfShown = prefix.contains(UInt8(ascii: "?"))
        self.prefix = isOfShown ? Array(SecretNames.redacted(prefix).utf8) : prefix
    }

    func accepts(_ trace: borrowing ExchangeTrace, _ target: UnsafeBufferPointer<UInt8>) -> Bool {
        let (duration, status, result) = (trace.durationMicroseconds, trace.status, trace.result)
        guard duration > slowerThan, statuses?.contains(status) ?? true, begins(target),
            results.isEmpty || results.contains(result)
        else { return false }
        if isNotStored, !trace.isGoodAndNotStored { return false }
        guard let reason else { return true }
        let (notStored, failure) = (trace.reasons.notStored, trace.upstream.failure)
        if notStored?.rawValue == reason || failure?.label == reason { return true }
        return trace.reason == reason
    }

    private func begins(_ target: UnsafeBufferPointer<UInt8>) -> Bool {
        isOfShown ? SecretNames.redacted(target).utf8.starts(with: prefix) : target.starts(with: prefix)
    }

    /// All that `reason` may be: words of `why` and of metrics' labels.
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
