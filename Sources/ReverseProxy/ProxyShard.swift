// One API on one shard: its requests, its connections to the upstream, and its use of the cache. `ProxyShard+Requests` processes requests:
// `ProxyShard+Hits` serves fresh hits, and all other requests become an `Exchange`.

import Addresses
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
import Sharing
import Tracing
import Upstream

/// Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
public final class ProxyShard: RequestReceiver, @unchecked Sendable {
    public let shard: Shard
    public let loop: EventLoop
    let settings: ProxySettings
    let process: ProcessState
    public let shared: SharedFlowState
    /// Whether this is the only API.
    public let isAlone: Bool
    /// Copy of the reference in `shared`, because every request uses it.
    let routes: Routes
    let admission: Admission
    /// Copies of the references in `shared`, because nearly every fetch uses them.
    let health: UpstreamHealth
    let collapsed: CollapsedRequests
    let workers: ShardWorkers
    let upstream: UpstreamClient
    /// nil if nothing is stored.
    let cache: ResponseCache?
    /// The shared level of the fleet; nil if there is no fleet or no store.
    let level: FleetLevel?
    let keys: ShardKeys
    let messages: ShardMessages
    /// Targets with responses that were not stored.
    let unkept = UnkeptTargets()
    let records: ShardRecords
    /// Copy of the modes in `shared`.
    public var modes: ModeTable { didSet { followModes() } }
    /// Whether all modes are `live`. Each request checks this, and access to the table would copy it.
    private(set) var areModesLive: Bool
    /// Copy of the faults of the process.
    public var faults = FaultTable() { didSet { followFaults() } }
    /// nil if nothing is stored.
    let memo: HitMemo?
    /// nil if no route refreshes ahead.
    var refreshAhead: RefreshAhead?
    private(set) lazy var background = BackgroundWork(shard: self)
    private(set) lazy var marks = MarkPropagation(loop: loop, cache: shared.cache, peer: process.peer, level: level)
    /// nil if the proxy's own pages are served on separate addresses.
    public var ownPages: (any OwnPageSource)?
    /// nil if no directory for ACME challenges is configured.
    public var challenges: (any OwnFileSource)?
    private var dateText = DateText()
    /// Whether request IDs are sent to the upstream and returned to clients.
    let requestIDUse: RequestIDUse
    /// Host and port of each upstream address.
    let upstreamAddresses: [String]
    /// Data about this API in spans.
    let spanSubject: SpanSubject
    /// nil if no routes are configured.
    private(set) var routeFigures: RouteRecords?
    /// Whether cache keys contain the scheme, and whether connections add any fields to requests (`ProxyShard+Marking`).
    let marksScheme: Bool
    let mayMark: Bool
    /// Whether an upstream URL has a path. Request paths must not leave it.
    let hasBasePath: Bool

    public init(_ shared: SharedFlowState, on shard: Shard) {
        (self.shared, process, self.shard) = (shared, shared.process, shard)
        (loop, workers, records) = (shard.loop, shard.workers, shard.records)
        isAlone = shared.name.isEmpty
        requestIDUse = shared.settings.forwarding.requestID
        upstreamAddresses = shared.settings.upstream.atEachAddress.map(\.authority)
        spanSubject = SpanSubject(shared, shard: shard.number)
        (settings, routes, modes) = (shared.settings, shared.routes, shared.modes)
        (health, collapsed) = (shared.health, shared.collapsed)
        areModesLive = modes.isLive
        marksScheme = settings.policy.keyFields.contains(ConnectionField.scheme)
        hasBasePath = settings.upstream.atEachAddress.contains { !$0.basePath.isEmpty }
        mayMark = marksScheme || settings.policy.credentials.fields.contains(ConnectionField.certificate)
        upstream = UpstreamClient(loop: loop, settings: settings.upstream)
        cache = shared.cache.map { [loop] in ResponseCache($0) { Self.cacheTime(of: loop) } }
        level = cache == nil ? nil : shard.level
        cache?.level = level
        admission = Admission(settings, routes.access, certified: routes.certified, authority: Array(settings.upstream.authority.utf8))
        keys = ShardKeys(cache?.keyMaker ?? RequestKeyMaker(shared.cacheSettings))
        messages = ShardMessages(settings, instance: process.instance, workers)
        refreshAhead = RefreshAhead(shared.routes)
        memo = shared.cache.map(HitMemo.init)
    }

