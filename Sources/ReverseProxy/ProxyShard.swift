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
import Upstream

/// Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
public final class ProxyShard: RequestReceiver, @unchecked Sendable {
    public let shard: Shard
    public let loop: EventLoop
    let settings: ProxySettings
    public let shared: SharedFlowState
    /// Copy of the reference in `shared`, because every request uses it.
    let routes: Routes
    let admission: Admission
    let coordination: Coordination
    public let reporting: Reporting
    let upstream: UpstreamClient
    /// nil if nothing is stored.
    let cache: ResponseCache?
    let messages: ShardMessages
    let connections: ClientOwnedConnections
    /// nil if nothing is stored.
    let memo: HitMemo?
    /// nil if no route refreshes ahead.
    var refreshAhead: RefreshAhead?
    let background: BackgroundWork
    /// Also referenced by each exchange. A variable, for `isUnused`.
    private(set) var exchanges: ExchangeContext
    /// nil if the proxy's own pages are served on separate addresses.
    public var ownPages: (any OwnPageSource)?
    /// nil if no directory for ACME challenges is configured.
    public var challenges: (any OwnFileSource)?

    public init(_ shared: SharedFlowState, on shard: Shard) {
        (self.shared, self.shard, loop) = (shared, shard, shard.loop)
        (settings, routes) = (shared.settings, shared.routes)
        upstream = UpstreamClient(loop: loop, settings: settings.upstream)
        cache = shared.cache.map { [loop] in ResponseCache($0) { Self.cacheTime(of: loop) } }
        cache?.level = shard.level
        admission = Admission(settings, routes.access, certified: routes.certified, authority: Array(settings.upstream.authority.utf8))
        coordination = Coordination(shared, on: shard, ShardKeys(cache?.keyMaker ?? RequestKeyMaker(shared.cacheSettings)))
        reporting = Reporting(shared, on: shard)
        messages = ShardMessages(shared, on: shard)
        connections = ClientOwnedConnections(shared, at: upstream, on: loop)
        refreshAhead = RefreshAhead(routes)
        memo = shared.cache.map(HitMemo.init)
        let requests = UpstreamRequests(shared, messages.requestFields, connections, shard.records)
        background = BackgroundWork(
            BackgroundContext(loop: loop, upstream: upstream, coordination: coordination, reporting: reporting, requests: requests),
            settings, routes)
        exchanges = ExchangeContext(ExchangeRules(settings, routes), messages, cache, background)
        requests.makeFetch = { [unowned self] in Fetch(shard: self, subject: $0, body: $1, receiver: $2) }
    }

    var process: ProcessState { shared.process }
    var workers: ShardWorkers { shard.workers }
    var level: any SharedLevel { shard.level }
    /// Whether this is the only API.
    public var isAlone: Bool { shared.name.isEmpty }

    /// Must be called on the shard's event loop before the first request.
    public func start() {
        loop.assertOnLoop()
        reporting.start()
        if let cache = shared.cache { shard.connections.contentMemory = cache }
        modes = shared.modes
        use(process.faults)
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

    /// Whether no exchange uses this instance any more. Must be called on the shard's event loop.
    public func isUnused() -> Bool { isKnownUniquelyReferenced(&exchanges) }

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
        upstream.onConnectionMade = { [reporting] times in reporting.countConnection(times) }
        upstream.mayLook = { [unowned self] in !coordination.modes.isOffline }
        upstream.onAddressChange = { [unowned self] place, error in
            shared.health.noteAddress(addresses, place, error, now: loop.time.monotonicMilliseconds)
        }
    }

    /// Copy of the modes in `shared`.
    public var modes: ModeTable {
        get { coordination.modes.table }
        set {
            coordination.modes.table = newValue
            memo?.forget()
        }
    }

    /// Chooses faults for upstream requests only while there are rules.
    public func use(_ faults: FaultTable) {
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

    /// Current time in the form that the caching rules use.
    var now: Timestamp { Timestamp(milliseconds: loop.batchWallMilliseconds) }

    /// Current wall-clock and monotonic time in the form that the cache uses.
    var cacheTime: CacheTime { Self.cacheTime(of: loop) }

    private static func cacheTime(of loop: EventLoop) -> CacheTime {
        CacheTime(wall: Timestamp(milliseconds: loop.batchWallMilliseconds), monotonic: loop.time.monotonicMilliseconds)
    }

    /// Current value of the Date field.
    public var date: [UInt8] { messages.date }

    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        received(request, forNobody: nil, on: stream)
    }

    /// - Parameter reason: why no API serves the request; nil if this one does.
    func received(
        _ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        loop.assertOnLoop()
        guard reporting.records.marksRequests else { return take(request, forNobody: reason, on: stream) }
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
        let request = admission.mayMark ? marked(believed, of: stream) : believed
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
        if request.framing == .none, connections.isOfConnectionUser(head, on: stream) { return pass(head, .none, on: stream) }
        switch request.framing {
        case .none where !isKeptByContent(head): return considerPlain(request, on: stream)
        case .length(0) where !isKeptByContent(head): return receivedWhole(head, .whole(.empty), on: stream)
        case .none, .length, .chunked, .tunnel: return receive(head, request.framing, on: stream)
        }
    }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {
        loop.assertOnLoop()
        if let place = MetricNames.place(of: refusal) { reporting.records.metrics.refuse(place) }
        process.logRefusal(refusal, client: stream.client)
    }

    func standIn(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl
    ) throws(NotAtHand) -> StandInResult {
        try cache?.standIn(for: head, at: keys, directives, routes.rescueWithShared(head.pathAndQuery), now: now) ?? .nothing
    }
}
