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

    public struct Response {
        let found: FoundResponse
        let metadata: StoredMetadata
        let compression: Compression

        /// - Parameters:
        ///   - metadata: the metadata of its head, which may have been updated since it was stored.
        ///   - compression: the setting for its path.
        public init(_ found: FoundResponse, _ metadata: StoredMetadata, _ compression: Compression) {
            (self.found, self.metadata, self.compression) = (found, metadata, compression)
        }
    }

    public struct Sent {
        public var status: Status
        /// Bytes of content.
        public var bodyBytes: Int
        /// All bytes, if they were sent in one piece (`ClientStream.sendWhole`); nil otherwise.
        public var bytes: SentBytes?
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
    /// - Parameters:
    ///   - stored: the response's head, perhaps updated since it was stored.
    ///   - head: the request's head.
    ///   - lines: the generated field lines.
    public func send(
        _ response: Response, head stored: Span<UInt8>, to head: RequestHead, lines: Span<UInt8>, on stream: any ClientStream
    ) -> Sent {
        guard !hiddenFields.isEmpty, response.metadata.flags.contains(.hasTargeted) else {
            return send(response, stored, shown: stored, isComplete: true, to: head, lines, stream)
        }
        let shown = StoredHead.removing(hiddenFields, from: stored)
        return send(response, stored, shown: shown.span, isComplete: false, to: head, lines, stream)
    }

    /// - Parameters:
    ///   - shown: the stored head without hidden fields.
    ///   - isComplete: whether `shown` is the stored head.
    private func send(
        _ response: Response, _ stored: Span<UInt8>, shown: Span<UInt8>, isComplete: Bool, to head: RequestHead, _ lines: Span<UInt8>,
        _ stream: any ClientStream
    ) -> Sent {
        let metadata = response.metadata
        let facts = facts(of: response, stored, head)
        let form = contents.possible(facts.form, of: response.found, facts, takesChunks: stream.takesChunks)
        /// Adapts the head of a 304 or 206 to the negotiated coding.
        func negotiated(_ bytes: [UInt8], _ coding: ContentCoding) -> [UInt8] {
            guard facts.isNegotiated else { return bytes }
            return NegotiatedHead.make(bytes.span, coding == .identity ? nil : NegotiatedHead.Coded(coding))
        }
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, head.method.isSafe, Preconditions.isNotModified(head.fields, stored: metadata, head: stored) {
            let own = negotiated(Preconditions.notModifiedHead(shown), facts.coding(of: form))
            return send(.whole(.none), after: own.span, status: 304, lines, stream)
        }
        // Range applies to GET only (RFC 9110 §14.2).
        if head.fields.contains(.range), head.method == .get, facts.mayJoin(head.fields) {
            switch RangeRequest(head.fields, count: facts.contentBytes, stored: metadata, head: stored) {
            case .whole: break
            case .part(let range):
                let part = negotiated(StoredHead.partial(shown, range, of: facts.contentBytes), .identity)
                return send(contents.plain(response.found, range), after: part.span, status: 206, lines, stream)
            case .unsatisfiable:
                let own = StoredHead.unsatisfiable(shown, count: facts.contentBytes)
                return send(.whole(.none), after: own.span, status: 416, lines, stream)
            }
        }
        let isHead = head.method == .head
        guard facts.isNegotiated || form != .asStored else {
            let body = WholeBody.borrowed(response.found.content, owner: response.found.owner)
            let sent = stream.sendWhole(head: shown, lines: lines, body: body)
            return Sent(status: metadata.status, bodyBytes: isHead ? 0 : body.count, bytes: sent)
        }
        let (content, coding) = negotiatedContent(response.found, facts, form, isHead: isHead)
        var coded: NegotiatedHead.Coded?
        if coding != .identity { coded = NegotiatedHead.Coded(coding, contentBytes: isHead && form == .gzipped ? nil : content.length) }
        var own: [UInt8] = []
        own.reserveCapacity(shown.count + 96)
        if !facts.isNegotiated {
            own.append(copying: shown)
        } else if isComplete {
            NegotiatedHead.append(shown, metadata, coded, to: &own)
        } else {
            own = NegotiatedHead.make(shown, coded)
        }
        return send(isHead ? .whole(.none) : content, after: own.span, status: metadata.status, lines, stream)
    }

    private func facts(of response: Response, _ stored: Span<UInt8>, _ head: RequestHead) -> SentFormFacts {
        let (found, flags) = (response.found, response.metadata.flags)
        let coding = found.coding
        var facts = SentFormFacts(
            coding: coding, contentBytes: found.contentBytes, flags: flags, compression: response.compression,
            compressFromBytes: compressFromBytes, isText: flags.contains(.isJSON), accepted: [], asksForPlain: false)
        guard coding != .identity || response.compression.covers(found.contentBytes, from: compressFromBytes) else { return facts }
        // Content without the JSON flag may be another text type.
        if !facts.isText, coding == .identity {
            facts.isText = StoredHead.parse(stored).flatMap { MediaType(of: $0.fields) }?.isText ?? false
        }
        facts.accepted = accepted.codings(head.fields)
        facts.asksForPlain = head.contains(.cacheControl) && RequestCacheControl(head.fields).noTransform
        return facts
    }

    private func negotiatedContent(
        _ found: FoundResponse, _ facts: SentFormFacts, _ form: SentForm, isHead: Bool
    ) -> (content: OutgoingContent, coding: ContentCoding) {
        let content: OutgoingContent
        // HEAD receives the fields of GET, except a length that only compressing would determine (RFC 9110 §9.3.2).
        switch form {
        case .asStored: content = .whole(.borrowed(found.content, owner: found.owner))
        case .decoded: content = isHead ? .whole(.none) : contents.plain(found, nil)
        case .gzipped: content = isHead ? .whole(.none) : contents.gzipped(found)
        }
        guard case .notWon = content else { return (content, facts.coding(of: form)) }
        return (contents.plain(found, nil), .identity)
    }

    private func send(
        _ content: OutgoingContent, after head: Span<UInt8>, status: Status, _ lines: Span<UInt8>, _ stream: any ClientStream
    ) -> Sent {
        switch content {
        case .whole(let body):
            return Sent(status: status, bodyBytes: body.count, bytes: stream.sendWhole(head: head, lines: lines, body: body))
        case .produced(let content, let count):
            stream.sendProduced(head: head, lines: lines, content: content)
            // The compressed length is known only at the end.
            return Sent(status: status, bodyBytes: count)
        case .damaged, .notWon:
            // The store's checksum was valid, so the cause is exhausted memory. The client must detect that the response is incomplete.
            stream.abortResponse()
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
