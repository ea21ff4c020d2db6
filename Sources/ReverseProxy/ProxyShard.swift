// One shard: its loop, its listeners and connections, its side of the upstream, its counters. What is done with a request is in
// `ProxyShard+Requests`: own pages, fresh hits, which need no more than `ProxyShard+Hits`, and everything else, which becomes an `Exchange`.

import Administration
import CachePolicy
import Coordination
import Decisions
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Telemetry
import Upstream

/// Touched on its loop only; `@unchecked Sendable` because other threads do no more than queue work on that loop.
final class ProxyShard: RequestReceiver, @unchecked Sendable {
    let settings: ProxySettings
    let number: Int
    let loop: EventLoop
    /// Goes through long contents.
    let worker: LoopWorker
    /// Puts gzip on long responses: apart, so that hits do not wait for what somebody sends.
    let coder: LoopWorker
    let connections: ClientConnections
    let upstream: UpstreamClient
    /// nil where nothing is stored.
    let cache: ResponseCache?
    let requestFields: UpstreamRequestFields
    let clientHead: ClientResponseHead
    let cacheStatus: CacheStatus
    let hitLines: HitLines
    let storedResponseSender: StoredResponseSender
    let upstreamOrigin: UpstreamOrigin
    private(set) var metrics: ShardMetrics
    unowned let server: ProxyServer
    /// The server's, which each request asks.
    let health: UpstreamHealth
    let collapsed: CollapsedRequests
    let sentRequests: SentRequests
    private let accessLog: AccessLog?
    let servesOwnPages: Bool

    let routes: Routes
    let why: WhyRing
    /// Where the partition lies in this shard's keys.
    let partitionOffset: Int
    /// A copy of the server's.
    var modes: ModeTable { didSet { memo?.forget() } }
    /// nil where nothing is stored, and where hits are counted to refresh ahead.
    let memo: HitMemo?
    private(set) lazy var backgroundFetches = BackgroundFetches(shard: self)
    private(set) lazy var rechecks = Rechecks(shard: self)
    /// Held here for as long as the shard is.
    private lazy var probe = ActiveProbe(shard: self)
    let refreshAhead: RefreshAhead?
    let keyMaker: RequestKeyMaker
    private var dateSecond: Int64 = -1
    private var dateText: [UInt8] = []

    init(server: ProxyServer, number: Int, settings: ProxySettings, cache: SharedCacheState?, time: any TimeSource) {
        self.server = server
        (health, collapsed, sentRequests) = (server.health, server.collapsed, server.sentRequests)
        accessLog = server.accessLog
        self.settings = settings
        self.number = number
        loop = EventLoop(label: "cistern.shard.\(number)", time: time)
        worker = LoopWorker(loop: loop)
        coder = LoopWorker(loop: loop)
        connections = ClientConnections(loop: loop, settings: settings.downstream, budget: server.budget)
        upstream = UpstreamClient(loop: loop, settings: settings.upstream)
        self.cache = cache.map { ResponseCache($0) }
        connections.contentMemory = cache
        let origin = settings.upstream.origin.utf8.map(\.asciiLowercased)
        let basePath = Array(settings.upstream.basePath.utf8)
        upstreamOrigin = UpstreamOrigin(origin, basePath: basePath)
        requestFields = UpstreamRequestFields(
            settings: settings.forwarding, authority: Array(settings.upstream.authority.utf8), instance: server.instance)
        storedResponseSender = StoredResponseSender(settings.policy, compressFromBytes: settings.compressFromBytes, coder)
        clientHead = ClientResponseHead(
            settings: settings.forwarding, origin: origin, basePath: basePath, hiddenFields: storedResponseSender.hiddenFields)
        cacheStatus = CacheStatus(name: Array(settings.forwarding.name.utf8))
        hitLines = HitLines(cacheStatus)
        keyMaker = self.cache?.keyMaker ?? RequestKeyMaker(server.cacheSettings)
        partitionOffset = keyMaker.partitionOffset
        why = WhyRing(shard: number, capacity: settings.admin.records)
        modes = server.modes
        metrics = ShardMetrics(labels: MetricNames.labels)
        servesOwnPages = settings.servesOwnPages && settings.adminListen.isEmpty
        routes = server.routes
        let refreshAhead = routes.all.contains { $0.refreshAhead > 0 } ? RefreshAhead(routes: routes) : nil
        self.refreshAhead = refreshAhead
        memo = refreshAhead == nil ? cache.map(HitMemo.init) : nil
    }

