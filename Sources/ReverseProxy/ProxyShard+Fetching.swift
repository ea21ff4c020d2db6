// What fetches ask of their shard.

import CachePolicy
import Decisions
import Downstream
import HTTPCore
import Reactor
import ResponseCache
import Upstream

extension ProxyShard {
    func noteSuccess(of request: DecidedRequest, began: Int64) {
        coordination.noteSuccess(of: request, began: began)
        background.looks.note(request, fails: false)
    }

    func ask(_ request: consuming UpstreamRequest, for fetch: Fetch) -> Transfer? { upstream.start(request, receiver: fetch) }

    /// Number of a request in the order of all requests sent.
    func takeSentOrder() -> SentOrder { process.sentRequests.take() }

    func noteCookies(sentWith request: DecidedRequest) { cache?.noteCookies(sentWith: request.head, isReading: request.isReading) }

    // MARK: Time

    /// Current time in milliseconds of the loop's clock, not the time of the batch.
    var monotonicMilliseconds: Int64 { loop.time.monotonicMilliseconds }
}
