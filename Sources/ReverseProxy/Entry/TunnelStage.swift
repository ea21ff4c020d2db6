// The stage `tunnel`: forwards a request without content that needs its own upstream connection, because it switches protocols or because
// its client authenticates the connection.

import Downstream
import HTTPCore

extension RequestEntry {
    func tunnel(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard request.framing == .none else { return }
        if routes.upgrade(request.head) != nil { throw StageEnd(pass(request.head, .streamed(.tunnel), on: stream)) }
        if connections.isOfConnectionUser(request.head, on: stream) { throw StageEnd(pass(request.head, .none, on: stream)) }
    }
}