    /// Must be called on the shard's event loop before the first request.
    public func start() {
        loop.assertOnLoop()
        records.count(ofAPI: Int(shared.place))
        routeFigures = RouteRecords(routes, ofAPI: shared.name, in: records)
        if let cache = shared.cache { shard.connections.contentMemory = cache }
        modes = shared.modes
        faults = process.faults
        followConnectionAttempts()
        if shard.number == 0, !settings.background.probe.path.isEmpty { background.startProbe() }
    }

    /// Forgets repeated hits, because other APIs are served now and equal requests may belong to them. Must be called on the shard's event
    /// loop.
    public func forgetRepeated() { memo?.forget() }

    /// Called when another instance replaces this one, so that no request arrives any more. Active requests are completed. Must be called
    /// on the shard's event loop.
    public func retire() {
        loop.assertOnLoop()
        background.end()
        // Nothing more is stored here: under the settings of the replacement, an equal request may belong to another user.
        shared.cache?.replace()
    }

    /// Must be called on the shard's event loop when no request is active.
    public func close() {
        loop.assertOnLoop()
        upstream.close()
        leaveCounts()
    }

    /// Reports each connection attempt to the failure memory.
    private func followConnectionAttempts() {
        upstream.onConnectionAttempt = { [unowned self] error, began in
            let now = loop.time.monotonicMilliseconds
            guard let error else {
                shared.health.reach(now: now)
                return background.looks.glance()
            }
            // Errors of Cistern itself say nothing about the upstream.
            guard error.isFailureToReach else { return }
            let certificate = if case .certificate = error.cause { upstream.refusedCertificate } else { String?.none }
            shared.health.failToReach(error, certificate: certificate, began: began, now: now)
            background.rechecks.watchAddress()
            background.looks.glance()
        }
        let addresses = settings.upstream.atEachAddress.map { $0.origin + $0.basePath }
        upstream.onNameChange = { [unowned self] name, hasFailed in shared.health.noteName(name, hasFailed: hasFailed) }
        upstream.onConnectionMade = { [unowned self] times in countConnection(times) }
        upstream.mayLook = { [unowned self] in modes.all != .offline }
        upstream.onAddressChange = { [unowned self] place, error in
            shared.health.noteAddress(addresses, place, error, now: loop.time.monotonicMilliseconds)
        }
    }

    private func followModes() {
        areModesLive = modes.isLive
        memo?.forget()
    }

    /// Chooses faults for upstream requests only while there are rules.
    private func followFaults() {
        guard !faults.rules.isEmpty else {
            upstream.chooseFault = nil
            return
        }
        upstream.chooseFault = { [unowned self] target in
            // Rules name the paths of clients.
            let target = settings.strippedPath.isEmpty ? target : (settings.strippedPath + target)[...]
            return faults.fault(for: target, now: loop.time.monotonicMilliseconds) { Int.random(in: 0..<100) }
        }
    }

    /// The scopes of the failure memory to which a request belongs.
    /// - Parameters:
    ///   - target: keys of the request. If they have a partition, it identifies the user.
    ///   - content: identity of the request content; nil if the response does not depend on it.
    func scopes(
        of head: RequestHead, route: Int, _ target: KeyedTarget?, content: [UInt8]? = nil, client: ClientAddress
    ) -> RequestScopes {
        let own = route == routes.all.count - 1 ? nil : route
        // A response that is stored for all users may still fail for one of them.
        let user =
            if let target {
                keys.maker.user(of: head, at: target.keys.own, isPartitioned: target.isPartitioned)
            } else {
                keys.maker.user(of: head)
            }
        let host = settings.forwarding.sendsClientHost ? head.host.map(\.asciiLowercased) : []
        let client = client.address.map(\.clientNumber) ?? 0
        return RequestScopes(
            pathAndQuery: head.pathAndQuery, host: host, variant: Self.variant(head, target, content), route: own, user: user,
            client: client)
    }

