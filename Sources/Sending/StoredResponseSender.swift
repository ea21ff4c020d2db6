// Sends stored responses: the stored head and content, converted for the client if necessary, with the field lines that are generated for
// each response.

import CachePolicy
import ContentCodings
import Downstream
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache

public struct StoredResponseSender {
    /// Targeted fields (RFC 9213) that clients do not receive, in lower case. They stay in the store, because after a 304 without them they
    /// still determine the freshness lifetime.
    public let hiddenFields: [[UInt8]]
    private let compressFromBytes: Int
    private let contents: StoredContents
    private let accepted = LastAcceptedCodings()

    /// The stored response to be sent.
    public struct Response {
        let found: FoundResponse
        let head: UnsafeRawBufferPointer
        let metadata: StoredMetadata
        let compression: Compression

        /// - Parameters:
        ///   - head: the head, perhaps updated since it was stored.
        ///   - metadata: the metadata of that head.
        ///   - compression: the setting for its path.
        public init(_ found: FoundResponse, head: UnsafeRawBufferPointer, _ metadata: StoredMetadata, _ compression: Compression) {
            (self.found, self.head, self.metadata, self.compression) = (found, head, metadata, compression)
        }
    }

    public struct Sent {
        public var status: Status
        /// Bytes of content.
        public var bodyBytes: Int
        /// All bytes, if they were sent in one piece (`ClientStream.sendWhole`); nil otherwise.
        public var bytes: UnsafeRawBufferPointer?
    }

    /// The client's stream, and the generated field lines.
    private struct Output {
        let lines: UnsafeRawBufferPointer
        let stream: any ClientStream

        func send(_ head: UnsafeRawBufferPointer, _ body: WholeBody) -> UnsafeRawBufferPointer? {
            stream.sendWhole(head: head, lines: lines, body: body)
        }

        func send(_ head: [UInt8], _ body: WholeBody) -> UnsafeRawBufferPointer? { head.withUnsafeBytes { send($0, body) } }
    }

    public init(_ policy: CachePolicySettings, compressFromBytes: Int, _ recoded: RecodedContents, _ coder: LoopWorker) {
        hiddenFields = policy.stripsTargetedFields ? policy.targetedFields : []
        self.compressFromBytes = compressFromBytes
        contents = StoredContents(recoded, coder)
    }

    public func addFigures(to figures: inout Figures) { contents.addFigures(to: &figures) }

    /// Compresses content that came without a coding.
    public func gzipped(_ content: [UInt8], takesChunks: Bool) -> OutgoingContent { contents.gzipped(content, takesChunks: takesChunks) }

    /// Sends the response, a 304 if the client's condition is fulfilled, or a part if the client requests a range.
    /// - Parameter head: the request's head.
    public func send(_ response: Response, to head: RequestHead, lines: UnsafeRawBufferPointer, on stream: any ClientStream) -> Sent {
        let output = Output(lines: lines, stream: stream)
        guard !hiddenFields.isEmpty, response.metadata.flags.contains(.hasTargeted) else {
            return send(response.head, of: response, to: head, output)
        }
        return StoredHead.removing(hiddenFields, from: response.head).withUnsafeBytes { send($0, of: response, to: head, output) }
    }

    /// - Parameter shown: the stored head without hidden fields.
    private func send(_ shown: UnsafeRawBufferPointer, of response: Response, to head: RequestHead, _ output: Output) -> Sent {
        let metadata = response.metadata
        let facts = facts(of: response, head)
        let form = contents.possible(facts.form, of: response.found, facts, takesChunks: output.stream.takesChunks)
        /// Adapts the head of a 304 or 206 to the negotiated coding.
        func negotiated(_ bytes: [UInt8], _ coding: ContentCoding) -> [UInt8] {
            guard facts.isNegotiated else { return bytes }
            return bytes.withUnsafeBytes { NegotiatedHead.make($0, coding == .identity ? nil : NegotiatedHead.Coded(coding)) }
        }
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, head.method.isSafe, Preconditions.isNotModified(head.fields, stored: metadata, head: response.head) {
            let bytes = output.send(negotiated(Preconditions.notModifiedHead(shown), facts.coding(of: form)), .none)
            return Sent(status: 304, bodyBytes: 0, bytes: bytes)
        }
        // Range applies to GET only (RFC 9110 §14.2).
        if head.fields.contains(.range), head.method == .get, facts.mayJoin(head.fields) {
            switch RangeRequest(head.fields, count: facts.contentBytes, stored: metadata, head: response.head) {
            case .whole: break
            case .part(let range):
                let part = negotiated(StoredHead.partial(shown, range, of: facts.contentBytes), .identity)
                return send(contents.plain(response.found, range), after: part, status: 206, output)
            case .unsatisfiable:
                let bytes = output.send(StoredHead.unsatisfiable(shown, count: facts.contentBytes), .none)
                return Sent(status: 416, bodyBytes: 0, bytes: bytes)
            }
        }
        guard facts.isNegotiated || form != .asStored else {
            let isHead = head.method == .head
            let body = WholeBody.borrowed(response.found.content, owner: response.found.owner)
            return Sent(status: metadata.status, bodyBytes: isHead ? 0 : body.count, bytes: output.send(shown, body))
        }
        return sendNegotiated(shown, response, facts, form, isHead: head.method == .head, output)
    }

