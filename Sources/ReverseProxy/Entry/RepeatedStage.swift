// The stages `repeated` and `remembered`: send the response that an equal request received a moment ago.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending

extension ProxyShard {
    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        loop.assertOnLoop()
        let peer = stream.client
        guard let entry = memo?.find(bytes, isSecure: admission.countsAsSecure(peer), now: loop.batchWallMilliseconds),
            let head = entry.head, admission.mayRepeat(head, on: stream)
        else { return false }
        // With trusted proxies, the client is known only after admission.
        let client = admission.isIdle ? peer : stream.client
        guard admission.countsAsSecure(client) == entry.isSecure else { return false }
        if reporting.records.marksRequests {
            sendAgainMarked(entry, head, on: stream)
        } else {
            stream.sendAgain(entry.hit.response, endingWith: nil)
            finishRepeated(entry.hit, head, client)
        }
        return true
    }

    /// Sends a repeated hit to a request that was recognized by its bytes, which many requests may share.
    @inline(never)
    private func sendAgainMarked(_ entry: HitMemo.Entry, _ head: RequestHead, on stream: any ClientStream) {
        let client = stream.client
        let head = reporting.records.tracer?.recorded(head, now: loop.batchWallMilliseconds) ?? head
        var (request, line): (RequestHead, [UInt8]?) = (head, nil)
        if reporting.records.accessLog?.namesRequests == true {
            // The access log needs the ID later.
            if settings.forwarding.requestID.isReturned {
                (request, line) = reporting.records.name(head)
            } else {
                request = reporting.records.number(head)
            }
        } else if settings.forwarding.requestID.isReturned {
            line = reporting.records.nameLine(of: head)
        }
        stream.sendAgain(entry.hit.response, endingWith: line)
        finishRepeated(entry.hit, request, client)
    }

    /// Answers a request without content that equals a recent one in all parts that a hit depends on.
    /// - Returns: the request's key in the memo of hits; nil if the memo does not apply. Valid only while the request is being received.
    func remembered(_ received: Admitted, on stream: any ClientStream) throws(StageEnd) -> HitMemo.Request? {
        // A remembered hit does not say whether the connection stays open, or whether an absolute target names this listener.
        guard received.framing == .none, let memo, stream.staysOpen, received.head.target.first == UInt8(ascii: "/"),
            let request = memo.request(received.head, received.request.bytes, isSecure: admission.countsAsSecure(stream.client))
        else { return nil }
        guard let hit = memo.find(request, now: loop.batchWallMilliseconds) else { return request }
        let client = stream.client
        stream.sendComplete(hit.response, endingWith: nil)
        memo.keep(hit, request, received.head)
        finishRepeated(hit, received.head, client)
        throw .answered
    }

    private func finishRepeated(_ hit: KeptHit, _ head: RequestHead, _ client: RequestClient) {
        reporting.count(.repeatedHits)
        if hit.record.reasons.isClientIgnored { reporting.count(.clientDirectivesIgnored) }
        hit.record.number = reporting.nextNumber()
        reporting.finish(&hit.record, head, client, loop.batchMicroseconds)
    }
}