    /// The failure memory hears of every attempt to connect.
    func followConnectionAttempts() {
        upstream.onConnectionAttempt = { [unowned self] error, began in
            let now = loop.time.monotonicMilliseconds
            guard let error else { return health.reach(now: now) }
            // Our own trouble says nothing of the upstream.
            guard error.isFailureToReach else { return }
            health.failToReach(error, began: began, now: now)
            rechecks.watchAddress()
        }
    }

    /// The scopes of failure that a request belongs to.
    /// - Parameter keys: where it was looked up: they tell who asks, but for one user's own cache.
    func scopes(of head: RequestHead, route: Int, _ keys: TargetKeys?) -> RequestScopes {
        let own = route == routes.all.count - 1 ? nil : route
        let known = settings.policy.isPrivate ? nil : keys
        let user = known.map { keyMaker.user(inKey: $0.own) } ?? keyMaker.user(of: head.fields)
        return RequestScopes(pathAndQuery: head.pathAndQuery, route: own, user: user)
    }

    /// The parts of the connections that a request takes part of: so that paths that are slow, or hang, starve nobody.
    func shares(of scopes: RequestScopes) -> [ConnectionShare] {
        let family = ConnectionShare(.family(scopes.family), .free)
        guard health.isFailing(scopes) else { return [family] }
        return [family, ConnectionShare(.failing, .connections(settings.upstream.maximumConnections / 4))]
    }

    /// Looks after the upstream without clients; one shard does it for all.
    func startProbe() {
        if !settings.probe.path.isEmpty { probe.start() }
    }

    /// The time of day as the rules use it.
    var now: Timestamp { Timestamp(milliseconds: loop.batchWallMilliseconds) }

    /// The same, and the loop's, as the cache uses them.
    var cacheTime: CacheTime { CacheTime(wall: now, monotonic: loop.time.monotonicMilliseconds) }

    /// The current IMF-fixdate, made once a second.
    var date: [UInt8] {
        let second = loop.batchWallMilliseconds / 1000
        if second != dateSecond {
            dateSecond = second
            dateText = HTTPDate.format(second)
        }
        return dateText
    }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let head = request.head
        if servesOwnPages, let page = OwnPage(head) { return page.respond(shard: self, stream: stream, head: head) }
        switch request.framing {
        case .none where !isKeptByContent(head): return considerPlain(request, on: stream)
        case .length(0) where !isKeptByContent(head): return receivedWhole(head, .whole(.empty), on: stream)
        case .none, .length, .chunked: return receive(head, request.framing, on: stream)
        }
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {
        metrics.refuse(MetricNames.refusals.firstIndex(of: refusal) ?? 0)
        server.logRefusal(refusal, peer: stream.peer)
    }

    func standIn(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl, route: Int
    ) throws(NotAtHand) -> StandInResult {
        try cache?.standIn(for: head, at: keys, directives, routes.all[route].rescueWithShared, now: now) ?? .nothing
    }

    // MARK: What happened

    /// Every exchange ends here, once.
    func finish(
        _ record: inout ExchangeRecord, _ trace: ExchangeTrace, _ head: RequestHead, _ stream: any ClientStream, _ began: Int64
    ) {
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        metrics.record(record)
        why.append(trace.completed(by: record, wall: loop.batchWallMilliseconds), target: head.pathAndQuery)
        if let log = accessLog {
            log.append(AccessLogLine.make(record, head, client: stream.peer.text, wall: loop.batchWallMilliseconds, format: log.format))
        }
    }

    func countRepeated() { metrics.repeated += 1 }

    func countStored() { metrics.stored += 1 }

    func countExaminedBeside() { metrics.examinedBeside += 1 }

    /// Only counted: whoever watches us is not in the access log.
    func countOwnPage(_ method: MethodLabel, _ status: Status) {
        var record = ExchangeRecord(result: .own, method: method, status: status.rawValue)
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - loop.batchMicroseconds
        metrics.record(record)
    }

    func countRequestBytes(_ count: Int) { metrics.requestBytes += UInt64(count) }

    func countContent(_ outcome: ContentOutcome) { metrics.countContent(MetricNames.contentOutcomes.firstIndex(of: outcome) ?? 0) }

    func countUpstreamError(_ error: UpstreamError) {
        metrics.upstreamFailed(MetricNames.upstreamErrors.firstIndex { $0.rawValue == error.rawValue } ?? 0)
    }
}

extension MethodLabel {
    init(_ method: Method) {
        self =
            switch method {
            case .get: .get
            case .head: .head
            case .post: .post
            case .put: .put
            case .patch: .patch
            case .delete: .delete
            case .options: .options
            case .query: .query
            case .connect, .trace, .other: .other
            }
    }
}
