// The stage `access`: refuses a request that its client is not permitted to make (`Admission`).

import Decisions
import Downstream
import Forwarding
import HTTPCore

/// A request that its client is permitted to make.
struct Admitted {
    let request: ReceivedRequest

    fileprivate init(_ request: ReceivedRequest) { self.request = request }

    var head: RequestHead { request.head }
    var framing: ContentFraming { request.framing }
}

extension RequestEntry {
    /// - Parameter isForNobody: whether no API serves the request.
    func access(_ received: consuming ReceivedRequest, isForNobody: Bool, on stream: any ClientStream) throws(StageEnd) -> Admitted {
        var request = received
        if let refusal = admission.admit(&request, isForNobody: isForNobody, servesOwnPages: own.pages != nil, on: stream) {
            throw StageEnd(refuse(request, refusal, isForNobody: isForNobody, on: stream))
        }
        return Admitted(request)
    }

    /// Refuses a request without waiting for its content.
    /// - Parameter isForNobody: whether no API serves the request.
    func refuse(
        _ request: ReceivedRequest, _ refusal: AccessRefusal, isForNobody: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(request.head, on: stream)
        // A CONNECT request names another server by definition.
        facts.refusal = request.head.method == .connect && refusal.isAboutTarget ? .connect : .access(refusal)
        let body: RequestBody = request.framing == .none ? .none : .streamed(.unread(request.framing))
        return start(facts, request.head, body, .refused(isForNobody: isForNobody), on: stream)
    }
}
