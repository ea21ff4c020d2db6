// Request IDs, and access log lines, which contain them.

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
        if let tracer = records.tracer {
            let head = tracer.recorded(request.head, now: loop.batchWallMilliseconds)
            request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
        }
        guard records.namesRequests else { return take(request, forNobody: reason, on: stream) }
        return takeNamed(request, forNobody: reason, on: stream)
    }

    /// Gives the request an ID, and returns it to the client if the settings require it.
    private func takeNamed(
        _ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        guard requestIDUse.isReturned else {
            let head = records.number(request.head)
            return take(ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes), forNobody: reason, on: stream)
        }
        let (head, line) = records.name(request.head)
        let request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
        return take(request, forNobody: reason, on: NamedStream(stream, line: line))
    }

    /// Sends a repeated hit to a request that was recognized by its bytes, which many requests may share.
    @inline(never)
    func sendAgainMarked(_ entry: HitMemo.Entry, _ head: RequestHead, on stream: any ClientStream) {
        let client = stream.client
        let head = records.tracer?.recorded(head, now: loop.batchWallMilliseconds) ?? head
        var (request, line): (RequestHead, [UInt8]?) = (head, nil)
        if records.accessLog?.namesRequests == true {
            // The access log needs the ID later.
            if requestIDUse.isReturned { (request, line) = records.name(head) } else { request = records.number(head) }
        } else if requestIDUse.isReturned {
            line = records.nameLine(of: head)
        }
        stream.sendAgain(entry.hit.response, endingWith: line)
        finishRepeated(entry.hit, request, client)
    }

    /// The request ID for the upstream; nil if the client's fields are forwarded unchanged.
    func sentName(of head: RequestHead) -> [UInt8]? {
        records.namesRequests && requestIDUse.isSent ? records.name(of: head) : nil
    }

    /// Access log line of a completed exchange.
    @inline(never)
    func accessLine(
        _ record: borrowing ExchangeRecord, _ head: RequestHead, _ client: RequestClient, _ log: AccessLog
    ) -> [UInt8] {
        var line = AccessLogLine(head)
        line.client = AccessLogLine.Client(client.text, subject: client.subject, tls: client.tls)
        line.name = log.namesRequests ? records.name(of: head) : nil
        if record.api != ExchangeRecord.noAPI { line.api = shared.name }
        if record.route != ExchangeRecord.noRoute { line.route = routes.all[Int(record.route)].name }
        if record.upstream.status > 0 { line.upstreamAddress = upstreamAddresses[Int(record.upstream.address)] }
        return line.make(record, log.format, log.fields)
    }
}
