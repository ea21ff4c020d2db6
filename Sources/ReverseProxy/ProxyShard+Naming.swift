// Request IDs, and access log lines, which contain them.

import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import Sending

extension ProxyShard {
    /// The request ID for the upstream; nil if the client's fields are forwarded unchanged.
    func sentName(of head: RequestHead) -> [UInt8]? {
        records.namesRequests && requestIDUse.isSent ? records.name(of: head) : nil
    }

    /// Access log line of a completed exchange.
    @inline(never)
    func accessLine(
        _ record: borrowing ExchangeRecord, _ trace: borrowing ExchangeTrace, _ head: RequestHead, _ client: RequestClient, _ log: AccessLog
    ) -> [UInt8] {
        var line = AccessLogLine(head, wall: loop.batchWallMilliseconds)
        line.client = AccessLogLine.Client(client.text, subject: client.subject, tls: client.tls)
        line.name = log.namesRequests ? records.name(of: head) : nil
        if trace.api != ExchangeTrace.noAPI { line.api = shared.name }
        if trace.route != ExchangeTrace.noRoute { line.route = routes.all[Int(trace.route)].name }
        if trace.upstream.status > 0 { line.upstreamAddress = upstreamAddresses[Int(trace.upstream.address)] }
        return line.make(record, trace, log.format, log.fields)
    }
}
