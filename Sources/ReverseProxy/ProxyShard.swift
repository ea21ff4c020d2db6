// One API on one shard: its requests, its side of the upstream, its view of the cache. What is done with a request is in `ProxyShard+Requests`:
// fresh hits, which need no more than `ProxyShard+Hits`, and everything else, which becomes an `Exchange`.

import Addresses
import CachePolicy
import Coordination
import Decisions
import Downstream
import Explanation
import FaultInjection
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Sharing
import Telemetry
import Tracing
import Upstream

/// Touched on its loop only; `@unchecked Sendable` because other threads do no more than queue work on that loop.
public final class ProxyShard: RequestReceiver, @unchecked Sendable {
    public let shard: Shard
    public let loop: EventLoop
    let settings: ProxySettings
    let process: ProcessState
    public let shared: SharedFlowState
    /// Whether there is no other API.
    public let isAlone: Bool
    /// The shared ones, which every request asks.
    let routes: Routes
    let admission: Admission
    /// The shared ones, which nearly every fetch tells something.
    let health: UpstreamHealth
    let collapsed: CollapsedRequests
    let sentRequests: SentRequests
    let workers: ShardWorkers
    let upstream: UpstreamClient
    /// nil where nothing is stored.
    let cache: ResponseCache?
    /// What other nodes have stored; nil where nothing is shared.
    let level: FleetLevel?
    let keys: ShardKeys
    let messages: ShardMessages
    /// Of targets whose responses were not stored.
    let unkept = UnkeptTargets()
    let records: ShardRecords
    /// A copy of the shared ones.
    public var modes: ModeTable { didSet { followModes() } }
    /// Whether there is nothing to look up in them: asked by every request, and the table itself would be copied for that.
    private(set) var areModesLive: Bool
    /// The same.
    public var faults = FaultTable() { didSet { followFaults() } }
    /// nil where nothing is stored, and where hits are counted to refresh ahead.
    let memo: HitMemo?
    /// nil where no route asks for it.
    var refreshAhead: RefreshAhead?
    private(set) lazy var background = BackgroundWork(shard: self)
    private(set) lazy var markPatience = MarkPatience(loop: loop)
    /// nil where the own pages have addresses of their own.
    public var ownPages: (any OwnPageSource)?
    /// nil where no ACME client puts challenges anywhere.
    public var challenges: (any OwnFileSource)?
    private var dateText = DateText()
    /// Who is told requests' names.
    let requestIDUse: RequestIDUse
    /// Host and port of each.
    let upstreamAddresses: [String]
    /// What spans tell of this API.
    let spanSubject: SpanSubject
    /// nil where nobody has divided the paths.
    private(set) var routeFigures: RouteRecords?
    /// Whether keys have the scheme in them, and whether there is anything to be marked at all (`ProxyShard+Marking`).
    let marksScheme: Bool
    let mayMark: Bool
    /// Whether an address of the upstream has a path, which no request's path may leave.
    let hasBasePath: Bool

    public init(_ shared: SharedFlowState, on shard: Shard) {
        (self.shared, process, self.shard) = (shared, shared.process, shard)
        (loop, workers, records) = (shard.loop, shard.workers, shard.records)
        isAlone = shared.name.isEmpty
        requestIDUse = shared.settings.forwarding.requestID
        upstreamAddresses = shared.settings.upstream.atEachAddress.map(\.authority)
        spanSubject = SpanSubject(shared, shard: shard.number)
        (settings, routes, modes) = (shared.settings, shared.routes, shared.modes)
        (health, collapsed, sentRequests) = (shared.health, shared.collapsed, shared.process.sentRequests)
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

    /// On its loop, before it takes the first request.
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

    /// On its loop: other APIs are served beside this one, and what were its requests may be theirs.
    public func forgetRepeated() { memo?.forget() }

    /// On its loop: another is in its place, and no request comes any more. Those under way go on here.
    public func retire() {
        loop.assertOnLoop()
        background.end()
        // Under the rules of who is in its place now the same request may be another user's.
        shared.cache?.replace()
    }

    /// On its loop, when nothing is under way.
    public func close() {
        loop.assertOnLoop()
        upstream.close()
        leaveCounts()
    }

    /// The failure memory hears of every attempt to connect.
    private func followConnectionAttempts() {
        upstream.onConnectionAttempt = { [unowned self] error, began in
            let now = loop.time.monotonicMilliseconds
            guard let error else {
                shared.health.reach(now: now)
                return background.looks.glance()
            }
            // Our own trouble says nothing of the upstream.
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

    /// Requests to the upstream are only looked at while there is something to inject.
    private func followFaults() {
        guard !faults.rules.isEmpty else {
            upstream.chooseFault = nil
            return
        }
        upstream.chooseFault = { [unowned self] target in
            // Rules name the paths that clients ask for.
            let target = settings.strippedPath.isEmpty ? target : (settings.strippedPath + target)[...]
            return faults.fault(for: target, now: loop.time.monotonicMilliseconds) { Int.random(in: 0..<100) }
        }
    }

    /// The scopes of failure that a request belongs to.
    /// - Parameters:
    ///   - target: if its keys have a partition, that is the user.
    ///   - content: the meaning of the request's content; nil if the response does not depend on it.
    func scopes(
        of head: RequestHead, route: Int, _ target: KeyedTarget?, content: [UInt8]? = nil, client: ClientAddress
    ) -> RequestScopes {
        let own = route == routes.all.count - 1 ? nil : route
        // What is the same for all may still fail for one.
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

    /// A number for all parts of a request beside its target and its user that may change the response.
    private static func variant(_ head: RequestHead, _ target: KeyedTarget?, _ content: [UInt8]?) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(target?.keys.unknownFieldsHash ?? 0)
        if let content { hasher.combine(content) }
        // A type that an upstream has for one client is no failure for others that accept another.
        if let accept = head.fields.first(.accept) { accept.withUnsafeBytes { hasher.combine(bytes: $0) } }
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// The parts of the connections that a request takes part of: so that paths that are slow, or hang, starve nobody.
    func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(scopes.family), .free))
        if health.isFailing(scopes) { shares.append(ConnectionShare(.failing, .connections(settings.upstream.maximumConnections / 4))) }
        return shares
    }

    /// The time of day as the rules use it.
    var now: Timestamp { Timestamp(milliseconds: loop.batchWallMilliseconds) }

    /// The same, and the loop's, as the cache uses them.
    var cacheTime: CacheTime { Self.cacheTime(of: loop) }

    private static func cacheTime(of loop: EventLoop) -> CacheTime {
        CacheTime(wall: Timestamp(milliseconds: loop.batchWallMilliseconds), monotonic: loop.time.monotonicMilliseconds)
    }

    /// As the field Date has it.
    public var date: [UInt8] { dateText.at(loop.batchWallMilliseconds) }

    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        received(request, forNobody: nil, on: stream)
    }

    /// - Parameter reason: why no API is for the request; nil: this one is.
    func received(
        _ request: ReceivedRequest, forNobody reason: AccessRefusal?, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        loop.assertOnLoop()
        guard records.marksRequests else { return take(request, forNobody: reason, on: stream) }
        return takeMarked(request, forNobody: reason, on: stream)
    }

    /// - Parameter stream: tells the client the request's name, where that is wanted.
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

    /// Every exchange ends here, once.
    /// - Parameter client: as it was before the response went out: with that the connection's next request may have begun.
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
