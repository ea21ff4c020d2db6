// What is remembered of one exchange so that it can be explained later: numbers and small enums in a fixed size, nothing that is counted or
// allocated, so that remembering a hit costs next to nothing. Sentences are made of it when somebody asks (`WhyExplanation`).

import CachePolicy
import Telemetry
import Upstream

/// What looking into the store brought.
enum LookUpOutcome: UInt8, Sendable {
    case notLookedUp, nothing, otherVariant, stored
}

/// Why a fetch went on, or began, with no client that waits for it.
enum BackgroundCause: String, Sendable, CaseIterable {
    case staleWhileRevalidate = "stale_while_revalidate"
    case refreshAhead = "refresh_ahead"
    /// The upstream counts as down, and it is looked whether it is back.
    case recheck
    /// The soft deadline passed and the copy went out.
    case slow
    case clientLeft = "client_left"
}

struct ExchangeTrace: Sendable {
    /// Counts the shard's exchanges; with the shard's number it names this one.
    var number: UInt64 = 0
    /// Milliseconds since 1970 at its end.
    var wall: Int64 = 0
    var durationMicroseconds: Int64 = 0
    /// Until the upstream had answered or failed; -1 where it was not asked.
    var upstreamMicroseconds: Int64 = -1
    /// Seconds, of what was found; -1 where the answer did not say, or nothing was found.
    var lifetime: Int64 = -1
    var age: Int64 = -1
    var bodyBytes = 0
    var times = TransferTimes()
    /// The first bytes of the keyed hash of the request's credentials; 0 without credentials.
    var partition: UInt32 = 0
    var status: UInt16 = 0
    /// What the upstream answered; 0 where it did not.
    var upstreamStatus: UInt16 = 0
    /// Its place in `MetricNames.rescueCauses`; -1 where nothing failed.
    var failure: Int16 = -1
    /// Where the failure memory stopped it.
    var stop: FailureStop?
    var targetCount: UInt16 = 0
    var method = MethodLabel.other
    var result = CacheResult.miss
    var mode = ServingMode.live
    var lookUp = LookUpOutcome.notLookedUp
    var bypass: BypassReason?
    var validation: ValidationReason?
    var notStored: NotStoredReason?
    var notRescued: NoRescueReason?
    /// What allowed the copy of those without credentials to go out, or why it might not.
    var sharedLeave: SharedCopyLeave?
    var notStoodIn: NoSharedRescueReason?
    /// What the operator's demands say against an answer that was passed on.
    var fault: UpstreamFault?
    /// What became of the request's content; nil where it had none.
    var content: ContentOutcome?
    /// From its head until it was whole.
    var contentMicroseconds: Int64 = -1
    var isStored = false
    /// The response says that the resource is gone: remembered as the upstream said it, or served from there.
    var isGone = false
    var isOnlyIfCached = false
    /// nil for a client's exchange.
    var background: BackgroundCause?
    /// In the background: the number of the exchange that it began with.
    var behind: UInt64 = 0
}

extension ExchangeTrace {
    /// What is known once the request has been looked at.
    init(number: UInt64, _ plan: ExchangePlan, partitionAt offset: Int, now: Timestamp) {
        self.number = number
        mode = plan.mode
        bypass = plan.bypass
        isOnlyIfCached = plan.directives.onlyIfCached
        if let key = plan.key {
            lookUp = plan.missToken.description == "vary-miss" ? .otherVariant : .nothing
            partition = Self.partition(in: key, at: offset)
        }
        guard let found = plan.found else { return }
        lookUp = .stored
        lifetime = found.metadata.freshnessLifetime ?? -1
        age = Freshness.currentAge(of: found.metadata, now: now)
        if case .validate(let reason) = Reuse.decide(found.metadata, plan.directives, now: now) { validation = reason }
    }

    /// With what is known at the end.
    func completed(by record: ExchangeRecord, wall: Int64) -> ExchangeTrace {
        var trace = self
        trace.wall = wall
        trace.durationMicroseconds = record.durationMicroseconds
        trace.upstreamMicroseconds = record.upstreamMicroseconds ?? -1
        trace.contentMicroseconds = record.contentMicroseconds ?? -1
        trace.bodyBytes = record.bodyBytes
        trace.status = record.status
        trace.method = record.method
        trace.result = record.result
        return trace
    }

    /// - Parameter offset: where the partition lies in the shard's keys, behind its length.
    static func partition(in key: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 4 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
    }
}
