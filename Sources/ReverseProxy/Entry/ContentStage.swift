// The stage `content`: decides whether the content of a request is read whole or streamed. It is read whole if the cache key includes it or
// if memory permits.

import CachePolicy
import Decisions
import Downstream
import Explanation
import HTTPCore
import ResponseCache

extension RequestEntry {
    /// - Returns: the content of a request that needs no reading.
    func content(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) -> RequestBody {
        let isKept = isKeptByContent(request.head)
        switch request.framing {
        case .none where !isKept: return .none
        case .length(0) where !isKept: return .whole(.empty)
        case .none, .length, .chunked, .tunnel: throw StageEnd(receive(request.head, request.framing, isKept: isKept, on: stream))
        }
    }

    /// Receives a request with content, or with a response that is stored by content.
    private func receive(
        _ head: RequestHead, _ framing: ContentFraming, isKept: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        // The client of a refused request need not send the content first.
        guard isKept || !isRefused(head, on: stream) else {
            return pass(head, .streamed(.unread(framing)), on: stream)
        }
        let rules = context.api.process.content.rules
        let routeLimit = isKept ? routes.all[routes.index(of: head.pathAndQuery)].contentLimitBytes : 0
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
            let hold = ContentHold(context.api.process.content, limit: limit)
            return ContentReader(entry: self, stream: stream, head: head, framing: framing, hold: hold, limit: limit)
        case .streamed(let reason):
            context.reporting.countContent(ContentOutcome(reason))
            let body = StreamedContent(framing: framing, reason: reason, hold: nil, awaitsContinue: stream.isContinueAwaited)
            return pass(head, .streamed(body), isKept ? BypassReason(reason) : nil, on: stream)
        }
    }

    /// Maximum length of a content identity in bytes. A digest replaces a longer one, because keys are stored, and compared at every
    /// lookup.
    private static let identityLimitBytes = 1 << 10

    /// Returns a function that computes the content's part of the key. It uses no state of the loop.
    func identification(of head: RequestHead, _ content: [UInt8]) -> @Sendable () -> [UInt8]? {
        let (target, cache) = (head.pathAndQuery, context.cache?.state)
        let limit = routes.all[routes.index(of: target)].contentLimitBytes
        let rules = context.api.cacheSettings.arguments.rules(for: target)
        return {
            guard content.count <= limit, let cache,
                let identity = RequestContent.identity(
                    method: head.method, target: target, fields: head.fields, content: content.span, rules: rules)
            else { return nil }
            guard identity.count > Self.identityLimitBytes else { return identity }
            return RequestContent.short(head.method, digest: cache.contentDigest(identity))
        }
    }

    /// Whether the response is stored by content: for QUERY, and for requests that only read by their route's settings.
    func isKeptByContent(_ head: RequestHead) -> Bool {
        guard context.cache != nil, !head.method.isRead, !routes.stream(head.pathAndQuery), !routes.isOff(head.pathAndQuery) else {
            return false
        }
        return routes.reads(head.method, head.pathAndQuery)
    }

    private func isRefused(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if case .refuse = facts(head, on: stream).decide() { true } else { false }
    }
}

extension BypassReason {
    /// Bypass reason of a request that would otherwise be stored by its content.
    init(_ reason: StreamingReason) {
        self =
            switch reason {
            case .tooLong: .longContent
            case .noCapacity: .unreadContent
            }
    }
}