    private func facts(of response: Response, _ head: RequestHead) -> SentFormFacts {
        let (found, flags) = (response.found, response.metadata.flags)
        let coding = found.coding
        var facts = SentFormFacts(
            coding: coding, contentBytes: found.contentBytes, flags: flags, compression: response.compression,
            compressFromBytes: compressFromBytes, isText: flags.contains(.isJSON), accepted: [], asksForPlain: false)
        guard coding != .identity || response.compression.covers(found.contentBytes, from: compressFromBytes) else { return facts }
        // Content without the JSON flag may be another text type.
        if !facts.isText, coding == .identity {
            facts.isText = StoredHead.parse(response.head).flatMap { MediaType(of: $0.fields) }?.isText ?? false
        }
        facts.accepted = accepted.codings(head.fields)
        facts.asksForPlain = head.contains(.cacheControl) && RequestCacheControl(head.fields).noTransform
        return facts
    }

    private func sendNegotiated(
        _ shown: UnsafeRawBufferPointer, _ response: Response, _ facts: SentFormFacts, _ form: SentForm, isHead: Bool, _ output: Output
    ) -> Sent {
        var content: OutgoingContent
        // HEAD receives the fields of GET, except a length that only compressing would determine (RFC 9110 §9.3.2).
        switch form {
        case .asStored: content = .whole(.borrowed(response.found.content, owner: response.found.owner))
        case .decoded: content = isHead ? .whole(.none) : contents.plain(response.found, nil)
        case .gzipped: content = isHead ? .whole(.none) : contents.gzipped(response.found)
        }
        var coding = facts.coding(of: form)
        if case .notWon = content {
            coding = .identity
            content = contents.plain(response.found, nil)
        }
        var coded: NegotiatedHead.Coded?
        if coding != .identity { coded = NegotiatedHead.Coded(coding, contentBytes: isHead && form == .gzipped ? nil : content.length) }
        var head: [UInt8] = []
        head.reserveCapacity(shown.count + 96)
        if !facts.isNegotiated {
            head += shown
        } else if shown.baseAddress == response.head.baseAddress {
            NegotiatedHead.append(shown, response.metadata, coded, to: &head)
        } else {
            head = NegotiatedHead.make(shown, coded)
        }
        return send(isHead ? .whole(.none) : content, after: head, status: response.metadata.status, output)
    }

    private func send(_ content: OutgoingContent, after head: [UInt8], status: Status, _ output: Output) -> Sent {
        switch content {
        case .whole(let body): return Sent(status: status, bodyBytes: body.count, bytes: output.send(head, body))
        case .produced(let content, let count):
            head.withUnsafeBytes { output.stream.sendProduced(head: $0, lines: output.lines, content: content) }
            // The compressed length is known only at the end.
            return Sent(status: status, bodyBytes: count)
        case .damaged, .notWon:
            // The store's checksum is valid, so memory is exhausted. The client must detect that the response is incomplete.
            output.stream.abortResponse()
            return Sent(status: status, bodyBytes: 0)
        }
    }
}

extension SentFormFacts {
    /// Whether a part can be combined with the client's stored part. If-Range with a date is not accepted, because a date is equal for
    /// every coding of the content.
    fileprivate func mayJoin(_ request: Fields) -> Bool {
        guard isNegotiated, let condition = request.first(.ifRange) else { return true }
        return condition.first == 0x22
    }

    /// The coding with which the content is sent.
    fileprivate func coding(of form: SentForm) -> ContentCoding {
        switch form {
        case .asStored: coding
        case .decoded: .identity
        case .gzipped: .gzip
        }
    }
}

/// Cache of the last Accept-Encoding value. Clients send only a few different ones.
private final class LastAcceptedCodings {
    private var value: [UInt8] = []
    private var codings: AcceptedCodings = []

    func codings(_ fields: Fields) -> AcceptedCodings {
        guard let first = fields.first(.acceptEncoding) else { return [] }
        guard fields.all(.acceptEncoding).count == 1 else { return AcceptedCodings(fields) }
        if !first.elementsEqual(value) { (value, codings) = (Array(first), AcceptedCodings(fields)) }
        return codings
    }
}
