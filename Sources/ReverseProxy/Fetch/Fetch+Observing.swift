// Reports the end of a fetch to the observation of its API's traffic.

import Advice
import CachePolicy
import Decisions
import Explanation
import HTTPCore
import ResponseCache
import Upstream

extension Fetch {
    /// Observes a good response that was stored, or that confirms the stored one.
    /// - Parameter metadata: metadata of the stored response.
    func observeGood(_ metadata: StoredMetadata, isConfirmed: Bool) {
        guard context.rules.traffic != nil, let response else { return }
        guard !metadata.isNegative else { return observe(.missing) }
        let isStated =
            !metadata.flags.isDisjoint(with: [.noCache, .mustRevalidate, .proxyRevalidate, .sharedMaxAge])
            || metadata.freshnessLifetime != nil && [.response, .maximum].contains(metadata.lifetimeSource)
            || FieldLists.contains(.cacheControl, in: response.fields) { $0.prefix(7).equalsIgnoringCase("private") }
        observe(.good(isConfirmed || repetition == .recorded ? .unchanged : .hash(dataHash(response)), isStated: isStated))
    }

    /// Observes a response that is not stored.
    func observeUnstored(_ reason: NotStoredReason) {
        let isMissing = (status == 404 || status == 410) && (reason == .status || reason == .cacheOff)
        observe(isMissing ? .missing : .unstored(reason))
    }

    /// Observes a failure of the upstream.
    func observeFailure(_ failure: FetchFailure) {
        guard failure.isOfUpstream, let cause = MetricNames.index(of: failure) else { return }
        observe(.failed(UInt8(clamping: cause)))
    }

    func observe(_ outcome: ObservedFetch.Outcome) {
        guard let traffic = context.rules.traffic, let fetchTarget = subject.fetchTarget, subject.head.method == .get, !isOfConnectionUser
        else { return }
        let times = times
        let firstByte = times.sent < 0 || times.firstByte < times.sent ? -1 : Int64(times.firstByte - times.sent)
        let partition = fetchTarget.isPartitioned ? UInt64(subject.record.partition) | 1 << 32 : 0
        let fetch = ObservedFetch(
            outcome, key: ContentHash.number(of: fetchTarget.keys.own.span), partition: partition, route: UInt16(clamping: subject.route),
            isForced: isForced || fetchTarget.sharing == .none, firstByte: firstByte)
        let message = ObservedMessage(target: subject.head.pathAndQuery, request: subject.head.fields, response: response?.fields)
        traffic.note(fetch, message, now: clock)
    }

    /// Whether the fetch takes place regardless of the freshness of the stored response.
    private var isForced: Bool {
        guard !isBackground else { return true }
        return switch subject.record.reasons.validation {
        case .markedStale, .unseen, .otherOrigin, .ageUnknown, .requestNoCache, .requestMaxAge, .requestMinFresh: true
        case .noFreshness, .stale, .noCache, nil: false
        }
    }

    /// Hash of the response's data: of the entity tag that was computed from the data, of the content, or of the upstream's entity tag. 0 if
    /// the content is too long to be hashed on the event loop and has no entity tag.
    private func dataHash(_ response: ResponseHead) -> UInt64 {
        if let tag = collected.findings.ownTag { return ContentHash.number(of: tag.span) }
        let content = collected.bytes
        if content.count <= context.rules.examinedAtOnceBytes { return ContentHash.number(of: content.span) }
        return response.fields.first(.etag).map { ContentHash.number(of: $0.span) } ?? 0
    }
}
