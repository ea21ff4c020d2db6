// One API on one shard: its requests, its connections to the upstream, and its use of the cache. `Entry/RequestStage` lists the stages that
// requests pass through: `ProxyShard+Hits` serves hits, and all other requests become an `Exchange`.

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
        cache = shared.cache.map { [loop] in ResponseCache($0) { loop.cacheTime } }
        cache?.level = shard.level
        coordination = Coordination(shared, on: shard, ShardKeys(cache?.keyMaker ?? RequestKeyMaker(shared.cacheSettings)))
        reporting = Reporting(shared, on: shard)
        messages = ShardMessages(shared, on: shard)
        admission = Admission(settings, routes.access, certified: routes.certified, messages.requestFields)
        connections = ClientOwnedConnections(shared, at: upstream, on: loop)
        refreshAhead = RefreshAhead(routes)
        memo = shared.cache.map(HitMemo.init)
        let requests = UpstreamRequests(shared, messages.requestFields, connections, coordination, shard.records)
        background = BackgroundWork(
            BackgroundContext(loop: loop, upstream: upstream, coordination: coordination, reporting: reporting, requests: requests),
            settings, routes)
        exchanges = ExchangeContext(ExchangeRules(settings, routes), messages, cache, background)
        let fetches = FetchContext(shared, on: loop, cache, upstream, coordination, reporting)
        requests.makeFetch = { [unowned self] in Fetch(fetches, self, subject: $0, body: $1, receiver: $2) }
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

    var now: Timestamp { loop.now }

    /// Current value of the Date field.
    public var date: [UInt8] { messages.date }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {
        loop.assertOnLoop()
        if let place = MetricNames.place(of: refusal) { reporting.records.figures.labelled.count(.refused, place) }
        process.logRefusal(refusal, client: stream.client)
    }

    func standIn(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl
    ) throws(NotAtHand) -> StandInResult {
        try cache?.standIn(for: head, at: keys, directives, routes.rescueWithShared(head.pathAndQuery), now: now) ?? .nothing
    }
}

extension EventLoop {
    /// Current time in the form that the caching rules use.
    var now: Timestamp { Timestamp(milliseconds: batchWallMilliseconds) }

    /// Current wall-clock and monotonic time in the form that the cache uses.
    var cacheTime: CacheTime { CacheTime(wall: now, monotonic: time.monotonicMilliseconds) }
}
