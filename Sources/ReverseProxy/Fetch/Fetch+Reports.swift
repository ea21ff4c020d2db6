// What a fetch reports about its outcome: to the failure memory, to its client, and to the requests that wait for it on this node and
// others.

import CachePolicy
import Decisions
import Explanation
import Figures
import Forwarding
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
            subject.scopes, took: now - began, limit: context.rules.routes.all[subject.route].rescueAfter,
            provesUser: status.map { $0.isSuccessful || $0 == 304 } ?? false, now: now)
        context.healthChecks?.note(subject, fails: false)
    }

    func noteWhole() {
        noteSuccess()
        if let response, isPresent(response) { notePresent(response) }
    }

    /// Whether the response shows that the resource of the stored response exists. A response without content shows it only if the stored
    /// response is also without content.
    func isPresent(_ response: ResponseHead) -> Bool {
        guard response.hasNothing, subject.head.method != .head else { return response.status.isSuccessful }
        return subject.found?.metadata.status == response.status && (response.status != 200 || subject.found?.contentBytes == 0)
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

    /// Whether the failure shows an outage of the upstream, or that its responses are unreliable. A redirect, an unexpected response or
    /// other content may be intended, and errors of Cistern show nothing.
    func isOutage(_ failure: FetchFailure) -> Bool {
        switch failure {
        case .fault(let fault, _): fault != .redirected && fault != .crowd && !fault.isOfContent
        case .transfer(let error): !error.isOwn
        case .stopped, .slow, .tooManyStreams: false
        }
    }

    // MARK: Requests that wait

    /// Passes the response to the client, after the requests that wait have been notified.
    /// - Parameter isOvertaken: whether the response is not stored because a write or a purge followed its request.
    func deliver(
        _ response: ResponseHead, _ storage: StorageDecision, isOvertaken: Bool = false, _ complete: (inout FetchedResponse) -> Void
    ) {
        let shown = AcceptedCoding.shown(response, collected.bytes, decoded: collected.findings.decoded, to: subject.head)
        var fetched = FetchedResponse(head: shown.head, content: shown.content, storage: storage)
        complete(&fetched)
        if storage == .allowed { context.reporting.count(.stored) }
        forwardAll()
        endFlight(isOvertaken ? .overtaken : FlightOutcome(storage))
        finish { $0.fetchBrought(fetched) }
    }

    /// Reports the outcome to the followers and to the lease, once.
    func endFlight(_ outcome: FlightOutcome) {
        let (collapsed, client) = (context.coordination.collapsed, subject.scopes.client)
        // A follower takes over an abandoned fetch together with the lease.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(leaseEnd(after: outcome)) }
        let outcome = outcome == .stored && givesCookie ? .unshareable : outcome
        // If there is a stored response, the failure memory applies, and no wait exceeds the soft deadline.
        let isRemembered = outcome == .unshareable || subject.found == nil
        guard let fetchTarget = subject.fetchTarget, flight != nil || fetchTarget.sharing != .none else { return }
        collapsed.end(
            flight.take(), of: fetchTarget.flight, outcome, by: client, began: began, order: recency.order, now: clock,
            isRemembered: isRemembered)
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
        guard holdsLease, let fetchTarget = subject.fetchTarget else { return }
        context.coordination.level.ended(fetchTarget.keys.own, end, by: subject.scopes.client)
    }

    /// Whether content of this length exceeds the limit for sharing between nodes.
    func isTooLongForNodes(_ bytes: Int) -> Bool { bytes > context.coordination.level.contentLimitBytes }
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
