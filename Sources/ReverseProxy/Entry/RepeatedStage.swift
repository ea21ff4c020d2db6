// The stages `repeated` and `remembered`: send the response that an equal request received a moment ago.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending

extension RequestEntry {
    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        context.loop.assertOnLoop()
        let peer = stream.client
        guard let entry = context.memo?.find(bytes, isSecure: admission.countsAsSecure(peer), now: context.loop.batchWallMilliseconds),
            let head = entry.head, admission.mayRepeat(head, on: stream)
        else { return false }
        // With trusted proxies, the client is known only after admission.
        let client = admission.isIdle ? peer : stream.client
        guard admission.countsAsSecure(client) == entry.isSecure else { return false }
        if context.reporting.records.marksRequests {
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
        let (client, records) = (stream.client, context.reporting.records)
        let head = records.tracer?.recorded(head, now: context.loop.batchWallMilliseconds) ?? head
        var (request, line): (RequestHead, [UInt8]?) = (head, nil)
        if records.accessLog?.namesRequests == true {
            // The access log uses the ID later.
            if settings.forwarding.requestID.isReturned {
                (request, line) = records.name(head)
            } else {
                request = records.number(head)
            }
        } else if settings.forwarding.requestID.isReturned {
            line = records.nameLine(of: head)
        }
        stream.sendAgain(entry.hit.response, endingWith: line)
        finishRepeated(entry.hit, request, client)
    }

    /// Answers a request without content that equals a recent one in all parts that a hit depends on.
    /// - Returns: the request's key in the memo of hits; nil if the memo does not apply. Valid only while the request is being received.
    func remembered(_ received: Admitted, on stream: any ClientStream) throws(StageEnd) -> HitMemo.Request? {
        // A remembered hit does not determine whether the connection stays open, or whether an absolute target names this listener.
        guard received.framing == .none, let memo = context.memo, stream.staysOpen, received.head.target.first == UInt8(ascii: "/"),
            let request = memo.request(received.head, received.request.bytes, isSecure: admission.countsAsSecure(stream.client))
        else { return nil }
        guard let hit = memo.find(request, now: context.loop.batchWallMilliseconds) else { return request }
        let client = stream.client
        stream.sendComplete(hit.response, endingWith: nil)
        memo.keep(hit, request, received.head)
        finishRepeated(hit, received.head, client)
        throw .answered
    }

    private func finishRepeated(_ hit: MemoizedHit, _ head: RequestHead, _ client: RequestClient) {
        context.reporting.count(.repeatedHits)
        if hit.record.reasons.isClientIgnored { context.reporting.count(.clientDirectivesIgnored) }
        hit.record.number = context.reporting.nextNumber()
        context.reporting.finish(&hit.record, head, client, context.loop.batchMicroseconds)
    }
}
