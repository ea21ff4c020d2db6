// The stage `fleet`: queries the shared level before a request to the upstream, if that is permitted and useful. The query suspends the
// request (`LookUpWait`), which continues at `lookUp`.

import CachePolicy
import Decisions
import Downstream
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Upstream

/// A query to the shared level, and the lookup that needs it. A class, because it is large and rarely needed.
final class FleetQuery {
    let lookedUp: LookedUp
    /// Maximum wait for another node's fetch, in milliseconds; nil if no other node may wait for this request.
    let wait: Int64?

    init(_ lookedUp: LookedUp, wait: Int64?) { (self.lookedUp, self.wait) = (lookedUp, wait) }
}

/// Result from the shared level.
struct FleetAnswer {
    let reply: FleetReply
    /// Start of the query, in milliseconds of the loop's clock.
    let since: Int64
}

extension RequestEntry {
    /// - Throws: the query, if there is one.
    func fleet(
        _ facts: borrowing RequestFacts<FoundResponse>, _ head: RequestHead, _ lookedUp: inout LookedUp, _ progress: inout LookUpProgress,
        of client: RequestClient
    ) throws(NotInMemory) {
        guard progress.answer == nil, let lookUp = fleetLookUp(facts, head, &lookedUp, &progress, of: client) else { return }
        throw .fleet(lookUp)
    }

    /// Returns nil if the query is not permitted or useful.
    @inline(never)
    private func fleetLookUp(
        _ facts: borrowing RequestFacts<FoundResponse>, _ head: RequestHead, _ lookedUp: inout LookedUp,
        _ progress: inout LookUpProgress, of client: RequestClient
    ) -> FleetLookUp? {
        guard lookedUp.identity == nil, facts.mode == .live, !facts.directives.noCache else { return nil }
        let keys = lookedUp.facts.target.keys
        let usesLookUp = if case .some(.lookedUp) = lookedUp.attempt.basis.identity { true } else { false }
        lookedUp.obstacle = usesLookUp ? .lookedUp : context.coordination.level.obstacle(for: keys)
        guard lookedUp.obstacle == nil else { return nil }
        let decision = facts.decide()
        guard decision.searchesFleet else { return nil }
        if let fetchTarget = decision.fetchTarget,
            context.api.collapsed.isUnshareable(fetchTarget.flight, now: context.loop.batchMilliseconds)
        {
            lookedUp.obstacle = .unshareable
            return nil
        }
        let route = lookedUp.route
        let lookUp = context.cache?.fleetLookUp(for: head, at: keys, good: routes.good(on: route), kept: routes.kept(on: route))
        if lookUp != nil { progress.query = FleetQuery(lookedUp, wait: fleetWait(decision, head, route: route, of: client)) }
        return lookUp
    }

    /// Maximum wait for another node that asks the upstream, in milliseconds. nil if no other node would wait for this request: its
    /// response is not shared, or no fetch will follow.
    private func fleetWait(
        _ decision: RequestDecision<FoundResponse>, _ head: RequestHead, route: Int, of client: RequestClient
    ) -> Int64? {
        let (_, mayRescue, fetchTarget) = decision.copyAndTarget
        guard let fetchTarget, fetchTarget.takesLease else { return nil }
        if context.api.health.mayStop {
            let kind = FailureMemory.RequestKind(
                mayRescue: mayRescue, isReading: true, mayCheckInBackground: context.background.fetches.mayCheck)
            let scopes = context.coordination.scopes(of: head, route: route, fetchTarget.target, client: client.clientAddress)
            if context.api.health.stops(scopes, kind, now: context.loop.time.monotonicMilliseconds) { return nil }
        }
        let wait = Int64(settings.collapsing.wait)
        // A request with a stored response waits for another node no longer than for the upstream.
        let softDeadline = routes.all[route].rescueAfter
        return softDeadline > 0 && mayRescue ? min(wait, softDeadline) : wait
    }
}
