// Reports the outcome of a fetch to the failure memory.

import CachePolicy
import Decisions
import HTTPCore
import Reactor
import Upstream

extension Fetch {
    /// Reports a failure that the status shows. A success is reported only once the response is complete.
    func noteStatus(of head: ResponseHead) {
        guard LastGood.isTrouble(head.status) else { return }
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
        context.noteSuccess(of: subject, began: began)
    }

    private func noteFailure(_ cause: FailureCause) {
        guard !report.hasFailed else { return }
        report.hasFailed = true
        context.noteFailure(of: subject, cause, began: began)
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
}
