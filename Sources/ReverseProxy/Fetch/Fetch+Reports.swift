// What a fetch reports about its outcome: to the failure memory, to the requests that wait for it on this node and others, and to the
// observation of the traffic.

import Advice
import CachePolicy
import Decisions
import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Upstream

extension Fetch {
    // MARK: The failure memory

    /// Reports a failure that the status shows. A success is reported only once the response is complete.
    func noteTrouble(_ head: ResponseHead) {
        report.isTrouble = true
        context.coordination.health.reach(now: clock)
        if head.status == 429 || head.status == 503, let retryAfter = RetryAfter.milliseconds(head.fields, now: context.loop.now) {
            context.coordination.health.pause(subject.scopes, head.status, retryAfter: retryAfter, now: clock)
        }
        // 429 concerns one client's rate limit, so it is no failure of the upstream.
        if head.status != 429 { noteFailure(.status(head.status)) }
    }

    func noteSuccess() {
        guard !report.isTrouble else { return }
        let now = clock
        context.coordination.health.succeed(
            subject.scopes, took: now - began, limit: context.rules.routes.all[subject.route].rescueAfter, now: now)
        context.healthChecks?.note(subject, fails: false)
    }

    private func noteFailure(_ cause: FailureCause) {
        guard !report.hasFailed else { return }
        report.hasFailed = true
        let (health, now) = (context.coordination.health, clock)
        guard subject.isReading else { return health.failWriting(subject.scopes, cause, began: began, now: now) }
        health.fail(subject.scopes, cause, began: began, now: now)
        context.healthChecks?.note(subject, fails: true)
    }

    func note(_ fault: UpstreamFault) {
        if fault == .redirected { noteFailure(.status(status ?? 302)) } else if fault.isFailure { noteFailure(.junk) }
    }

    /// Reports a failed transfer, except for errors of Cistern and failures to connect, which the connection attempt reports. An injected
    /// failure to connect counts for the request, and not for the upstream's address.
    func note(_ error: UpstreamError) {
        if !error.isOwn, isFaulted || !error.isFailureToReach { noteFailure(.transfer(error)) }
    }

    /// Whether the failure shows an outage of the upstream, or that its responses are unreliable. A redirect or an unexpected response may
    /// be intended, and errors of Cistern show nothing.
    func isOutage(_ failure: FetchFailure) -> Bool {
        switch failure {
        case .fault(let fault, _): fault != .redirected && fault != .crowd
        case .transfer(let error): !error.isOwn
        case .stopped, .slow, .tooManyStreams: false
        }
    }

    // MARK: Requests that wait

    /// Reports the outcome to the followers and to the lease, once.
    func endFlight(_ outcome: FlightOutcome) {
        let (collapsed, client) = (context.coordination.collapsed, subject.scopes.client)
        // A follower takes over an abandoned fetch together with the lease.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(leaseEnd(after: outcome)) }
        let outcome = outcome == .stored && givesCookie ? .unshareable : outcome
        // If there is a stored response, the failure memory applies, and no wait exceeds the soft deadline.
        let isRemembered = outcome == .unshareable || subject.found == nil
        if let flight = flight.take() {
            collapsed.end(flight, outcome, by: client, order: recency.order, now: clock, isRemembered: isRemembered)
        } else if let fetchTarget = subject.fetchTarget, fetchTarget.sharing != .none {
            collapsed.note(outcome, of: fetchTarget.flight, upstream: clock - began, by: client, now: clock, isRemembered: isRemembered)
        }
    }

    /// Whether the response sets a cookie and permits no reuse by other clients (`public`, or a positive lifetime). Followers then send
    /// their own requests.
    private var givesCookie: Bool {
        guard let response, response.fields.contains(.setCookie) else { return false }
        let control = ResponseCacheControl(response.fields)
        return !control.isPublic && control.sharedMaxAge ?? control.maxAge ?? 0 <= 0
    }

    /// How the wait of other nodes ends. A response for all users is stored under another key than that of the request.
    private func leaseEnd(after outcome: FlightOutcome) -> LeaseEnd {
        switch outcome {
        case .stored: subject.fetchTarget?.keys.common == nil ? .stored : .free
        case .unshareable: .eachRequest
        case .failed(let failure) where failure.isOfUpstream: subject.found == nil ? .eachRequest : .eachNode
        case .failed, .outdated, .overtaken, .abandoned: .free
        }
    }

    func endLease(_ end: LeaseEnd) {
        guard let fetchTarget = subject.fetchTarget, fetchTarget.takesLease else { return }
        context.coordination.level.ended(fetchTarget.keys.own, end, by: subject.scopes.client)
    }

    /// Whether content of this length exceeds the limit for sharing between nodes.
    func isTooLongForNodes(_ bytes: Int) -> Bool { bytes > context.coordination.level.contentLimitBytes }

    // MARK: Observed traffic

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

    /// Observes a response that is not stored.
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

    /// Observes a failure of the upstream.
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
        traffic.note(
            fetch, target,
            ObservedMessage(
                target: target, request: subject.head.fields, response: response?.fields, content: contentHash(unchanged),
                likeness: likeness), now: clock)
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

extension FlightOutcome {
    init(_ storage: StorageDecision) {
        self =
            switch storage {
            case .allowed: .stored
            case .forbidden(.outdated): .outdated
            case .forbidden: .unshareable
            }
    }

    init(_ result: ConfirmationResult) {
        self =
            switch result {
            case .stored: .stored
            case .outdated: .outdated
            case .unshareable: .unshareable
            }
    }
}
