// The client's stream on a route with CORS rules of the operator: the rules' lines replace the upstream's CORS fields in every response. It
// wraps the stream, so it covers every way to send a response.

import CachePolicy
import Downstream
import HTTPCore

final class CrossOriginStream: StreamAround {
    let stream: any ClientStream
    private let lines: [UInt8]

    init(_ stream: any ClientStream, _ rules: CrossOriginRules, _ head: RequestHead) {
        self.stream = stream
        lines = rules.lines(for: head)
    }

    // MARK: Changed methods

    /// - Returns: nil, so that the response is not repeated for a request of another origin.
    @discardableResult
    func sendWhole(head: Span<UInt8>, lines: Span<UInt8>, body: WholeBody) -> SentBytes? {
        stream.sendWhole(head: CrossOriginRules.strip(head), lines: Array(copying: lines) + self.lines, body: body)
        return nil
    }

    func sendProduced(head: Span<UInt8>, lines: Span<UInt8>, content producer: any ContentProducer) {
        let (head, lines) = (CrossOriginRules.strip(head), Array(copying: lines) + self.lines)
        stream.sendProduced(head: head.span, lines: lines.span, content: producer)
    }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        stream.startResponse(
            head: CrossOriginRules.strip(head.span), lines: lines + self.lines, framing: framing, readAhead: readAhead)
    }
}
