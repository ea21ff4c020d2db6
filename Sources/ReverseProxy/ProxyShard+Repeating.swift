// Repeated hits: serves the response that an identical request received a moment ago.

import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Sending

extension ProxyShard {
    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        loop.assertOnLoop()
        let peer = stream.client
        guard let entry = memo?.find(bytes, isSecure: countsAsSecure(peer), now: loop.batchWallMilliseconds),
            let head = entry.head, mayRepeat(head, on: stream), hasNoCertificateMark(stream)
        else { return false }
        // With trusted proxies, the client is known only after admission.
        let client = admission.isIdle ? peer : stream.client
        guard countsAsSecure(client) == entry.isSecure else { return false }
        if records.marksRequests {
            sendAgainMarked(entry, head, on: stream)
        } else {
            stream.sendAgain(entry.hit.response, endingWith: nil)
            finishRepeated(entry.hit, head, client)
        }
        return true
    }

    /// Processes a request without content, which may equal a recent one.
    func considerPlain(_ received: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        var arrival = arrival(.none)
        // A remembered hit does not say whether the connection stays open, or whether an absolute target names this listener.
        guard let memo, stream.staysOpen, received.head.target.first == UInt8(ascii: "/"),
            let request = memo.request(received.head, received.bytes, isSecure: countsAsSecure(stream.client))
        else {
            return consider(received.head, .none, &arrival, on: stream)
        }
        if let hit = memo.find(request, now: loop.batchWallMilliseconds) {
            let client = stream.client
            stream.sendComplete(hit.response, endingWith: nil)
            memo.keep(hit, request, received.head)
            finishRepeated(hit, received.head, client)
            return nil
        }
        arrival.request = request
        return consider(received.head, .none, &arrival, on: stream)
    }

    func finishRepeated(_ hit: KeptHit, _ head: RequestHead, _ client: RequestClient) {
        countRepeated()
        if hit.trace.reasons.isClientIgnored { countIgnoredDirectives() }
        hit.trace.number = records.why.nextNumber()
        finish(&hit.record, &hit.trace, head, client, loop.batchMicroseconds)
    }

    /// Remembers what a plain hit has sent, if such requests are frequent.
    func remember(_ head: RequestHead, _ arrival: Arrival, _ makeHit: (FindingBasis) -> KeptHit) {
        guard let memo, let request = arrival.request, let basis = arrival.basis else { return }
        memo.keep(request, head, basis) { makeHit(basis) }
    }
}