    /// A number for all parts of a request, besides its target and user, that may change the response.
    private static func variant(_ head: RequestHead, _ target: KeyedTarget?, _ content: [UInt8]?) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(target?.keys.unknownFieldsHash ?? 0)
        if let content { hasher.combine(content) }
        // A failure for one media type is no failure for clients that accept another type.
        if let accept = head.fields.first(.accept) { accept.withUnsafeBytes { hasher.combine(bytes: $0) } }
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// The connection shares that a request takes part in, so that slow or hanging paths do not exhaust the connections.
    func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(scopes.family), .free))
        if health.isFailing(scopes) { shares.append(ConnectionShare(.failing, .connections(settings.upstream.maximumConnections / 4))) }
        return shares
    }

    /// Current time in the form that the caching rules use.
    var now: Timestamp { Timestamp(milliseconds: loop.batchWallMilliseconds) }

    /// Current wall-clock and monotonic time in the form that the cache uses.
    var cacheTime: CacheTime { Self.cacheTime(of: loop) }

    private static func cacheTime(of loop: EventLoop) -> CacheTime {
        CacheTime(wall: Timestamp(milliseconds: loop.batchWallMilliseconds), monotonic: loop.time.monotonicMilliseconds)
    }

    /// Current value of the Date field.
    public var date: [UInt8] { dateText.at(loop.batchWallMilliseconds) }

    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        received(request, forNobody: nil, on: stream)
    }

    /// - Parameter reason: why no API serves the request; nil if this one does.
    func received(
        _ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        loop.assertOnLoop()
        guard records.marksRequests else { return take(request, forNobody: reason, on: stream) }
        return takeMarked(request, forNobody: reason, on: stream)
    }

    /// - Parameter stream: adds the request ID to responses, if required.
    func take(_ received: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream) -> (any ClientExchange)? {
        let whole = withoutNamed(received)
        if let refusal = refusal(of: whole, isForNobody: reason != nil, on: stream), reason == nil || refusal != .misdirected {
            return refuse(whole, refusal, isForNobody: reason != nil, on: stream)
        }
        // The client address has been resolved.
        let believed = believed(whole, on: stream)
        let request = mayMark ? marked(believed, of: stream) : believed
        let head = request.head
        if ownPages != nil, let page = OwnPage(head) { return ownPages?.respond(with: page, to: head, on: stream, of: self) }
        if let challenges, let token = AcmeToken.of(head) { return challenges.respond(with: token, to: head, on: stream, of: self) }
        if let reason { return refuse(request, reason, isForNobody: true, on: stream) }
        var stream = stream
        if let rules = routes.crossOrigin(head.pathAndQuery) {
            if request.framing == .none || request.framing == .length(0), respondToPreflight(head, rules, on: stream) { return nil }
            stream = CrossOriginStream(stream, rules, head)
        }
        if request.framing == .none, routes.upgrade(head) != nil { return pass(head, .streamed(.tunnel), on: stream) }
        if request.framing == .none, isOfConnectionUser(head, on: stream) { return pass(head, .none, on: stream) }
        switch request.framing {
        case .none where !isKeptByContent(head): return considerPlain(request, on: stream)
        case .length(0) where !isKeptByContent(head): return receivedWhole(head, .whole(.empty), on: stream)
        case .none, .length, .chunked, .tunnel: return receive(head, request.framing, on: stream)
        }
    }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {
        loop.assertOnLoop()
        if let place = MetricNames.place(of: refusal) { records.metrics.refuse(place) }
        process.logRefusal(refusal, client: stream.client)
    }

    func standIn(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl
    ) throws(NotAtHand) -> StandInResult {
        try cache?.standIn(for: head, at: keys, directives, routes.rescueWithShared(head.pathAndQuery), now: now) ?? .nothing
    }

    /// Completes an exchange. Every exchange ends here, once.
    /// - Parameter client: the client before the response was sent, because the connection's next request may have begun since.
    func finish(
        _ record: inout ExchangeRecord, _ trace: inout ExchangeTrace, _ head: RequestHead, _ client: RequestClient, _ began: Int64
    ) {
        loop.assertOnLoop()
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        count(record, trace.route, head)
        trace.complete(by: record, of: client.address, head.version, wall: loop.batchWallMilliseconds)
        if !isAlone {
            if trace.reasons.refusal?.isOfNoAPI == true { trace.api = ExchangeTrace.noAPI }
            if trace.api != ExchangeTrace.noAPI { trace.api = shared.place }
            if trace.api != ExchangeTrace.noAPI { countOfAPI(record) }
        }
        records.why.append(&trace, target: head.pathAndQuery)
        if record.isServerError || record.result.isTallied { tally(record, trace.api, head.pathAndQuery) }
        if head.span.isRecorded { noteSpan(record, trace, head, client, began) }
        if let log = records.accessLog { log.append(accessLine(record, trace, head, client, log)) }
    }
}
