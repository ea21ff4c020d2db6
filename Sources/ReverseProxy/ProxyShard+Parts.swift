// What exchanges and fetches ask of the shard's parts at nearly every request. It is asked of the shard, which asks its part: who reaches through the shard
// for a part counts a reference to that, and counting takes longer than most of these questions.

import CachePolicy
import Coordination
import Decisions
import Downstream
import HTTPCore
import Reactor
import ResponseCache
import Sharing
import Upstream

extension ProxyShard {
    // MARK: The failure memory

    func admit(_ request: DecidedRequest, _ asking: FailureMemory.Asking) -> FailureAdmission {
        health.admit(request.scopes, asking, now: loop.batchMilliseconds)
    }

    func isFailing(_ request: DecidedRequest) -> Bool { health.isFailing(request.scopes) }

    /// How long the upstream has for a request that a stored response may answer, in milliseconds; 0 for no limit.
    func patience(for request: DecidedRequest) -> Int64 {
        health.patience(
            request.scopes, limit: routes.all[request.route].rescueAfter, atMost: settings.upstream.firstByteTimeout.wholeMilliseconds)
    }

    func noteSuccess(of request: DecidedRequest, began: Int64) {
        let now = loop.batchMilliseconds
        health.succeed(request.scopes, took: now - began, limit: routes.all[request.route].rescueAfter, now: now)
        background.looks.note(request, fails: false)
    }

    /// The upstream has been reached.
    func noteReached() { health.reach(now: loop.batchMilliseconds) }

    // MARK: Those who ask for the same

    /// - Parameter mayWait: false if the exchange has waited for as long as it may.
    func join(_ place: RequestPlace, as exchange: Exchange, mayWait: Bool) -> (place: FlightPlace, flight: Flight?) {
        if let level, level.isForEachRequest(place.keys.own) { return (.alone, nil) }
        return collapsed.join(
            place.target.flight, now: loop.batchMilliseconds, by: user(of: exchange.request), as: exchange, mayWait: mayWait)
    }

    /// A write has succeeded.
    func noteWrite(_ request: DecidedRequest) {
        collapsed.noteWrite(by: user(of: request))
        cache?.shared.surprises.noteWrite(writer(of: request), now: loop.batchMilliseconds)
    }

    /// Whether the client of this request has just written to its target.
    func hasJustWritten(_ request: DecidedRequest) -> Bool {
        cache?.shared.surprises.hasWritten(writer(of: request), now: loop.batchMilliseconds) ?? false
    }

    /// A number for the client and the path that its request names; without credentials the client's address tells clients apart.
    private func writer(of request: DecidedRequest) -> UInt64 {
        var hasher = Hasher()
        let user = user(of: request)
        hasher.combine(user == 0 ? request.scopes.client : user)
        hasher.combine(request.head.pathAndQuery.prefix { $0 != UInt8(ascii: "?") })
        return max(1, UInt64(truncatingIfNeeded: hasher.finalize()))
    }

    /// By what the reads and the writes of one user have in common.
    private func user(of request: DecidedRequest) -> UInt64 {
        keys.maker.userWithoutForgeryTokens(of: request.head) ?? request.scopes.user
    }

    // MARK: Asking

    func ask(_ request: consuming UpstreamRequest, for fetch: Fetch) -> Transfer? { upstream.start(request, receiver: fetch) }

    /// The place of a request among all that are sent.
    func takeSentOrder() -> SentOrder { sentRequests.take() }

    func noteCookies(sentWith request: DecidedRequest) { cache?.noteCookies(sentWith: request.head, isReading: request.isReading) }

    // MARK: Time

    /// Milliseconds of the loop's clock, as exact as that is.
    var monotonicMilliseconds: Int64 { loop.time.monotonicMilliseconds }
}
