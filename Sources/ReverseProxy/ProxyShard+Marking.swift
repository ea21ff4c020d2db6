// What a connection says of its client counts as what a request says itself: it is put among the request's fields, where keys and credentials are
// made, and from there it goes wherever they go (`ConnectionField`).

import CachePolicy
import Downstream
import HTTPCore

extension ProxyShard {
    /// The request with what is known of its client beside what it says.
    func marked(_ request: ReceivedRequest, of stream: any ClientStream) -> ReceivedRequest {
        let marks = marks(of: stream)
        guard !marks.isEmpty else { return request }
        // With a certificate its bytes are no longer all of it; of the scheme the memo of hits knows (`countsAsSecure`).
        let bytes = hasNoCertificateMark(stream) ? request.bytes : nil
        return ReceivedRequest(head: request.head.adding(marks), framing: request.framing, bytes: bytes)
    }

    func hasNoCertificateMark(_ stream: any ClientStream) -> Bool { !mayMark || stream.security?.certificateField == nil }

    /// Whether this client's request gets other responses than the same request by http.
    func countsAsSecure(_ client: RequestClient) -> Bool { marksScheme && client.isSecure }

    private func marks(of stream: any ClientStream) -> [(name: String, value: [UInt8])] {
        var marks: [(name: String, value: [UInt8])] = []
        if countsAsSecure(stream.client) { marks.append((ConnectionField.scheme, Array("https".utf8))) }
        if let value = stream.security?.certificateField { marks.append((ConnectionField.certificate, value)) }
        return marks
    }
}
