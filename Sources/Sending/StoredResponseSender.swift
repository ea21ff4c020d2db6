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

    package struct Sent {
        package var status: Status
        /// Of content.
        package var bodyBytes: Int
    }

    package init(_ policy: CachePolicySettings, compressFromBytes: Int, _ coder: LoopWorker) {
        self.coder = coder
        hiddenFields = policy.stripsTargetedFields ? policy.targetedFields : []
        self.compressFromBytes = compressFromBytes
    }

    /// Answers the client's own condition with 304 where it holds, and its Range with a part.
    /// - Parameters:
    ///   - head: the request's.
    ///   - storedHead: perhaps just brought up to date.
    ///   - metadata: what belongs to it.
    package func send(
        storedHead: UnsafeRawBufferPointer, metadata: StoredMetadata, body: WholeBody, to head: RequestHead, lines: UnsafeRawBufferPointer,
        on stream: any ClientStream
    ) -> Sent {
        guard !hiddenFields.isEmpty, metadata.flags.contains(.hasTargeted) else {
            return send(storedHead, of: storedHead, metadata, body, to: head, lines, stream)
        }
        return StoredHead.removing(hiddenFields, from: storedHead).withUnsafeBytes {
            send($0, of: storedHead, metadata, body, to: head, lines, stream)
        }
    }

    /// - Parameters:
    ///   - shown: what clients get of `storedHead`.
    ///   - storedHead: what `metadata` speaks of.
    private func send(
        _ shown: UnsafeRawBufferPointer, of storedHead: UnsafeRawBufferPointer, _ metadata: StoredMetadata, _ body: WholeBody,
        to head: RequestHead, _ lines: UnsafeRawBufferPointer, _ stream: any ClientStream
    ) -> Sent {
        let isNegotiated =
            compressFromBytes > 0 && body.count >= compressFromBytes && metadata.flags.isDisjoint(with: [.noTransform, .coded])
        let mayCode = isNegotiated && (body.count <= Self.codedAtOnceBytes || stream.takesChunks)
        // RFC 9111 §5.2.1.6: some clients ask for content as it is.
        let isCoded =
            mayCode && AcceptedCoding.accepts(.gzip, in: head.fields)
            && !(head.contains(.cacheControl) && RequestCacheControl(head.fields).noTransform)
        /// The 304 or 206 that stands for what would go out.
        func negotiated(_ bytes: [UInt8], isCoded: Bool) -> [UInt8] {
            isNegotiated ? bytes.withUnsafeBytes { StoredHead.negotiated($0, isCoded: isCoded) ?? bytes } : bytes
        }
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, head.method.isSafe, Preconditions.isNotModified(head.fields, stored: metadata, head: storedHead) {
            sendAnother(negotiated(Preconditions.notModifiedHead(shown), isCoded: isCoded), .none, lines, stream)
            return Sent(status: 304, bodyBytes: 0)
        }
        // RFC 9110 §14.2: a Range means something to GET only.
        if head.fields.contains(.range), head.method == .get {
            switch RangeRequest(head.fields, count: body.count, stored: metadata, head: storedHead) {
            case .whole: break
            case .part(let range):
                let part = negotiated(StoredHead.partial(shown, range, of: body.count), isCoded: false)
                sendAnother(part, body.part(range), lines, stream)
                return Sent(status: 206, bodyBytes: range.count)
            case .unsatisfiable:
                sendAnother(StoredHead.unsatisfiable(shown, count: body.count), .none, lines, stream)
                return Sent(status: 416, bodyBytes: 0)
            }
        }
        if isNegotiated { return sendNegotiated(shown, metadata, body, head, isCoded: isCoded, lines, stream) }
        stream.sendWhole(head: shown, lines: lines, body: body)
        return Sent(status: metadata.status, bodyBytes: head.method == .head ? 0 : body.count)
    }

    /// Longer content is coded while it is sent, beside the loop and in chunks; to a client of HTTP/1.0, which knows none, it goes out as it is.
    private static let codedAtOnceBytes = 2 * CodedContent.pieceBytes

    /// With gzip to a client that asked for it by name, else as it is; both say that it depends on that.
    private func sendNegotiated(
        _ shown: UnsafeRawBufferPointer, _ metadata: StoredMetadata, _ body: WholeBody, _ head: RequestHead, isCoded: Bool,
        _ lines: UnsafeRawBufferPointer, _ stream: any ClientStream
    ) -> Sent {
        if isCoded, head.method != .head, body.count > Self.codedAtOnceBytes, let content = CodedContent(body, coder) {
            (StoredHead.negotiated(shown, isCoded: true) ?? Array(shown)).withUnsafeBytes {
                stream.sendProduced(head: $0, lines: lines, content: content)
            }
            // How short it becomes is known when all of it has gone out.
            return Sent(status: metadata.status, bodyBytes: body.count)
        }
        // HEAD is told what GET would get, but for the length, which only coding would tell (RFC 9110 §9.3.2).
        let coded = isCoded && head.method != .head ? body.withBytes { encoder.encode($0) } : nil
        let bytes =
            StoredHead.negotiated(shown, isCoded: isCoded && (coded != nil || head.method == .head), contentBytes: coded?.count)
            ?? Array(shown)
        let content = coded.map { WholeBody.bytes($0) } ?? body
        sendAnother(bytes, content, lines, stream)
        return Sent(status: metadata.status, bodyBytes: head.method == .head ? 0 : content.count)
    }

    private func sendAnother(_ head: [UInt8], _ body: WholeBody, _ lines: UnsafeRawBufferPointer, _ stream: any ClientStream) {
        head.withUnsafeBytes { stream.sendWhole(head: $0, lines: lines, body: body) }
    }
}
