// The stages of a request before the first decision, in order. Each stage is one function in `Entry`, which a table in `Sources/README.md`
// describes. It returns what later stages need, or ends with a `StageEnd`. Before these stages, `repeated` compares the unparsed request
// with recent ones. Three stages suspend a request: after `content` it continues at `key`, after `lookUp` and `fleet` at `lookUp`.

import Downstream
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending

/// Ends the stages before the last one. `@unchecked Sendable` because it does not leave the shard's loop.
struct StageEnd: Error, @unchecked Sendable {
    /// The exchange that responds later or suspends the request; nil if the response was sent.
    let exchange: (any ClientExchange)?

    init(_ exchange: (any ClientExchange)?) { self.exchange = exchange }

    static var answered: StageEnd { StageEnd(nil) }
}

extension RequestEntry {
    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        enter(request, forNobody: nil, on: stream)
    }

    /// Runs the stages of a new request.
    /// - Parameter reason: why no API serves the request; nil if this one does.
    /// - Returns: the exchange that responds later; nil if the response was sent.
    func enter(_ received: ReceivedRequest, forNobody reason: AccessRefusal?, on client: any ClientStream) -> (any ClientExchange)? {
        context.loop.assertOnLoop()
        var (request, stream) = (received, client)
        do throws(StageEnd) {
            if context.reporting.records.marksRequests { name(&request, on: &stream) }
            let admitted = try access(request, isForNobody: reason != nil, on: stream)
            try ownPage(admitted, on: stream)
            try acmeChallenge(admitted, on: stream)
            try api(admitted, reason, on: stream)
            try crossOrigin(admitted, on: &stream)
            try tunnel(admitted, on: stream)
            let body = try content(admitted, on: stream)
            let memoKey = try remembered(admitted, on: stream)
            return enterAtKey(admitted.head, body, .absent, memoKey, on: stream)
        } catch {
            return error.exchange
        }
    }

    /// Runs the stages from `key` on.
    func enterAtKey(
        _ head: RequestHead, _ body: RequestBody, _ content: ContentInKey, _ memoKey: HitMemo.Request? = nil, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        do throws(StageEnd) {
            var keyed = try key(head, body, content, memoKey, on: stream)
            var progress = LookUpProgress()
            do throws(NotInMemory) {
                return try enterAtLookUp(head, body, keyed, &progress, on: stream)
            } catch {
                keyed.memoKey = nil
                return LookUpWait(self, head, body, keyed, progress, on: stream, error)
            }
        } catch {
            return error.exchange
        }
    }

    /// Runs the stages from `lookUp` on.
    /// - Throws: data that is not in memory. The request enters here again when the data is loaded.
    func enterAtLookUp(
        _ head: RequestHead, _ body: RequestBody, _ keyed: Keyed, _ progress: inout LookUpProgress, on stream: any ClientStream
    ) throws(NotInMemory) -> (any ClientExchange)? {
        guard let cache = context.cache else { return pass(head, body, on: stream) }
        if let lookedUp = progress.stillLookedUp(in: cache) {
            return decide(facts(lookedUp, head, on: stream), head, body, keyed, lookedUp, on: stream)
        }
        guard var lookedUp = try lookUp(head, keyed, &progress, in: cache, on: stream) else { return nil }
        let facts = facts(lookedUp, head, on: stream)
        if context.coordination.level.isShared { try fleet(facts, head, &lookedUp, &progress, of: stream.client) }
        return decide(facts, head, body, keyed, lookedUp, on: stream)
    }
}
