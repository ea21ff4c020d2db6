// The stage `access`: resolves the client of a request, refuses what the client may not request, and removes or adds fields so that no
// later stage depends on what an untrusted client claims.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore

/// A request that its client may make.
struct Admitted {
    let request: ReceivedRequest

    fileprivate init(_ request: ReceivedRequest) { self.request = request }

    var head: RequestHead { request.head }
    var framing: ContentFraming { request.framing }
}

extension ProxyShard {
    /// - Parameter isForNobody: whether no API serves the request.
    func access(_ received: consuming ReceivedRequest, isForNobody: Bool, on stream: any ClientStream) throws(StageEnd) -> Admitted {
        var request = received
        removeNamed(from: &request)
        if let refusal = refusal(of: request, isForNobody: isForNobody, on: stream), !isForNobody || refusal != .misdirected {
            throw StageEnd(refuse(request, refusal, isForNobody: isForNobody, on: stream))
        }
        // The client address has been resolved.
        if admission.trustsSome { removeClaims(from: &request, on: stream) }
        if mayMark { mark(&request, of: stream) }
        return Admitted(request)
    }

    /// Returns nil if the request is admitted.
    /// - Parameter isForNobody: whether no API serves the request.
    private func refusal(of request: ReceivedRequest, isForNobody: Bool, on stream: any ClientStream) -> AccessRefusal? {
        if hasBasePath, PathReadings(request.head.pathAndQuery)?.mayLeaveRoot == true { return .outside }
        if admission.isIdle, request.head.target.first == UInt8(ascii: "/") { return nil }
        let refusal = admission.admit(request.head, isForNobody: isForNobody, on: stream)
        // The proxy's own pages are not data of the upstream. Health checks may name Cistern by its address.
        return refusal == .misdirected && ownPages != nil && OwnPage(request.head) != nil ? nil : refusal
    }

    /// Removes the fields that the request's Connection field names. Credentials, and what proxies say about the client, stay.
    private func removeNamed(from request: inout ReceivedRequest) {
        guard request.head.contains(.connection) else { return }
        let credentials = settings.policy.credentials.names
        let head = request.head.removingNamed { credentials.contains($0) || messages.requestFields.isClaim($0) }
        request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
    }

    /// Removes what an untrusted client says about its origin. The upstream does not receive these fields, and no key or variant depends on
    /// them. Also removes the bytes, because equal bytes have another meaning from a trusted proxy.
    private func removeClaims(from request: inout ReceivedRequest, on stream: any ClientStream) {
        let head = admission.isBelieved(stream) ? request.head : messages.requestFields.withoutClaims(request.head)
        request = ReceivedRequest(head: head, framing: request.framing, bytes: nil)
    }

    /// Whether this client may receive the repeated hit too.
    func mayRepeat(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        admission.isIdle || admission.admit(head, on: stream) == nil
    }

    /// Refuses a request without waiting for its content.
    /// - Parameter isForNobody: whether no API serves the request.
    func refuse(
        _ request: ReceivedRequest, _ refusal: AccessRefusal, isForNobody: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(request.head, on: stream)
        // A CONNECT request names another server by definition.
        facts.refusal = request.head.method == .connect && refusal.isOfPlace ? .connect : .access(refusal)
        let body: RequestBody = request.framing == .none ? .none : .streamed(.unread(request.framing))
        return start(facts, request.head, body, .refused(isForNobody: isForNobody), on: stream)
    }

    // MARK: Fields of the connection

    /// Adds fields for what the connection reveals about the client (`ConnectionField`), so that keys and credentials include it.
    private func mark(_ request: inout ReceivedRequest, of stream: any ClientStream) {
        let marks = marks(of: stream)
        guard !marks.isEmpty else { return }
        // With a certificate, the request's bytes do not identify it. The memo of hits takes the scheme into account (`countsAsSecure`).
        let bytes = hasNoCertificateMark(stream) ? request.bytes : nil
        request = ReceivedRequest(head: request.head.adding(marks), framing: request.framing, bytes: bytes)
    }

    func hasNoCertificateMark(_ stream: any ClientStream) -> Bool { !mayMark || stream.security?.certificateField == nil }

    /// Whether responses to this client may differ from those by http.
    func countsAsSecure(_ client: RequestClient) -> Bool { marksScheme && client.isSecure }

    private func marks(of stream: any ClientStream) -> [(name: String, value: [UInt8])] {
        var marks: [(name: String, value: [UInt8])] = []
        if countsAsSecure(stream.client) { marks.append((ConnectionField.scheme, Array("https".utf8))) }
        if let value = stream.security?.certificateField { marks.append((ConnectionField.certificate, value)) }
        return marks
    }
}
