// What the failure memory learns of a fetch.

import CachePolicy
import Coordination
import Decisions
import HTTPCore
import Reactor
import Upstream

extension Fetch {
    /// What the status tells of the upstream's state. That it is well is known only when the response is whole.
    func judge(_ head: ResponseHead) {
        guard LastGood.isTrouble(head.status) else { return }
        report.isTrouble = true
        shard.shared.health.reach(now: clock)
        if head.status == 429 || head.status == 503, let retryAfter = RetryAfter.milliseconds(head.fields, now: shard.now) {
            shard.shared.health.pause(subject.scopes, head.status, retryAfter: retryAfter, now: clock)
        }
        // 429 is one client's share: each request's own matter.
        if head.status != 429 { noteFailure(.status(head.status)) }
    }

    func noteSuccess() {
        guard !report.isTrouble else { return }
        shard.noteSuccess(of: subject, began: began)
    }

    private func noteFailure(_ cause: FailureCause) {
        guard !report.hasFailed else { return }
        report.hasFailed = true
        guard subject.isReading else { return shard.shared.health.failWriting(subject.scopes, cause, began: began, now: clock) }
        shard.shared.health.fail(subject.scopes, cause, began: began, now: clock)
        shard.background.looks.note(subject, fails: true)
    }

    func note(_ fault: UpstreamFault) {
        if fault == .redirected { noteFailure(.status(status ?? 302)) } else if fault.isFailure { noteFailure(.junk) }
    }

    /// What of it is our own, or is told of each attempt to connect, is not told again.
    /// An injected fault is no attempt: it counts for what was asked, and not for the whole upstream.
    func note(_ error: UpstreamError) {
        if !error.isOwn, isFaulted || !error.isFailureToReach { noteFailure(.transfer(error)) }
    }

    /// Whether it says that the upstream is in trouble, or that what it says is not to be relied upon: not what it may mean, nor what is our own doing.
    func isOutage(_ failure: FetchFailure) -> Bool {
        switch failure {
        case .fault(let fault, _): fault != .redirected && fault != .crowd
        case .transfer(let error): !error.isOwn
        case .stopped, .slow, .tooManyStreams: false
        }
    }
}
