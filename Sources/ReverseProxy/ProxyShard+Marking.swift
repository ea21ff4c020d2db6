// Adds what the connection reveals about the client to the request's fields (`ConnectionField`), so that keys and credentials include it.

import CachePolicy
import Downstream
import HTTPCore

extension ProxyShard {
    /// The request with fields for what its connection reveals about the client.
    func marked(_ request: ReceivedRequest, of stream: any ClientStream) -> ReceivedRequest {
        let marks = marks(of: stream)
        guard !marks.isEmpty else { return request }
        // With a certificate, the request's bytes do not identify it. The memo of hits takes the scheme into account (`countsAsSecure`).
        let bytes = hasNoCertificateMark(stream) ? request.bytes : nil
        return ReceivedRequest(head: request.head.adding(marks), framing: request.framing, bytes: bytes)
    }

    func hasNoCertificateMark(_ stream: any ClientStream) -> Bool { !admission.mayMark || stream.security?.certificateField == nil }

    /// Whether responses to this client may differ from those by http.
    func countsAsSecure(_ client: RequestClient) -> Bool { admission.marksScheme && client.isSecure }

    private func marks(of stream: any ClientStream) -> [(name: String, value: [UInt8])] {
        var marks: [(name: String, value: [UInt8])] = []
        if countsAsSecure(stream.client) { marks.append((ConnectionField.scheme, Array("https".utf8))) }
        if let value = stream.security?.certificateField { marks.append((ConnectionField.certificate, value)) }
        return marks
    }
}
