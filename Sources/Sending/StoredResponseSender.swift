// Sends stored responses: head and body as they lie in the store, and the lines that are made anew each time.

import CachePolicy
import ContentCodings
import Downstream
import Forwarding
import HTTPCore
import Reactor

package struct StoredResponseSender {
    /// Targeted fields that clients do not get, in lower case. They stay in the store: after a 304 without them they still say how long the
    /// response is fresh.
    package let hiddenFields: [[UInt8]]
    /// Stored responses of at least this length go out with gzip to clients that ask for it; 0: never.
    private let compressFromBytes: Int
    private let encoder = GzipEncoder()
    private let coder: LoopWorker

    /// What of the store goes out.
    package struct Response {
        let head: UnsafeRawBufferPointer
        let metadata: StoredMetadata
        let body: WholeBody

        /// - Parameters:
        ///   - head: perhaps just brought up to date.
        ///   - metadata: what belongs to that head.
        package init(head: UnsafeRawBufferPointer, metadata: StoredMetadata, body: WholeBody) {
            (self.head, self.metadata, self.body) = (head, metadata, body)
        }
    }

    package struct Sent {
        package var status: Status
        /// Of content.
        package var bodyBytes: Int
        /// All of it, where it was one piece (`ClientStream.sendWhole`).
        package var bytes: UnsafeRawBufferPointer?
    }

    /// Where it goes, and the lines that are made anew.
    private struct Output {
        let lines: UnsafeRawBufferPointer
        let stream: any ClientStream

        func send(_ head: UnsafeRawBufferPointer, _ body: WholeBody) -> UnsafeRawBufferPointer? {
            stream.sendWhole(head: head, lines: lines, body: body)
        }

        func send(_ head: [UInt8], _ body: WholeBody) -> UnsafeRawBufferPointer? { head.withUnsafeBytes { send($0, body) } }
    }

    package init(_ policy: CachePolicySettings, compressFromBytes: Int, _ coder: LoopWorker) {
        self.coder = coder
        hiddenFields = policy.stripsTargetedFields ? policy.targetedFields : []
        self.compressFromBytes = compressFromBytes
    }

    /// Sends 304 where the client's own condition holds, and a part where the client asks for a range.
    /// - Parameter head: the request's.
    package func send(_ response: Response, to head: RequestHead, lines: UnsafeRawBufferPointer, on stream: any ClientStream) -> Sent {
        let output = Output(lines: lines, stream: stream)
        guard !hiddenFields.isEmpty, response.metadata.flags.contains(.hasTargeted) else {
            return send(response.head, of: response, to: head, output)
        }
        return StoredHead.removing(hiddenFields, from: response.head).withUnsafeBytes { send($0, of: response, to: head, output) }
    }

    /// - Parameter shown: what clients get of the stored head.
    private func send(_ shown: UnsafeRawBufferPointer, of response: Response, to head: RequestHead, _ output: Output) -> Sent {
        let (metadata, body) = (response.metadata, response.body)
        let isNegotiated =
            compressFromBytes > 0 && body.count >= compressFromBytes && metadata.flags.isDisjoint(with: [.noTransform, .coded])
        let mayCode = isNegotiated && (body.count <= Self.codedAtOnceBytes || output.stream.takesChunks)
        // RFC 9111 §5.2.1.6: some clients ask for content as it is.
        let isCoded =
            mayCode && AcceptedCoding.accepts(.gzip, in: head.fields)
            && !(head.contains(.cacheControl) && RequestCacheControl(head.fields).noTransform)
        /// The 304 or 206 that stands for what would go out.
        func negotiated(_ bytes: [UInt8], isCoded: Bool) -> [UInt8] {
            isNegotiated ? bytes.withUnsafeBytes { StoredHead.negotiated($0, isCoded: isCoded) ?? bytes } : bytes
        }
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, head.method.isSafe, Preconditions.isNotModified(head.fields, stored: metadata, head: response.head) {
            let bytes = output.send(negotiated(Preconditions.notModifiedHead(shown), isCoded: isCoded), .none)
            return Sent(status: 304, bodyBytes: 0, bytes: bytes)
        }
        // RFC 9110 §14.2: a Range means something to GET only.
        if head.fields.contains(.range), head.method == .get {
            switch RangeRequest(head.fields, count: body.count, stored: metadata, head: response.head) {
            case .whole: break
            case .part(let range):
                let part = negotiated(StoredHead.partial(shown, range, of: body.count), isCoded: false)
                return Sent(status: 206, bodyBytes: range.count, bytes: output.send(part, body.part(range)))
            case .unsatisfiable:
                return Sent(status: 416, bodyBytes: 0, bytes: output.send(StoredHead.unsatisfiable(shown, count: body.count), .none))
            }
        }
        if isNegotiated { return sendNegotiated(shown, response, head, isCoded: isCoded, output) }
        return Sent(status: metadata.status, bodyBytes: head.method == .head ? 0 : body.count, bytes: output.send(shown, body))
    }

    /// Longer content is coded while it is sent, beside the loop and in chunks; to a client of HTTP/1.0, which knows none, it goes out as it is.
    private static let codedAtOnceBytes = 2 * CodedContent.pieceBytes

    /// With gzip to a client that asked for it by name, else as it is; both say that it depends on that.
    private func sendNegotiated(
        _ shown: UnsafeRawBufferPointer, _ response: Response, _ head: RequestHead, isCoded: Bool, _ output: Output
    ) -> Sent {
        let (status, body) = (response.metadata.status, response.body)
        if isCoded, head.method != .head, body.count > Self.codedAtOnceBytes, let content = CodedContent(body, coder) {
            (StoredHead.negotiated(shown, isCoded: true) ?? Array(shown)).withUnsafeBytes {
                output.stream.sendProduced(head: $0, lines: output.lines, content: content)
            }
            // How short it becomes is known when all of it has gone out.
            return Sent(status: status, bodyBytes: body.count)
        }
        // HEAD is told what GET would get, but for the length, which only coding would tell (RFC 9110 §9.3.2).
        let coded = isCoded && head.method != .head ? body.withBytes { encoder.encode($0) } : nil
        let bytes =
            StoredHead.negotiated(shown, isCoded: isCoded && (coded != nil || head.method == .head), contentBytes: coded?.count)
            ?? Array(shown)
        let content = coded.map { WholeBody.bytes($0) } ?? body
        return Sent(status: status, bodyBytes: head.method == .head ? 0 : content.count, bytes: output.send(bytes, content))
    }
}
