// The stages of a request before the first decision, in order. Each stage is one function, which a table in `Sources/README.md` describes.
// It returns what later stages need, or ends with a `StageEnd`. Before these stages, `repeated` compares the unparsed request with recent
// ones. Three stages suspend a request: after `content` it continues at `key`, after `lookUp` and `fleet` at `lookUp`. The stages from
// `lookUp` on are in `LookUpStage` and `FleetStage`.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending

/// Ends the stages before the last one. `@unchecked Sendable` because it does not leave the shard's loop.
struct StageEnd: Error, @unchecked Sendable {
    /// The exchange that responds later or suspends the request; nil if the response was sent.
    let exchange: (any ClientExchange)?

    init(_ exchange: (any ClientExchange)?) { self.exchange = exchange }

    static var answered: StageEnd { StageEnd(nil) }
}

/// A request that its client is permitted to make.
struct Admitted {
    let request: ReceivedRequest

    fileprivate init(_ request: ReceivedRequest) { self.request = request }

    var head: RequestHead { request.head }
    var framing: ContentFraming { request.framing }
}

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
    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        enter(request, noAPI: nil, on: stream)
    }

    /// Runs the stages of a new request.
    /// - Parameter reason: why no API serves the request; nil if this one does.
    /// - Returns: the exchange that responds later; nil if the response was sent.
    func enter(_ received: ReceivedRequest, noAPI reason: AccessRefusal?, on client: any ClientStream) -> (any ClientExchange)? {
        context.loop.assertOnLoop()
        var (request, stream) = (received, client)
        do throws(StageEnd) {
            if context.reporting.records.marksRequests { name(&request, on: &stream) }
            let admitted = try access(request, isOfNoAPI: reason != nil, on: stream)
            try ownPage(admitted, on: stream)
            try acmeChallenge(admitted, on: stream)
            try api(admitted, reason, on: stream)
            try crossOrigin(admitted, on: &stream)
            try tunnel(admitted, on: stream)
            let body = try content(admitted, on: stream)
            let memoKey = try remembered(admitted, on: stream)
            return enterAtKey(admitted.head, body, .absent, memoKey, on: stream)
        } catch {
            return error.exchange
        }
    }

    /// Runs the stages from `key` on.
    func enterAtKey(
        _ head: RequestHead, _ body: RequestBody, _ content: ContentInKey, _ memoKey: HitMemo.Request? = nil, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        do throws(StageEnd) {
            var keyed = try key(head, body, content, memoKey, on: stream)
            var progress = LookUpProgress()
            do throws(NotInMemory) {
                return try enterAtLookUp(head, body, keyed, &progress, on: stream)
            } catch {
                keyed.memoKey = nil
                return LookUpWait(self, head, body, keyed, progress, on: stream, error)
            }
        } catch {
            return error.exchange
        }
    }

    /// Runs the stages from `lookUp` on.
    /// - Throws: data that is not in memory. The request enters here again when the data is loaded.
    func enterAtLookUp(
        _ head: RequestHead, _ body: RequestBody, _ keyed: Keyed, _ progress: inout LookUpProgress, on stream: any ClientStream
    ) throws(NotInMemory) -> (any ClientExchange)? {
        guard let cache = context.cache else { return pass(head, body, on: stream) }
        if let lookedUp = progress.stillLookedUp(in: cache.state, now: now) {
            return decide(facts(lookedUp, head, on: stream), head, body, keyed, lookedUp, on: stream)
        }
        guard var lookedUp = try lookUp(head, keyed, &progress, in: cache, on: stream) else { return nil }
        let facts = facts(lookedUp, head, on: stream)
        if context.coordination.level.isShared { try fleet(facts, head, &lookedUp, &progress, of: stream.client) }
        return decide(facts, head, body, keyed, lookedUp, on: stream)
    }

    // MARK: Before the memo of hits

    /// Gives a request a span and an ID, if the settings require them.
    /// - Parameter stream: returns the ID to the client afterwards, if the settings require it.
    @inline(never)
    func name(_ request: inout ReceivedRequest, on stream: inout any ClientStream) {
        let records = context.reporting.records
        var head = request.head
        if let tracer = records.tracer { head = tracer.recorded(head, now: context.loop.batchWallMilliseconds) }
        if records.namesRequests {
            if settings.forwarding.requestID.isReturned {
                let named = records.ids.name(head)
                (head, stream) = (named.head, ChangedStream(stream, .requestID(line: named.line)))
            } else {
                head = records.ids.number(head)
            }
        }
        request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
    }

    /// Refuses a request that its client is not permitted to make (`Admission`).
    /// - Parameter isOfNoAPI: whether no API serves the request.
    func access(_ received: consuming ReceivedRequest, isOfNoAPI: Bool, on stream: any ClientStream) throws(StageEnd) -> Admitted {
        var request = received
        if let refusal = admission.admit(&request, isOfNoAPI: isOfNoAPI, servesOwnPages: own.pages != nil, on: stream) {
            throw StageEnd(refuse(request, refusal, isOfNoAPI: isOfNoAPI, on: stream))
        }
        return Admitted(request)
    }

    /// Refuses a request without waiting for its content.
    /// - Parameter isOfNoAPI: whether no API serves the request.
    func refuse(
        _ request: ReceivedRequest, _ refusal: AccessRefusal, isOfNoAPI: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(request.head, on: stream)
        // A CONNECT request names another server by definition.
        facts.refusal = request.head.method == .connect && refusal.isAboutTarget ? .connect : .access(refusal)
        let body: RequestBody = request.framing == .none ? .none : .streamed(.unread(request.framing))
        return start(facts, request.head, body, .refused(isOfNoAPI: isOfNoAPI), on: stream)
    }

    /// Recognizes requests for the proxy's own pages. The server responds to them.
    func ownPage(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard let pages = own.pages, let page = OwnPage(request.head) else { return }
        throw StageEnd(pages.respond(with: page, to: request.head, on: stream, of: self))
    }

    /// Recognizes requests for ACME challenges (RFC 8555). The server responds to them with files that an ACME client has written.
    func acmeChallenge(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard let challenges = own.challenges, let token = AcmeToken.of(request.head) else { return }
        throw StageEnd(challenges.respond(with: token, to: request.head, on: stream, of: self))
    }

    /// Refuses a request that no API serves.
    /// - Parameter reason: why no API serves the request; nil if this one does.
    func api(_ request: Admitted, _ reason: AccessRefusal?, on stream: any ClientStream) throws(StageEnd) {
        guard let reason else { return }
        throw StageEnd(refuse(request.request, reason, isOfNoAPI: true, on: stream))
    }

    /// Applies the operator's CORS rules (`cors`). Without rules, the upstream's last permission applies (`RequestEntry+CrossOrigin`).
    /// - Parameter stream: adds the rules' fields to the response afterwards.
    func crossOrigin(_ request: Admitted, on stream: inout any ClientStream) throws(StageEnd) {
        guard let rules = routes.crossOrigin(request.head.pathAndQuery) else { return }
        let isEmpty = request.framing == .none || request.framing == .length(0)
        if isEmpty, respondToPreflight(request.head, rules, on: stream) { throw .answered }
        stream = ChangedStream(stream, .crossOrigin(lines: rules.lines(for: request.head)))
    }

    /// Forwards a request without content that needs its own upstream connection, because it switches protocols or because its client
    /// authenticates the connection.
    func tunnel(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard request.framing == .none else { return }
        if routes.upgrade(request.head) != nil { throw StageEnd(pass(request.head, .streamed(.tunnel), on: stream)) }
        if connections.isOfConnectionUser(request.head, on: stream) { throw StageEnd(pass(request.head, .none, on: stream)) }
    }

    /// Decides whether the content of a request is read whole or streamed. It is read whole if the cache key includes it or if memory
    /// permits.
    /// - Returns: the content of a request that needs no reading.
    func content(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) -> RequestBody {
        let isKept = isKeptByContent(request.head)
        switch request.framing {
        case .none where !isKept: return .none
        case .length(0) where !isKept: return .whole(.empty)
        case .none, .length, .chunked, .tunnel: throw StageEnd(receive(request.head, request.framing, isKept: isKept, on: stream))
        }
    }

    // MARK: The memo of hits

    /// Sends the response that an equal request received a moment ago, if the unparsed bytes are equal.
    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        context.loop.assertOnLoop()
        let peer = stream.client
        guard let entry = context.memo?.find(bytes, isSecure: admission.countsAsSecure(peer), now: context.loop.batchWallMilliseconds),
            let head = entry.head, admission.mayRepeat(head, on: stream)
        else { return false }
        // With trusted proxies, the client is known only after admission.
        let client = admission.isIdle ? peer : stream.client
        guard admission.countsAsSecure(client) == entry.isSecure else { return false }
        if context.reporting.records.marksRequests {
            sendAgainMarked(entry, head, on: stream)
        } else {
            stream.sendAgain(entry.hit.response, endingWith: nil)
            finishRepeated(entry.hit, head, client)
        }
        return true
    }

    /// Sends a repeated hit to a request that was recognized by its bytes, which many requests may share.
    @inline(never)
    private func sendAgainMarked(_ entry: HitMemo.Entry, _ head: RequestHead, on stream: any ClientStream) {
        let (client, records) = (stream.client, context.reporting.records)
        let head = records.tracer?.recorded(head, now: context.loop.batchWallMilliseconds) ?? head
        var (request, line): (RequestHead, [UInt8]?) = (head, nil)
        if records.accessLog?.namesRequests == true {
            // The access log uses the ID later.
            if settings.forwarding.requestID.isReturned {
                (request, line) = records.ids.name(head)
            } else {
                request = records.ids.number(head)
            }
        } else if settings.forwarding.requestID.isReturned {
            line = records.ids.line(of: head)
        }
        stream.sendAgain(entry.hit.response, endingWith: line)
        finishRepeated(entry.hit, request, client)
    }

    /// Answers a request without content that equals a recent one in all parts that a hit depends on.
    /// - Returns: the request's key in the memo of hits; nil if the memo does not apply. Valid only while the request is being received.
    func remembered(_ received: Admitted, on stream: any ClientStream) throws(StageEnd) -> HitMemo.Request? {
        // A remembered hit does not determine whether the connection stays open, or whether an absolute target names this listener.
        guard received.framing == .none, let memo = context.memo, stream.staysOpen, received.head.target.first == UInt8(ascii: "/"),
            let request = memo.request(received.head, received.request.bytes, isSecure: admission.countsAsSecure(stream.client))
        else { return nil }
        guard let hit = memo.find(request, now: context.loop.batchWallMilliseconds) else { return request }
        let client = stream.client
        stream.sendComplete(hit.response, endingWith: nil)
        memo.keep(hit, request, received.head)
        finishRepeated(hit, received.head, client)
        throw .answered
    }

    private func finishRepeated(_ hit: MemoizedHit, _ head: RequestHead, _ client: RequestClient) {
        context.reporting.count(.repeatedHits)
        if hit.record.reasons.isClientIgnored { context.reporting.count(.clientDirectivesIgnored) }
        hit.record.number = context.reporting.records.why.nextNumber()
        context.reporting.finish(&hit.record, head, client, context.loop.batchMicroseconds)
    }

    // MARK: The cache key

    /// Determines what the cache key of a request depends on besides its head. Forwards a request that bypasses the store.
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
