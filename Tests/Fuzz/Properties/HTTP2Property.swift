// For any bytes, an HTTP/2 session neither traps nor reports invalid events. The result does not depend on how the bytes are split. A
// request head is refused, or the HTTP/1.1 parser reads it with equal meaning.

import HTTPCore

@testable import Downstream
@testable import HTTP2

enum HTTP2Property {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
        // Half of the inputs start after the connection preface, so that the fuzzer gets past it.
        let input = bytes.first.map { $0 < 0x80 } == true ? preface + bytes.dropFirst() : bytes
        let whole = try told(input, split: input.count)
        for split in splits(of: input.count) {
            let parts = try told(input, split: split)
            // A split frame counts as more parts of a field section, so the limits may apply earlier.
            if whole.calm, parts.calm { try expect(parts.heads == whole.heads, "bytes split at \(split) bring other heads") }
        }
    }

    private static func told(_ bytes: [UInt8], split: Int) throws(Violation) -> Telling {
        guard let session = try? HTTP2Session(.server) else { throw Violation(description: "no session") }
        let telling = Telling(session)
        var walk = HTTP2FrameWalk()
        for piece in [bytes[..<split], bytes[split...]] {
            Array(piece).withUnsafeBytes { piece in
                var position = 0
                while walk.next(piece, &position) != nil {}
                _ = session.receive(piece, notifying: telling)
                let space = UnsafeMutableRawBufferPointer.allocate(byteCount: HTTP2Session.frameBytes, alignment: 1)
                defer { space.deallocate() }
                for _ in 0..<64 where session.write(into: space, notifying: telling) == 0 { break }
            }
        }
        if let fault = telling.fault { throw Violation(description: fault) }
        return telling
    }
}

private final class Telling: HTTP2SessionDelegate {
    let session: HTTP2Session
    var heads: [[UInt8]] = []
    var fault: String?
    var calm = true
    private var open: Set<Int32> = []

    init(_ session: HTTP2Session) { self.session = session }

    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on stream: Int32, endsStream: Bool) {
        guard kind == .head else { return }
        if !open.insert(stream).inserted { fault = "a stream was opened twice" }
        guard case .head(let head, _) = HTTP2RequestHead.read(section, endsStream: endsStream, limits: RequestLimits()) else { return }
        let written = head.fields.bytes
        heads.append(written)
        var parser = RequestParser()
        let result = parser.parse(written.span, limits: RequestLimits())
        guard case .head(let again, _, let consumed) = result, consumed == written.count, again.method == head.method,
            again.target == head.target,
            again.fields.count == head.fields.count
        else {
            fault = "HTTP/1.1's parser reads a head in another way"
            return
        }
        session.submitResponse(HTTP2FieldList(), hasContent: true, on: stream)
    }

    func receivedContent(_ bytes: UnsafeRawBufferPointer, on stream: Int32) {
        if !open.contains(stream) { fault = "content on a stream that is not open" }
        session.consume(bytes.count, on: stream)
    }

    func receivedEnd(of stream: Int32) {}
    func streamClosed(_ stream: Int32, _ code: HTTP2ErrorCode) { open.remove(stream) }
    func offerContent(of stream: Int32, limit: Int) -> HTTP2ContentOffer { .bytes(min(3, limit), isLast: true) }

    func takeContent(of stream: Int32, into place: UnsafeMutableRawBufferPointer) {
        place.initializeMemory(as: UInt8.self, repeating: 0)
    }

    func sentGoAway(_ code: HTTP2ErrorCode) { if code == .enhanceYourCalm { calm = false } }
}
