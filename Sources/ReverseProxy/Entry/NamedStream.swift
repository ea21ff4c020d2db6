// The client's stream if responses carry the request's ID (`log.request_id`): its line replaces the ID of the upstream or of a stored
// response. It wraps the stream, so it covers every way to send a response.

import CachePolicy
import Downstream
import Forwarding
import HTTPCore

final class NamedStream: StreamAround {
    let stream: any ClientStream
    private let line: [UInt8]

    /// - Parameter line: field line with its line end.
    init(_ stream: any ClientStream, line: [UInt8]) { (self.stream, self.line) = (stream, line) }

    // MARK: Changed methods

    /// - Returns: the sent bytes, with the ID in the last line (see `sendComplete`, `sendAgain`).
    @discardableResult
    func sendWhole(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, body: WholeBody) -> UnsafeRawBufferPointer? {
        followed(lines).withUnsafeBytes { lines in
            guard let others = RequestID.removing(from: head) else { return stream.sendWhole(head: head, lines: lines, body: body) }
            return others.withUnsafeBytes { stream.sendWhole(head: $0, lines: lines, body: body) }
        }
    }

    func sendProduced(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, content producer: any ContentProducer) {
        (RequestID.removing(from: head) ?? Array(head)).withUnsafeBytes { head in
            followed(lines).withUnsafeBytes { stream.sendProduced(head: head, lines: $0, content: producer) }
        }
    }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        if let others = head.withUnsafeBytes({ RequestID.removing(from: $0) }) {
            stream.startResponse(head: others, lines: lines + line, framing: framing, readAhead: readAhead)
        } else {
            stream.startResponse(head: head, lines: lines + line, framing: framing, readAhead: readAhead)
        }
    }

    private func followed(_ lines: UnsafeRawBufferPointer) -> [UInt8] {
        Array(atMost: lines.count + line.count) { all in
            all.put(lines.baseAddress?.assumingMemoryBound(to: UInt8.self), count: lines.count)
            all.put(line)
        }
    }

    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) { stream.sendComplete(response, endingWith: self.line) }
    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) { stream.sendAgain(response, endingWith: self.line) }
    func roomNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int { stream.roomNeeded(lines: lines, framing) + line.count }
}
