// Compresses responses without a content coding by gzip, for clients that accept it: whole responses and streamed ones.

import CachePolicy
import Decisions
import Downstream
import Figures
import HTTPCore
import ResponseCache
import Sending

extension Exchange {
    /// Returns whether this client receives the response compressed; nil if the response is not compressed for any client.
    /// - Parameter contentBytes: content length in bytes; nil if unknown.
    func passedForm(_ response: ResponseHead, contentBytes: Int?, isOpen: Bool? = nil) -> SentFormFacts? {
        // Content above the buffer limit counts as a download, which needs its length more than compression.
        if let contentBytes, contentBytes > context.rules.bufferLimitBytes { return nil }
        return SentFormFacts.passed(
            response, contentBytes: contentBytes ?? .max, to: head, context.rules.routes.compression.rules(for: head.pathAndQuery),
            from: context.rules.compressFromBytes
        ) { isOpen ?? self.isOpen(response.fields) }
    }

    /// Whether the response can contain no secret.
    private func isOpen(_ response: Fields) -> Bool {
        guard let fetchTarget = request.fetchTarget, let cache = context.cache else {
            return !response.contains(.setCookie) && !context.coordination.keys.maker.hasCredentials(head.fields)
        }
        return cache.isOpen(response, to: head, isPartitioned: fetchTarget.isPartitioned)
    }

    /// Form of a whole response; nil if all clients receive one form.
    private func negotiatedForm(_ response: FetchedResponse) -> SentFormFacts? {
        let isOpen = response.metadata?.flags.contains(.isOpen)
        guard let facts = passedForm(response.head, contentBytes: response.content.count, isOpen: isOpen) else { return nil }
        return facts.isNegotiated ? facts : nil
    }

    /// Compresses a whole response if that makes it shorter.
    func gzipped(_ response: inout FetchedResponse) -> ProducedContent? {
        guard let facts = negotiatedForm(response) else { return nil }
        var produced: ProducedContent?
        var isCoded = facts.form == .gzipped
        if isCoded, head.method != .head {
            switch context.messages.storedResponses.gzipped(response.content, takesChunks: stream.takesChunks) {
            case .whole(.bytes(let content)): response.content = content
            case .produced(let content, _): produced = content
            case .whole, .notWon, .damaged: isCoded = false
            }
        }
        NegotiatedHead.change(&response.head, isCoded ? NegotiatedHead.Coded(.gzip) : nil)
        if isCoded { context.reporting.count(.compressedWhole) }
        return produced
    }

    /// Content coding of a streamed response.
    enum PassedForm {
        /// As received, for all clients. No Vary is added.
        case unchanged
        /// As received for this client; other clients may receive it compressed.
        case unchangedForThisClient
        case gzipped
    }

    /// Starts compression of a streamed response, if the client accepts it and there is memory for another encoder. HEAD receives the
    /// fields of GET.
    /// - Parameter hasBacklog: whether a long part of the content has arrived, which would take too long to compress at once.
    func beginCoding(_ response: ResponseHead, length: Int?, hasBacklog: Bool) -> PassedForm {
        guard let facts = passedForm(response, contentBytes: length), facts.isNegotiated else { return .unchanged }
        guard facts.form == .gzipped, stream.takesChunks, !hasBacklog else { return .unchangedForThisClient }
        guard head.method != .head else { return .gzipped }
        coding = context.messages.passedCodings.begin()
        return coding == nil ? .unchangedForThisClient : .gzipped
    }

    /// Adds to a 304 the fields that the complete response would have (RFC 9110 §15.4.5).
    func negotiated(_ notModified: [UInt8], _ response: FetchedResponse) -> [UInt8] {
        guard let facts = negotiatedForm(response) else { return notModified }
        return NegotiatedHead.make(notModified.span, facts.form == .gzipped ? NegotiatedHead.Coded(.gzip) : nil)
    }
}
