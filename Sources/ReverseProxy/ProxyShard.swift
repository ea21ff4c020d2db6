// One shard: its loop, its listeners and connections, its side of the upstream, its counters. Here a request is looked at first: own pages,
// fresh hits, which need no more than this file and `StoredAnswers`, and everything else, which becomes an `Exchange`.

import CachePolicy
import CacheStore
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
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
    let lookUp: ResponseCache?
    let requestFields: UpstreamRequestFields
    let cacheStatus: CacheStatus
    private let hitLines: HitLines
    /// Our entry in the Via of answers (RFC 9110 §7.6.3); nil where it is switched off.
    let via: [UInt8]?
    let storedAnswers: StoredAnswers
    let basePath: [UInt8]
    /// Scheme and authority of the upstream, in lower case.
    let origin: [UInt8]
    let upstreamOrigin: UpstreamOrigin
    private(set) var metrics: ShardMetrics
    unowned let server: ProxyServer
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
    private let refreshAhead: RefreshAhead?
    let keyMaker: RequestKeyMaker
    /// When the request that is being looked at came, in microseconds.
    private var requestBegan: Int64 = 0
    /// How often something was read from the disk for it.
    private var requestReads = 0
    /// The store's count of changes when the last request came: before anything of the store was looked at for it.
    private(set) var storeChanges: UInt64 = 0
    private var dateSecond: Int64 = -1
    private var dateText: [UInt8] = []

    init(server: ProxyServer, number: Int, settings: ProxySettings, cache: SharedCacheState?, time: any TimeSource) {
        self.server = server
        accessLog = server.accessLog
        self.settings = settings
        self.number = number
        loop = EventLoop(label: "cistern.shard.\(number)", time: time)
        worker = LoopWorker(loop: loop)
        coder = LoopWorker(loop: loop)
        connections = ClientConnections(loop: loop, settings: settings.downstream, budget: server.budget)
        upstream = UpstreamClient(loop: loop, settings: settings.upstream)
        lookUp = cache.map { ResponseCache($0) }
        connections.contentMemory = cache?.store
        origin = settings.upstream.origin.utf8.map(\.asciiLowercased)
        upstreamOrigin = UpstreamOrigin(origin, basePath: Array(settings.upstream.basePath.utf8))
        requestFields = UpstreamRequestFields(
            settings: settings.forwarding, authority: Array(settings.upstream.authority.utf8), instance: server.instance)
        basePath = Array(settings.upstream.basePath.utf8)
        via = settings.forwarding.via ? Array("1.1 \(settings.forwarding.name)".utf8) : nil
        storedAnswers = StoredAnswers(settings, coder)
        cacheStatus = CacheStatus(name: Array(settings.forwarding.name.utf8))
        hitLines = HitLines(cacheStatus)
        keyMaker = RequestKeyMaker(server.cacheSettings, store: cache?.store)
        partitionOffset = keyMaker.partitionOffset
        why = WhyRing(shard: number, capacity: settings.admin.records)
        modes = server.modes
        metrics = ShardMetrics(labels: MetricNames.labels)
        servesOwnPages = settings.servesOwnPages && settings.adminListen.isEmpty
        routes = server.routes
        let refreshAhead = routes.all.contains { $0.refreshAhead > 0 } ? RefreshAhead(routes: routes) : nil
        self.refreshAhead = refreshAhead
        memo = refreshAhead == nil ? (cache?.store).map(HitMemo.init) : nil
    }

    /// The failure memory hears of every attempt to connect.
    func followConnectionAttempts() {
        upstream.onConnectionAttempt = { [unowned self] error, began in
            let now = loop.time.monotonicMilliseconds
            guard let error else { return server.health.reach(now: now) }
            // Our own trouble says nothing of the upstream.
            guard error.isFailureToReach else { return }
            server.health.failToReach(error, began: began, now: now)
            rechecks.watchAddress()
        }
    }

    /// The scopes of failure that a request belongs to.
    func scopes(of head: RequestHead, route: Int) -> RequestScopes {
        let own = route == routes.all.count - 1 ? nil : route
        return RequestScopes(pathAndQuery: head.pathAndQuery, route: own, user: keyMaker.user(of: head.fields))
    }

    /// The parts of the connections that a request takes part of: so that paths that are slow, or hang, starve nobody.
    func shares(of scopes: RequestScopes) -> [ConnectionShare] {
        let family = ConnectionShare(.family(scopes.family), .free)
        guard server.health.isFailing(scopes) else { return [family] }
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

    // MARK: Requests

    func received(_ head: RequestHead, framing: ContentFraming, on connection: ClientConnection) -> (any ClientExchange)? {
        requestBegan = loop.batchMicroseconds
        if servesOwnPages, let page = OwnPage(head) { return page.answer(shard: self, connection: connection, head: head) }
        if let lookUp { storeChanges = lookUp.changes }
        switch framing {
        case .none where !isKeptByContent(head): return consider(head, .none, on: connection)
        case .length(0) where !isKeptByContent(head): return consider(head, .whole(.empty), on: connection)
        case .none, .length, .chunked: return receive(head, framing, on: connection)
        }
    }

    /// What becomes of a request that is whole.
    func consider(_ head: RequestHead, _ body: RequestBody, on connection: ClientConnection) -> (any ClientExchange)? {
        guard lookUp != nil else { return pass(head, body, on: connection) }
        switch RequestUse(head, content: body.framing) {
        case .bypass: return pass(head, body, on: connection)
        case .lookUp: return look(head, body, connection)
        case .lookUpPart: return look(head, body, connection, forPart: true)
        }
    }

    func refused(_ refusal: RequestRejection.Kind, on connection: ClientConnection) {
        metrics.refuse(MetricNames.refusals.firstIndex(of: refusal) ?? 0)
        server.logRefusal(refusal, peer: connection.peer)
    }

    /// Passes a request on that the store has nothing to do with.
    func pass(_ head: RequestHead, _ body: RequestBody, on connection: ClientConnection) -> (any ClientExchange)? {
        requestBegan = loop.batchMicroseconds - body.waitedMicroseconds
        let route = routes.place(of: head.pathAndQuery)
        guard lookUp != nil, case .bypass(let reason) = RequestUse(head, content: body.framing) else {
            return begin(head, body, connection, ExchangePlan(route: route))
        }
        let directives = head.fields.contains(.cacheControl) ? RequestCacheControl(head.fields) : RequestCacheControl()
        return begin(head, body, connection, ExchangePlan(bypass: reason, directives: directives, route: route))
    }

    /// - Parameters:
    ///   - content: what the request's content says, where the answer depends on it.
    ///   - forPart: a part is asked for.
    func look(
        _ head: RequestHead, _ body: RequestBody, _ connection: ClientConnection, content: [UInt8]? = nil, forPart: Bool = false
    ) -> (any ClientExchange)? {
        requestBegan = loop.batchMicroseconds - body.waitedMicroseconds
        requestReads = 0
        do throws(NotAtHand) {
            return try lookInMemory(head, body, connection, content, forPart: forPart)
        } catch {
            return lookLater(head, body, connection, content, forPart: forPart, error)
        }
    }

    /// Apart from `look`, so that a hit makes no closure.
    @inline(never)
    private func lookLater(
        _ head: RequestHead, _ body: RequestBody, _ connection: ClientConnection, _ content: [UInt8]?, forPart: Bool, _ wanted: NotAtHand
    ) -> DiskWait {
        let began = requestBegan
        return DiskWait(shard: self, connection: connection, head: head, began: began, wanted) { [self] (reads) throws(NotAtHand) in
            (requestBegan, requestReads) = (began, reads)
            return try lookInMemory(head, body, connection, content, forPart: forPart)
        }
    }

    private func lookInMemory(
        _ head: RequestHead, _ body: RequestBody, _ connection: ClientConnection, _ content: [UInt8]?, forPart: Bool
    ) throws(NotAtHand) -> (any ClientExchange)? {
        guard let lookUp else { return pass(head, body, on: connection) }
        let (keys, result) = try lookUp.find(head, content: content)
        var directives = RequestCacheControl()
        if head.fields.contains(.cacheControl) || head.fields.contains(.pragma) { directives = RequestCacheControl(head.fields) }
        if case .found(let found) = result, refreshAhead == nil, !isModal(head),
            case .serve(let ttl, let age) = Reuse.decide(found.metadata, directives, now: now)
        {
            serveHit(found, head, ttl: ttl, age: age, .hit, connection)
            return nil
        }
        if isModal(head), let found = result.found, try serveByMode(found, head, directives, connection) { return nil }
        // What may stand in where the upstream fails: by then it is known at once whether it does.
        let route = routes.place(of: head.pathAndQuery)
        if keys.isPartitioned, result.found == nil, routes.all[route].rescueWithShared != .never {
            _ = try standIn(for: head, at: keys, directives, route: route)
        }
        if forPart { return passPart(result.found, head, body, directives, connection) }
        return goOn(keys, result, head, body, directives, connection)
    }

    /// The upstream is asked for the part; the stored whole stands in where it fails.
    private func passPart(
        _ found: FoundResponse?, _ head: RequestHead, _ body: RequestBody, _ directives: RequestCacheControl, _ connection: ClientConnection
    ) -> (any ClientExchange)? {
        let route = routes.place(of: head.pathAndQuery)
        let plan = ExchangePlan(bypass: .range, directives: directives, found: found, route: route)
        plan.diskReads = requestReads
        return begin(head, body, connection, plan)
    }

    /// What is not plainly a fresh hit. Apart from `look`, so that what a hit needs stays small.
    @inline(never)
    private func goOn(
        _ keys: TargetKeys, _ result: LookUpResult, _ head: RequestHead, _ body: RequestBody, _ directives: RequestCacheControl,
        _ connection: ClientConnection
    ) -> (any ClientExchange)? {
        let plan = ExchangePlan(
            directives: directives, keys: keys, found: result.found, flightKey: result.flightKey(keys.own), missToken: result.forwardToken,
            mayShare: head.method == .get && directives == RequestCacheControl(), route: routes.place(of: head.pathAndQuery))
        plan.mayCollapse = (head.method == .get || isKeptByContent(head)) && directives == RequestCacheControl()
        plan.diskReads = requestReads
        guard let found = plan.found, mode(of: head) != .record else { return begin(head, body, connection, plan) }
        switch Reuse.decide(found.metadata, plan.directives, now: now) {
        case .validate: return begin(head, body, connection, plan)
        case .serve(let ttl, let age):
            serveHit(found, head, ttl: ttl, age: age, .hit, connection)
            let lifetime = found.metadata.freshnessLifetime ?? 0
            // RFC 8246 §2: what is immutable is not asked after while it is fresh.
            let mayChange = !found.metadata.flags.contains(.immutable)
            if plan.mayShare, mayChange, refreshAhead?.isDue(plan, ttl: ttl, lifetime: lifetime, now: now) == true {
                validate(head, plan, connection, .refreshAhead)
            }
        // Only a GET can be asked anew without its client.
        case .serveWhileValidating where head.method != .get: return begin(head, body, connection, plan)
        case .serveWhileValidating(let ttl, let age):
            serveHit(found, head, ttl: ttl, age: age, .stale, connection)
            validate(head, plan, connection, .staleWhileRevalidate)
        }
        return nil
    }

    /// Behind the client's back, unless the upstream is known to fail there.
    private func validate(_ head: RequestHead, _ plan: ExchangePlan, _ connection: ClientConnection, _ cause: BackgroundCause) {
        plan.found = plan.found?.holdingHead
        let client = UpstreamRequestFields.Client(connection, head)
        let asking = FailureMemory.Asking.withCopy(mayLookBehind: backgroundFetches.hasRoomToLook)
        switch server.health.admit(scopes(of: head, route: plan.route), asking, now: loop.time.monotonicMilliseconds) {
        case .go: backgroundFetches.start(head, plan, client: client, cause, behind: why.lastNumber)
        case .serveCopy(_, looksBehind: true): backgroundFetches.look(head, plan, client: client, behind: why.lastNumber)
        case .serveCopy, .refuse: break
        }
    }

    /// What is not a fresh hit.
    private func begin(
        _ head: RequestHead, _ body: RequestBody, _ connection: ClientConnection, _ plan: ExchangePlan
    ) -> (any ClientExchange)? {
        plan.mode = mode(of: head)
        // The upstream may take its time, and the memory be another's by then.
        plan.found = plan.found?.holdingHead
        if plan.mode == .record { (plan.mayShare, plan.mayCollapse) = (false, false) }
        let exchange = Exchange(shard: self, connection: connection, head: head, body: body, plan: plan, began: requestBegan)
        exchange.start()
        return exchange.isFinished ? nil : exchange
    }

    func serveHit(
        _ found: FoundResponse, _ head: RequestHead, ttl: Int64?, age: Int64, _ result: CacheResult, _ connection: ClientConnection,
        mode: ServingMode = .live
    ) {
        var trace = ExchangeTrace()
        trace.number = why.nextNumber()
        trace.lookUp = .stored
        trace.mode = mode
        trace.lifetime = ttl.map { $0 + age } ?? -1
        trace.age = age
        trace.partition = ExchangeTrace.partition(in: found.key, at: partitionOffset)
        trace.diskReads = UInt8(clamping: requestReads)
        let body = WholeBody.borrowed(found.content, owner: found.owner)
        func send(_ lines: UnsafeRawBufferPointer) -> StoredAnswers.Sent {
            storedAnswers.send(
                storedHead: found.head, metadata: found.metadata, body: body, to: head, lines: lines, on: connection)
        }
        let sent: StoredAnswers.Sent
        let isPlain = mode == .live && !asksForWords(head)
        if let ttl, isPlain {
            sent = send(hitLines.make(age: age, ttl: ttl))
        } else {
            sent = longerLines(found, head, ttl: ttl, age: age, result, trace, mode).withUnsafeBytes(send)
        }
        var record = ExchangeRecord(result: result, method: MethodLabel(head.method), status: sent.status.rawValue)
        record.source = .store
        record.bodyBytes = sent.bodyBytes
        record.age = age
        if isPlain, result == .hit { remember(found, head, record, trace, connection) }
        finish(&record, trace, head, connection, requestBegan)
    }

    /// Those of a hit that has more to tell than how old it is and how long it is fresh.
    @inline(never)
    private func longerLines(
        _ found: FoundResponse, _ head: RequestHead, ttl: Int64?, age: Int64, _ result: CacheResult, _ trace: ExchangeTrace,
        _ mode: ServingMode
    ) -> [UInt8] {
        var lines: [UInt8] = []
        lines.append(age: age)
        cacheStatus.hit(ttl: ttl, key: shownKey(found.key, head), detail: mode == .live ? nil : mode.rawValue, to: &lines)
        if explains(head) { lines += whyField(ExchangeRecord(result: result, method: MethodLabel(head.method), status: 200), trace, head) }
        return lines
    }

    func standIn(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl, route: Int
    ) throws(NotAtHand) -> StandInResult {
        try lookUp?.standIn(for: head, at: keys, directives, routes.all[route].rescueWithShared, now: now) ?? .nothing
    }

    /// A redirect within the upstream, made relative so that the client stays here.
    func keepingRedirect(_ answer: ResponseHead) -> ResponseHead {
        guard settings.forwarding.rewriteLocation, let location = answer.fields.first(.location),
            let relative = LocationRewriting.relative(location, to: origin, basePath: basePath)
        else { return answer }
        var answer = answer
        answer.fields.set(.location, relative)
        return answer
    }

    // MARK: What happened

    /// Every exchange ends here, once.
    func finish(
        _ record: inout ExchangeRecord, _ trace: ExchangeTrace, _ head: RequestHead, _ connection: ClientConnection, _ began: Int64
    ) {
        record.durationMicroseconds = SystemTime.monotonicMicroseconds - began
        metrics.record(record)
        why.append(trace.completed(by: record, wall: loop.batchWallMilliseconds), target: head.pathAndQuery)
        if let log = accessLog {
            log.append(AccessLogLine.make(record, head, peer: connection.peer, wall: loop.batchWallMilliseconds, format: log.format))
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

/// What looking at a request has brought, for the exchange that goes on with it. A class, since it is handed from hand to hand.
final class ExchangePlan {
    let bypass: BypassReason?
    let directives: RequestCacheControl
    /// nil where the store has nothing to do with the request.
    let keys: TargetKeys?
    var key: [UInt8]? { keys?.own }
    var found: FoundResponse?
    /// Under which key requests for the same share one fetch: the variant's, where it is known.
    let flightKey: [UInt8]?
    let missToken: StaticString
    /// Whether a background fetch may speak for this request: a plain GET.
    var mayShare: Bool
    /// Whether another's answer would do: a plain GET, or a request with the same content that only reads.
    var mayCollapse = false
    /// The place of the target's route.
    let route: Int
    var mode = ServingMode.live
    /// How often something was read from the disk for it.
    var diskReads = 0

    init(
        bypass: BypassReason? = nil, directives: RequestCacheControl = RequestCacheControl(), keys: TargetKeys? = nil,
        found: FoundResponse? = nil, flightKey: [UInt8]? = nil, missToken: StaticString = "uri-miss",
        mayShare: Bool = false, route: Int
    ) {
        self.bypass = bypass
        self.directives = directives
        self.keys = keys
        self.found = found
        self.flightKey = flightKey
        self.missToken = missToken
        self.mayShare = mayShare
        self.route = route
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
