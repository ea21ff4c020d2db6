// Gzip on what the upstream sent without a coding, for clients that take it: on what was taken whole, and on what is passed on as it comes.

import CachePolicy
import Decisions
import Downstream
import HTTPCore
import ResponseCache
import Sending

extension Exchange {
    /// Says whether what came without a coding may have one, and whether this client gets it so; nil where no client would.
    /// - Parameter contentBytes: nil where nobody knows.
    func passedForm(_ response: ResponseHead, contentBytes: Int?, isOpen: Bool? = nil) -> SentFormFacts? {
        // What is longer than anybody would hold is a download: its length says more than a coding would win.
        if let contentBytes, contentBytes > shard.settings.content.bufferLimitBytes { return nil }
        return SentFormFacts.passed(
            response, contentBytes: contentBytes ?? .max, to: head, shard.routes.compression.rules(for: head.pathAndQuery),
            from: shard.settings.content.compressFromBytes
        ) { isOpen ?? self.isOpen(response.fields) }
    }

    /// Whether nothing in the response is anybody's secret.
    private func isOpen(_ response: Fields) -> Bool {
        guard let place = request.place, let cache = shard.cache else {
            return !response.contains(.setCookie) && !shard.keys.maker.hasCredentials(head.fields)
        }
        return cache.isOpen(response, to: head, isPartitioned: place.isPartitioned)
    }

    /// Of what was taken whole; nil where it is the same for every client.
    private func negotiatedForm(_ response: FetchedResponse) -> SentFormFacts? {
        let isOpen = response.metadata?.flags.contains(.isOpen)
        guard let facts = passedForm(response.head, contentBytes: response.content.count, isOpen: isOpen) else { return nil }
        return facts.isNegotiated ? facts : nil
    }

    /// A whole response with gzip, where that makes it shorter.
    func gzipped(_ response: inout FetchedResponse) -> ProducedContent? {
        guard let facts = negotiatedForm(response) else { return nil }
        var produced: ProducedContent?
        var isCoded = facts.form == .gzipped
        if isCoded, head.method != .head {
            switch shard.messages.storedResponses.gzipped(response.content, takesChunks: stream.takesChunks) {
            case .whole(.bytes(let content)): response.content = content
            case .produced(let content, _): produced = content
            case .whole, .notWon, .damaged: isCoded = false
            }
        }
        NegotiatedHead.change(&response.head, isCoded ? NegotiatedHead.Coded(.gzip) : nil)
        if isCoded { shard.countCompressed() }
        return produced
    }

    /// How what is passed on as it comes goes out.
    enum PassedForm {
        /// As it comes, as it does to every client.
        case asItComes
        /// The same, and another client might get it with gzip.
        case asItComesHere
        case gzipped
    }

    /// Puts gzip on what follows, where the client takes it and there is memory for one more. HEAD is told what GET would get.
    func beginCoding(_ response: ResponseHead, length: Int?) -> PassedForm {
        guard let facts = passedForm(response, contentBytes: length), facts.isNegotiated else { return .asItComes }
        guard facts.form == .gzipped, stream.takesChunks else { return .asItComesHere }
        guard head.method != .head else { return .gzipped }
        coding = shard.messages.passedCodings.begin()
        return coding == nil ? .asItComesHere : .gzipped
    }

    /// A 304 in the place of a whole response says what that would have said.
    func negotiated(_ notModified: [UInt8], _ response: FetchedResponse) -> [UInt8] {
        guard let facts = negotiatedForm(response) else { return notModified }
        return notModified.withUnsafeBytes { NegotiatedHead.make($0, facts.form == .gzipped ? NegotiatedHead.Coded(.gzip) : nil) }
    }
}
