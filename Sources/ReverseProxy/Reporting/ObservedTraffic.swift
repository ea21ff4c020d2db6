// The observation of one API's fetches, for `cistern advise`. All shards share it, because the requests for a target are spread over them.

import Advice
import CachePolicy
import Decisions
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Upstream

public final class ObservedTraffic: Sendable {
    /// Accessed by all shards at the end of fetches, and on the administrator's queue. The lock is held for about a microsecond, with
    /// new data for some more.
    fileprivate let state: Mutex<TrafficObservation>
    private let routes: Routes

    /// - Parameters:
    ///   - limit: maximum number of observed paths. With 0, nothing is observed.
    ///   - former: observation to continue for paths with an unchanged route; nil if there is none.
    init?(limit: Int, routes: Routes, after former: ObservedTraffic?) {
        guard limit > 0 else { return nil }
        self.routes = routes
        let observation = former.map { former in
            former.state.withLock { state in
                TrafficObservation(limit: limit, after: state) { index, template in
                    let (before, now) = (former.routes.all[Int(index)], routes.index(of: template[...]))
                    let isSame =
                        before.name == routes.all[now].name && before.freshness == routes.all[now].freshness
                        && before.arguments == routes.all[now].arguments
                    return isSame ? UInt16(clamping: now) : nil
                }
            }
        }
        state = Mutex(observation ?? TrafficObservation(limit: limit))
    }

    /// Returns the observation since a time, in whole hours of the monotonic clock. The paths are read one by one, so that no shard waits long.
    public func summaries(since: Int64, now: Int64) -> [ObservedSummary] {
        (0..<count).compactMap { index in state.withLock { $0.summary(index, since: since, now: now) } }
    }

    /// Number of observed paths.
    public var count: Int { state.withLock { $0.count } }

    /// Adds the counters, but not the number of paths.
    public func addCounts(to figures: inout Figures) {
        let counts = state.withLock { ($0.unknown, $0.rejected, $0.replaced) }
        figures[.unobservedUnknown] += Int(clamping: counts.0)
        figures[.unobservedFull] += Int(clamping: counts.1)
        figures[.observedPathsReplaced] += Int(clamping: counts.2)
    }
}

extension Fetch {
    /// Observes a good response that was stored, or that confirms the stored one.
    /// - Parameters:
    ///   - metadata: metadata of the stored response.
    ///   - head: head of the stored response; may be empty for a repetition.
    ///   - confirmed: the stored response that a 304 confirmed.
    func observeGood(_ metadata: StoredMetadata, _ head: [UInt8], _ confirmed: FoundResponse?) {
        guard context.rules.traffic != nil, let response else { return }
        guard !metadata.isNegative else { return observeAbsent(response) }
        let isStated =
            !metadata.flags.isDisjoint(with: [.noCache, .mustRevalidate, .proxyRevalidate, .sharedMaxAge])
            || metadata.freshnessLifetime != nil && [.response, .heuristic, .maximum].contains(metadata.lifetimeSource)
            || FieldLists.contains(.cacheControl, in: response.fields) { $0.prefix(7).equalsIgnoringCase("private") }
        let unchanged = confirmed ?? (repetition == .recorded ? subject.found : nil)
        observe(.good(data(metadata, head, unchanged), isStated: isStated), likeness: metadata.likeness, unchanged)
    }

    func observeUnstored(_ response: ResponseHead, _ reason: NotStoredReason) {
        let isAbsent = [401, 403, 404, 410].contains(response.status) && (reason == .status || reason == .cacheOff)
        if isAbsent { observeAbsent(response) } else { observe(.unstored(reason)) }
    }

    /// Observes that the resource is missing, or not accessible.
    private func observeAbsent(_ response: ResponseHead) {
        guard let fetchTarget = subject.fetchTarget else { return }
        let isForAll = fetchTarget.isPartitioned || !subject.head.fields.contains(.authorization)
        let isForbidden = FieldLists.contains(.cacheControl, in: response.fields) {
            $0.equalsIgnoringCase("no-store") || $0.prefix(7).equalsIgnoringCase("private")
        }
        let isMissing = response.status == 404 || response.status == 410
        observe(.absent(response.status.rawValue, isStorable: isMissing && isForAll && !isForbidden))
    }

    func observeFailure(_ failure: FetchFailure) {
        guard failure.isOfUpstream, let cause = MetricNames.index(of: failure) else { return }
        observe(.failed(UInt8(clamping: cause)))
    }

    /// - Parameters:
    ///   - likeness: number for the request's negotiation and unknown fields.
    ///   - unchanged: the stored response that the upstream's response repeats or confirms.
    private func observe(_ outcome: ObservedFetch.Outcome, likeness: UInt64 = 0, _ unchanged: FoundResponse? = nil) {
        guard let traffic = context.rules.traffic, let fetchTarget = subject.fetchTarget, subject.head.method == .get, !isOfConnectionUser
        else { return }
        let times = times
        let firstByte = times.sent < 0 || times.firstByte < times.sent ? -1 : Int64(times.firstByte - times.sent)
        let partition = fetchTarget.isPartitioned ? UInt64(subject.record.partition) | 1 << 32 : 0
        let fetch = ObservedFetch(
            outcome, key: ContentHash.number(of: fetchTarget.keys.own.span), partition: partition, route: UInt16(clamping: subject.route),
            isForced: isForced || fetchTarget.sharing == .none, firstByte: firstByte)
        let target = subject.head.pathAndQuery
        let message = {
            ObservedMessage(
                target: target, request: self.subject.head.fields, response: self.response?.fields, content: self.contentHash(unchanged),
                likeness: likeness)
        }
        traffic.state.withLock { $0.note(fetch, target, message, now: clock) }
    }

    /// Whether the fetch takes place regardless of the freshness of the stored response.
    private var isForced: Bool {
        guard !isRecheck else { return true }
        return switch subject.record.reasons.validation {
        case .markedStale, .unseen, .otherOrigin, .ageUnknown, .requestNoCache, .requestMaxAge, .requestMinFresh: true
        case .noFreshness, .stale, .noCache, nil: false
        }
    }

    /// The data by the entity tag of the stored response; without one, by the content.
    private func data(_ metadata: StoredMetadata, _ head: [UInt8], _ unchanged: FoundResponse?) -> ObservedFetch.Data {
        if let unchanged {
            return unchanged.metadata.etag.isEmpty ? .unchanged : .hash(Self.tagHash(unchanged))
        }
        guard !metadata.etag.isEmpty, metadata.etag.upperBound <= head.count else { return .hash(contentHash(nil)) }
        return .hash(ContentHash.number(of: head.span.extracting(metadata.etag)))
    }

    /// Hash of the content, or of the entity tag that was computed from it; 0 without content, or if it is too long to be hashed on the
    /// event loop.
    private func contentHash(_ unchanged: FoundResponse?) -> UInt64 {
        if let tag = collected.findings.ownTag { return ContentHash.number(of: tag.span) }
        if let unchanged, unchanged.metadata.flags.contains(.ownTag) { return Self.tagHash(unchanged) }
        let content = collected.bytes
        return content.isEmpty || content.count > context.rules.examinedAtOnceBytes ? 0 : ContentHash.number(of: content.span)
    }

    private static func tagHash(_ found: FoundResponse) -> UInt64 {
        found.withHead { ContentHash.number(of: $0.extracting(found.metadata.etag)) }
    }
}
