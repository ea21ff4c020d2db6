// Operations that exchanges and fetches need for nearly every request. They are methods of the shard, because access to its parts from
// outside would count references, which takes longer than most of these operations.

import CachePolicy
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

    /// Maximum time that a request with a stored response waits for the upstream, in milliseconds; 0 for no limit.
    func patience(for request: DecidedRequest) -> Int64 {
        health.patience(
            request.scopes, limit: routes.all[request.route].rescueAfter, atMost: settings.upstream.firstByteTimeout.wholeMilliseconds)
    }

    func noteSuccess(of request: DecidedRequest, began: Int64) {
        let now = loop.batchMilliseconds
        health.succeed(request.scopes, took: now - began, limit: routes.all[request.route].rescueAfter, now: now)
        background.looks.note(request, fails: false)
    }

    func noteFailure(of request: DecidedRequest, _ cause: FailureCause, began: Int64) {
        let now = loop.batchMilliseconds
        guard request.isReading else { return health.failWriting(request.scopes, cause, began: began, now: now) }
        health.fail(request.scopes, cause, began: began, now: now)
        background.looks.note(request, fails: true)
    }

    /// Records that the upstream demands a pause by Retry-After, in milliseconds.
    func notePause(of request: DecidedRequest, _ status: Status, retryAfter: Int64) {
        health.pause(request.scopes, status, retryAfter: retryAfter, now: loop.batchMilliseconds)
    }

    /// Records that the upstream was reached.
    func noteReached() { health.reach(now: loop.batchMilliseconds) }

    // MARK: Collapsed requests

    /// - Parameter mayWait: false if the exchange has waited for its maximum time.
    func join(_ place: RequestPlace, as exchange: Exchange, mayWait: Bool) -> (place: FlightPlace, flight: Flight?) {
        if let level, level.isForEachRequest(place.keys.own) { return (.alone, nil) }
        return collapsed.join(
            place.target.flight, now: loop.batchMilliseconds, by: user(of: exchange.request), as: exchange, mayWait: mayWait)
    }

    /// Records a successful write.
    func noteWrite(_ request: DecidedRequest) {
        collapsed.noteWrite(by: user(of: request))
        cache?.shared.surprises.noteWrite(writer(of: request), now: loop.batchMilliseconds)
    }

    /// Whether the client of this request has just written to its target.
    func hasJustWritten(_ request: DecidedRequest) -> Bool {
        cache?.shared.surprises.hasWritten(writer(of: request), now: loop.batchMilliseconds) ?? false
    }

    /// A number for the client and the path of its request. Without credentials, the client's address identifies the client.
    private func writer(of request: DecidedRequest) -> UInt64 {
        var hasher = Hasher()
        let user = user(of: request)
        hasher.combine(user == 0 ? request.scopes.client : user)
        hasher.combine(request.head.pathAndQuery.prefix { $0 != UInt8(ascii: "?") })
        return max(1, UInt64(truncatingIfNeeded: hasher.finalize()))
    }

    /// A number for the user, which the user's reads and writes have in common.
    private func user(of request: DecidedRequest) -> UInt64 {
        keys.maker.userWithoutForgeryTokens(of: request.head) ?? request.scopes.user
    }

    // MARK: Time

    /// Current time in milliseconds of the loop's clock, not the time of the batch.
    var monotonicMilliseconds: Int64 { loop.time.monotonicMilliseconds }
}
