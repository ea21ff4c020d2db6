// A client's stream on a route for which the operator decides what scripts of other origins may do: every response, whoever makes it, gets the
// operator's lines in the place of the upstream's. Around the stream, so that no way that a response can go out is forgotten.

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

    // MARK: What is changed

    /// - Returns: nil: another request, of another origin, must not get the same.
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
