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
    func sendWhole(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, body: WholeBody) -> UnsafeRawBufferPointer? {
        stream.sendWhole(head: CrossOriginRules.strip(head), lines: Array(lines) + self.lines, body: body)
        return nil
    }

    func sendProduced(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, content producer: any ContentProducer) {
        CrossOriginRules.strip(head).withUnsafeBytes { head in
            (Array(lines) + self.lines).withUnsafeBytes { stream.sendProduced(head: head, lines: $0, content: producer) }
        }
    }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        stream.startResponse(
            head: head.withUnsafeBytes { CrossOriginRules.strip($0) }, lines: lines + self.lines, framing: framing, readAhead: readAhead)
    }
}
