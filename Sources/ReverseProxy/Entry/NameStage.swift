// The stage `name`: gives a request a span and an ID, if the settings require them.

import Downstream
import Forwarding
import HTTPCore
import Reactor

extension ProxyShard {
    /// - Parameter stream: returns the ID to the client afterwards, if the settings require it.
    @inline(never)
    func name(_ request: inout ReceivedRequest, on stream: inout any ClientStream) {
        var head = request.head
        if let tracer = reporting.records.tracer { head = tracer.recorded(head, now: loop.batchWallMilliseconds) }
        if reporting.records.namesRequests {
            if settings.forwarding.requestID.isReturned {
                let named = reporting.records.name(head)
                (head, stream) = (named.head, ChangedStream(stream, .requestID(line: named.line)))
            } else {
                head = reporting.records.number(head)
            }
        }
        request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
    }
}
