// The stage `name`: gives a request a span and an ID, if the settings require them.

import Downstream
import Forwarding
import HTTPCore
import Reactor

extension RequestEntry {
    /// - Parameter stream: returns the ID to the client afterwards, if the settings require it.
    @inline(never)
    func name(_ request: inout ReceivedRequest, on stream: inout any ClientStream) {
        let records = context.reporting.records
        var head = request.head
        if let tracer = records.tracer { head = tracer.recorded(head, now: context.loop.batchWallMilliseconds) }
        if records.namesRequests {
            if settings.forwarding.requestID.isReturned {
                let named = records.name(head)
                (head, stream) = (named.head, ChangedStream(stream, .requestID(line: named.line)))
            } else {
                head = records.number(head)
            }
        }
        request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
    }
}
