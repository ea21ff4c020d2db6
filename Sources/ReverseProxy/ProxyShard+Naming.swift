// Request IDs.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import Sending

extension ProxyShard {
    /// Gives the request a span and an ID, if the settings require them.
    @inline(never)
    func takeMarked(_ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream) -> (any ClientExchange)? {
        var request = request
        if let tracer = reporting.records.tracer {
            let head = tracer.recorded(request.head, now: loop.batchWallMilliseconds)
            request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
        }
        guard reporting.records.namesRequests else { return take(request, forNobody: reason, on: stream) }
        return takeNamed(request, forNobody: reason, on: stream)
    }

    /// Gives the request an ID, and returns it to the client if the settings require it.
    private func takeNamed(
        _ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        guard settings.forwarding.requestID.isReturned else {
            let head = reporting.records.number(request.head)
            return take(ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes), forNobody: reason, on: stream)
        }
        let (head, line) = reporting.records.name(request.head)
        let request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
        return take(request, forNobody: reason, on: NamedStream(stream, line: line))
    }

    /// Sends a repeated hit to a request that was recognized by its bytes, which many requests may share.
    @inline(never)
    func sendAgainMarked(_ entry: HitMemo.Entry, _ head: RequestHead, on stream: any ClientStream) {
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
}
