// What is done with a request that has content, or whose key is made of it: taken whole first, or passed on as it comes.

import CachePolicy
import Decisions
import Downstream
import Explanation
import HTTPCore
import ResponseCache

extension ProxyShard {
    /// A request with content, or one that is kept by its content.
    func receive(_ head: RequestHead, _ framing: ContentFraming, on stream: any ClientStream) -> (any ClientExchange)? {
        let isKept = isKeptByContent(head)
        // A client that is refused anyway need not send the content first.
        guard isKept || !isRefused(head, on: stream) else {
            return pass(head, .streamed(.unread(framing)), on: stream)
        }
        let rules = process.content.rules
        let routeLimit = isKept ? routes.all[routes.place(of: head.pathAndQuery)].contentLimitBytes : 0
        let limit = max(rules.eachBytes, routeLimit)
        let announced: Int? =
            switch framing {
            case .none, .tunnel: 0
            case .length(let count): count
            case .chunked: nil
            }
        switch rules.decide(announced: announced, limit: limit) {
        case .whole:
            stream.startContentTotal()
            stream.sendContinue()
            let hold = ContentHold(process.content, limit: limit)
            return ContentReader(shard: self, stream: stream, head: head, framing: framing, hold: hold, limit: limit)
        case .streamed(let reason):
            countContent(ContentOutcome(reason))
            let body = StreamedContent(framing: framing, reason: reason, hold: nil, awaitsContinue: stream.isContinueAwaited)
            return pass(head, .streamed(body), isKept ? BypassReason(reason) : nil, on: stream)
        }
    }

    /// The content is whole.
    func receivedWhole(_ head: RequestHead, _ body: RequestBody, on stream: any ClientStream) -> (any ClientExchange)? {
        guard isKeptByContent(head) else {
            var arrival = arrival(body)
            return consider(head, body, &arrival, on: stream)
        }
        return receivedWhole(head, body, identity: identification(of: head, body.bytes)(), on: stream)
    }

    /// - Parameter identity: what the content says; nil where its response must not be kept.
    func receivedWhole(
        _ head: RequestHead, _ body: RequestBody, identity: [UInt8]?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        guard !isOfConnectionUser(head, on: stream) else { return pass(head, body, on: stream) }
        guard let identity else {
            let isLong = body.bytes.count > routes.all[routes.place(of: head.pathAndQuery)].contentLimitBytes
            return pass(head, body, isLong ? .longContent : .changingContent, on: stream)
        }
        var arrival = arrival(body, identity: identity)
        return look(head, body, &arrival, on: stream)
    }

    /// What the content says is longer than this only until a digest stands for it: a key is kept, and compared at every look-up.
    private static let identityLimitBytes = 1 << 10

    /// Makes the key's part of the content. What it returns touches nothing that the loop owns.
    func identification(of head: RequestHead, _ content: [UInt8]) -> @Sendable () -> [UInt8]? {
        let (target, cache) = (head.pathAndQuery, cache?.shared)
        let limit = routes.all[routes.place(of: target)].contentLimitBytes
        let rules = shared.cacheSettings.arguments.rules(for: target)
        return {
            guard content.count <= limit, let cache,
                let identity = RequestContent.identity(
                    method: head.method, target: target, fields: head.fields, content: content.span, rules: rules)
            else { return nil }
            guard identity.count > Self.identityLimitBytes else { return identity }
            return RequestContent.short(head.method, digest: cache.contentDigest(identity))
        }
    }

    /// Whether its response is kept by its content: QUERY, and what the route says only reads.
    func isKeptByContent(_ head: RequestHead) -> Bool {
        guard cache != nil, !head.method.isRead, !routes.stream(head.pathAndQuery) else { return false }
        return routes.reads(head.method, head.pathAndQuery)
    }

    private func isRefused(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if case .refuse = facts(head, on: stream).decide() { true } else { false }
    }
}

extension BypassReason {
    /// Of a request that would be kept by its content.
    init(_ reason: StreamingReason) {
        self =
            switch reason {
            case .tooLong: .longContent
            case .noRoom: .unreadContent
            }
    }
}
