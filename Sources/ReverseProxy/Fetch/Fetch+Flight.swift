// Reports the outcome of a fetch to the requests that wait for it, on this node and others.

import CachePolicy
import Decisions
import HTTPCore
import Reactor
import ResponseCache
import Upstream

extension Fetch {
    /// Reports the outcome to the followers and to the lease, once.
    func endFlight(_ outcome: FlightOutcome) {
        let (collapsed, client) = (context.coordination.collapsed, subject.scopes.client)
        // A follower takes over an abandoned fetch together with the lease.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(after: outcome) }
        let outcome = outcome == .stored && givesCookie ? .unshareable : outcome
        // If there is a stored response, the failure memory applies, and no wait exceeds the soft deadline.
        let isRemembered = outcome == .unshareable || subject.found == nil
        if let flight = flight.take() {
            collapsed.end(flight, outcome, by: client, now: clock, isRemembered: isRemembered)
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

    private func endLease(after outcome: FlightOutcome) {
        switch outcome {
        // A response for all users is stored under another key than that of the request.
        case .stored: endLease(subject.fetchTarget?.keys.common == nil ? .stored : .free)
        case .unshareable: endLease(.eachRequest)
        case .failed(let failure) where failure.isOfUpstream: endLease(subject.found == nil ? .eachRequest : .eachNode)
        case .failed, .outdated, .overtaken, .abandoned: endLease(.free)
        }
    }

    /// Ends the wait of other nodes, because the response exceeds the length limit for sharing.
    func endLeaseOfTooLong() { endLease(.eachNode) }

    private func endLease(_ end: LeaseEnd) {
        guard let fetchTarget = subject.fetchTarget, fetchTarget.takesLease else { return }
        context.coordination.level.ended(fetchTarget.keys.own, end, by: subject.scopes.client)
    }

    /// Whether content of this length exceeds the limit for sharing between nodes.
    func isTooLongForNodes(_ bytes: Int) -> Bool { bytes > context.coordination.level.contentLimitBytes }
}
