// The stage `key`: determines what the cache key of a request depends on besides its head. Forwards a request that bypasses the store.

import CachePolicy
import Decisions
import Downstream
import HTTPCore
import Reactor
import ResponseCache
import Sending

/// A request that may be looked up.
struct Keyed {
    /// Time at which the request head was complete, in microseconds.
    let began: Int64
    /// Identity of the content, if the response depends on it; for a preflight request, what it asks for. Otherwise nil.
    let identity: [UInt8]?
    /// Key in the memo of hits, if the memo may be used. Valid only while the request is being received.
    var memoKey: HitMemo.Request?

    fileprivate init(began: Int64, identity: [UInt8]?, memoKey: HitMemo.Request?) {
        (self.began, self.identity, self.memoKey) = (began, identity, memoKey)
    }
}

/// The part of the request's content in the cache key.
enum ContentInKey {
    /// The response is not stored by content.
    case absent
    case identity([UInt8])
    /// The content has no identity, so the response is not stored.
    case unusable
}

extension RequestEntry {
    func key(
        _ head: RequestHead, _ body: RequestBody, _ content: ContentInKey, _ memoKey: HitMemo.Request?, on stream: any ClientStream
    ) throws(StageEnd) -> Keyed {
        guard context.cache != nil, !connections.isOfConnectionUser(head, on: stream) else { throw StageEnd(pass(head, body, on: stream)) }
        switch content {
        case .absent:
            if head.method == .options, !routes.isOff(head.pathAndQuery), let preflight = preflight(head, body) {
                return Keyed(began: began(body), identity: preflight.identity, memoKey: memoKey)
            }
            guard bypass(head, body) == nil else { throw StageEnd(pass(head, body, on: stream)) }
            return Keyed(began: began(body), identity: nil, memoKey: memoKey)
        case .identity(let identity):
            return Keyed(began: began(body), identity: identity, memoKey: nil)
        case .unusable:
            let isLong = body.bytes.count > routes.all[routes.index(of: head.pathAndQuery)].contentLimitBytes
            throw StageEnd(pass(head, body, isLong ? .longContent : .changingContent, on: stream))
        }
    }

    /// Returns nil if the request is no preflight request that can be stored.
    private func preflight(_ head: RequestHead, _ body: RequestBody) -> Preflight? {
        guard settings.policy.strictness == .rescue else { return nil }
        return Preflight(head, content: body.framing, credentials: settings.policy.credentials.names)
    }

    /// Why the request bypasses the store; nil if it may be looked up.
    func bypass(_ head: RequestHead, _ body: RequestBody) -> BypassReason? {
        if routes.isOff(head.pathAndQuery) { return .cacheOff }
        if case .tunnel = body.framing { return .upgrade }
        if case .bypass(let reason) = RequestUse(head, content: body.framing) { return reason }
        return routes.stream(head.pathAndQuery) ? .stream : nil
    }

    /// Time at which the request head was complete, in microseconds.
    func began(_ body: RequestBody) -> Int64 { context.loop.batchMicroseconds - body.waitedMicroseconds }
}
