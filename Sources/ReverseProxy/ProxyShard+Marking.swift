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
        // Its bytes are no longer all of it.
        return ReceivedRequest(head: request.head.adding(marks), framing: request.framing, bytes: nil)
    }

    /// Whether requests of this client are no more than their bytes.
    func isUnmarked(_ stream: any ClientStream) -> Bool { !mayMark || marks(of: stream).isEmpty }

    private func marks(of stream: any ClientStream) -> [(name: String, value: [UInt8])] {
        var marks: [(name: String, value: [UInt8])] = []
        if marksScheme, stream.client.isSecure { marks.append((ConnectionField.scheme, Array("https".utf8))) }
        if let value = stream.security?.certificateField { marks.append((ConnectionField.certificate, value)) }
        return marks
    }
}
