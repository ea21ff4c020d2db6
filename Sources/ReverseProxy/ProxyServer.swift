// The whole proxy: the store, the shards, their listeners; its start, its counts, its end.

import Administration
import CachePolicy
import Coordination
import Dispatch
import Downstream
import Explanation
import Glibc
import HTTPCore
import Locking
import Logging
import Reactor
import ResponseCache
import Telemetry
import Upstream

/// `@unchecked Sendable` because the shards are made before anything runs and what changes afterwards is behind mutexes.
package final class ProxyServer: @unchecked Sendable {
    package let settings: ProxySettings
    package private(set) var addresses: [ListenAddress] = []
    package private(set) var adminAddresses: [ListenAddress] = []
    let accessLog: AccessLog?
    let instance: String
    let budget: ConnectionBudget
    let contentBudget: ContentBudget
    let routes: Routes
    let health: UpstreamHealth
    let collapsed = CollapsedRequests()
    let sentRequests = SentRequests()
    let cacheSettings: ResponseCacheSettings
    let metricsPages = MetricsPages()
    /// Where pages of numbers are made.
    private let pageQueue = DispatchQueue(label: "cistern.pages", qos: .utility)
    private let logger: Logger
    /// nil where nothing is stored.
    private let cache: SharedCacheState?
    private var shards: [ProxyShard] = []
    /// Each with the loop that it lives on.
    private var listeners: [(shard: ProxyShard, listener: Listener)] = []

    private struct State {
        var isStopping = false
    }

    /// Changed by the administrator; each shard has a copy.
    private let modeTable: Mutex<ModeTable>
    /// Written by all shards.
    private let state = Mutex(State())
    private let time: any TimeSource

    /// - Throws: `StoreError` or `ListenError`: nothing is left running then.
    package init(_ settings: ProxySettings, logger: Logger, accessLog: AccessLog? = nil, time: any TimeSource = SystemTime.shared) throws {
        self.settings = settings
        self.logger = logger
        self.time = time
        self.accessLog = accessLog
        budget = ConnectionBudget(settings.downstream)
        contentBudget = ContentBudget(settings.downstream)
        routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        modeTable = Mutex(ModeTable(all: settings.mode, routes: routes.modes))
        health = UpstreamHealth(routes: routes.all.map(\.name), settings: settings.upstream.failure, logger: logger)
        var generator = SystemRandomNumberGenerator()
        instance = String(generator.next() as UInt64, radix: 36)
        cacheSettings = ResponseCacheSettings(settings, routes)
        cache = try settings.store.map { [cacheSettings, sentRequests] place in
            try SharedCacheState(opening: place, sent: sentRequests, settings: cacheSettings) { Self.logWriting($0, $1, logger) }
        }
        var sockets: [PlacedSocket] = []
        for number in 0..<settings.shards { try bind(shard: number, &sockets) }
        try bindAdminSocket(&sockets)
        makeShards(sockets, time)
        logStart()
    }

    /// TCP sockets are bound once for each shard, all to the port that the first one got; a Unix socket belongs to the first shard.
    private func bind(shard: Int, _ sockets: inout [PlacedSocket]) throws(ListenError) {
        for (isAdmin, wanted) in [(false, settings.listen), (true, settings.adminListen)] {
            for (index, address) in wanted.enumerated() {
                let actual = shard == 0 ? address : (isAdmin ? adminAddresses : addresses)[index]
                if case .unix = address, shard > 0 { continue }
                let socket = try BoundSocket(actual, backlog: settings.downstream.backlog, isShared: shard > 0)
                sockets.append(PlacedSocket(socket: socket, shard: shard, isAdmin: isAdmin))
                guard shard == 0 else { continue }
                if isAdmin { adminAddresses.append(socket.address) } else { addresses.append(socket.address) }
            }
        }
    }

    /// Owned by the first shard. Where its path was not chosen by the operator, the proxy does without it.
    private func bindAdminSocket(_ sockets: inout [PlacedSocket]) throws(ListenError) {
        guard let path = settings.admin.socket else { return }
        do throws(ListenError) {
            guard let address = ListenAddress("unix:" + path) else {
                throw ListenError(address: .unix(path: path), code: ENAMETOOLONG)
            }
            let socket = try BoundSocket(address, backlog: settings.downstream.backlog, mode: 0o600)
            sockets.append(PlacedSocket(socket: socket, shard: 0, isAdmin: true))
            adminAddresses.append(address)
        } catch {
            if settings.admin.isSocketRequired { throw error }
            logger.warning("no administrator's interface: \(error)")
        }
    }

    private func makeShards(_ sockets: [PlacedSocket], _ time: any TimeSource) {
        shards = (0..<settings.shards).map { ProxyShard(server: self, number: $0, settings: settings, cache: cache, time: time) }
        let admin = AdminInterface(server: self, settings: settings.admin, cache: cache)
        for placed in sockets {
            let shard = shards[placed.shard]
            let receiver: any RequestReceiver =
                placed.isAdmin ? AdminReceiver(shard: shard, interface: admin, address: placed.socket.address) : shard
            let listener = Listener(loop: shard.loop, socket: placed.socket, connections: shard.connections, receiver: receiver)
            listeners.append((shard, listener))
        }
    }

    /// Begins to accept.
    package func start() {
        for shard in shards {
            shard.loop.execute {
                shard.followConnectionAttempts()
                shard.connections.start()
            }
            shard.loop.start()
        }
        shards.first.map { first in first.loop.execute { first.startProbe() } }
        for index in listeners.indices {
            let shard = listeners[index].shard
            shard.loop.execute { [self] in listeners[index].listener.start() }
        }
    }

    /// Stops accepting, lets running responses finish within `deadline`, writes what waits for the store. Blocks until all is done; not
    /// to be called from a shard's loop.
    package func stop(deadline: Duration) {
        state.withLock { $0.isStopping = true }
        let group = DispatchGroup()
        for shard in shards {
            group.enter()
            shard.loop.execute { [self] in
                for (owner, listener) in listeners where owner === shard { listener.close() }
                shard.connections.drain(deadline: deadline) {
                    shard.upstream.close()
                    shard.loop.stop { group.leave() }
                }
            }
        }
        group.wait()
        for case .unix(let path) in addresses + adminAddresses { unlink(path) }
        cache?.close()
        accessLog?.finish()
        logger.info("stopped")
    }

    /// Waits until what was handed to the store is readable from its files.
    package func flushStore() { cache?.flush() }

    var shardCount: Int { shards.count }

    /// Does `work` on each shard's loop, and then, on one of them, `then`.
    func onEachShard(_ work: @escaping @Sendable (ProxyShard) -> Void, then: @escaping @Sendable () -> Void) {
        let left = Mutex(shards.count)
        for shard in shards {
            shard.loop.execute {
                work(shard)
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { then() }
            }
        }
    }

    package var modes: ModeTable { modeTable.withLock { $0 } }

    /// Returns what `change` returns: whether there was something to change. If so, `then` is called once every shard knows.
    package func changeModes(_ change: (inout ModeTable) -> Bool, then: @escaping @Sendable () -> Void) -> Bool {
        let changed = modeTable.withLock { modes in change(&modes) ? modes : nil }
        guard let changed else { return false }
        let exceptions =
            changed.rules.map { "\($0.mode.rawValue) for \($0.prefix)" }
            + changed.routes.sorted { $0.key < $1.key }.map { "\($0.value.rawValue) for the route \(routes.all[$0.key].name)" }
        logger.notice("the mode is \(([changed.all.rawValue] + exceptions).joined(separator: ", "))")
        onEachShard {
            $0.modes = changed
        } then: {
            then()
        }
        return true
    }

    package var wallMilliseconds: Int64 { time.wallMilliseconds }
    package var monotonicMilliseconds: Int64 { time.monotonicMilliseconds }

    /// Whether requests are taken.
    package var isReady: Bool { state.withLock { !$0.isStopping } }

    package func reopenAccessLog() {
        accessLog?.reopen { [logger] code in
            logger.error("the access log cannot be reopened: \(String(cString: strerror(code))); the old file is written to further")
        }
    }

    // MARK: Metrics

    /// Copies each shard's counts on its own loop; `then` is called on the pages' queue, since what is made of them takes its time.
    package func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void) {
        let gathering = Gathering(count: shards.count, labels: MetricNames.labels)
        for shard in shards {
            shard.loop.execute { [self] in
                guard let snapshot = gathering.add(shard) else { return }
                pageQueue.async { then(self.complete(snapshot)) }
            }
        }
    }

    private func complete(_ snapshot: MetricsSnapshot) -> MetricsSnapshot {
        var snapshot = snapshot
        snapshot.loops.sort { $0.shard < $1.shard }
        snapshot.process = .now()
        snapshot.version = settings.version
        let modes = self.modes
        snapshot.modes = ServingMode.allCases.map { mode in
            let exceptions = modes.exceptions(with: mode)
            return MetricsSnapshot.ModeLine(
                mode: mode.rawValue, isForAll: modes.all == mode, prefixes: exceptions.prefixes, routes: exceptions.routes)
        }
        snapshot.cookieSetsLeftOut = cache?.cookieOrigins?.leftOut ?? 0
        snapshot.gone = cache?.gone?.counts.map { (event: $0.event, count: UInt64($0.count)) } ?? []
        snapshot.collapsedWaiting = collapsed.waiting
        snapshot.failures = health.summary(now: time.monotonicMilliseconds)
        snapshot.accessLogDropped = accessLog?.dropped ?? 0
        snapshot.connections.limit = budget.limit
        snapshot.connections.turnedAway = budget.turnedAway
        snapshot.connections.cut = budget.cut
        snapshot.connections.unsentBytes = budget.unsentBytes
        snapshot.connections.heldContentBytes = contentBudget.heldBytes
        return snapshot
    }

    var cacheFigures: CacheFigures { CacheFigures(cache) }

    // MARK: Log

    private func logStart() {
        let listening = addresses.map(\.description).joined(separator: ", ")
        let loops = settings.shards == 1 ? "1 event loop" : "\(settings.shards) event loops"
        logger.info("listening on \(listening), upstream \(settings.upstream.origin)\(settings.upstream.basePath), \(loops)")
        if !adminAddresses.isEmpty {
            logger.info("metrics and admin interface on \(adminAddresses.map(\.description).joined(separator: ", "))")
        }
        for route in routes.all where route.rescueWithShared == .always { logger.warning("\(route.sharedRescueWarning)") }
        guard let cache else { return logger.warning("no store: nothing is kept") }
        for line in OpeningReport(cache).lines {
            switch line {
            case .info(let text): logger.info("\(text)")
            case .warning(let text): logger.warning("\(text)")
            case .error(let text): logger.error("\(text)")
            }
        }
    }

    /// Each change is said once.
    private static func logWriting(_ isWritable: Bool, _ directory: String, _ logger: Logger) {
        if isWritable {
            logger.notice("the cache directory \(directory) takes responses again")
        } else {
            logger.error("the cache directory \(directory) takes no more (is its disk full?): new responses are passed on and not kept")
        }
    }

    func logRefusal(_ refusal: RequestRejection.Kind, peer: PeerAddress) {
        logger.debug("refused a request of \(String(decoding: peer.text, as: UTF8.self)): \(refusal.rawValue)")
    }
}

/// A bound socket and where it is listened on.
private struct PlacedSocket {
    let socket: BoundSocket
    let shard: Int
    let isAdmin: Bool
}

/// The sum of the shards' counts; complete when each has added its own.
private final class Gathering: Sendable {
    /// Each shard adds to it from its own loop.
    private let state: Mutex<(left: Int, snapshot: MetricsSnapshot)>

    init(count: Int, labels: MetricLabels) {
        state = Mutex((count, MetricsSnapshot(shards: ShardMetrics(labels: labels))))
    }

    /// Returns the sum where this was the last.
    func add(_ shard: ProxyShard) -> MetricsSnapshot? {
        state.withLock { state in
            state.snapshot.shards.merge(shard.metrics)
            let waits = shard.loop.waits
            state.snapshot.loops.append(
                MetricsSnapshot.LoopLine(
                    shard: shard.number, longestWait: waits.longestLately(now: shard.loop.batchMicroseconds), waits: Histogram(waits),
                    workers: [("content", shard.worker), ("gzip", shard.coder)].map { ($0, $1.queue.count, $1.queue.bytes) }))
            let counters = shard.connections.counters
            state.snapshot.connections.open += counters.open
            state.snapshot.connections.accepted += counters.accepted
            state.snapshot.connections.timedOut += counters.timedOut
            state.snapshot.connections.acceptPauses += counters.acceptPauses
            state.snapshot.connections.upstreamActive += shard.upstream.counters.active
            state.snapshot.connections.upstreamOpened += shard.upstream.counters.connectionsOpened
            state.snapshot.connections.upstreamRequests += shard.upstream.counters.requests
            state.snapshot.connections.handshakesFull += shard.upstream.counters.handshakesFull
            state.snapshot.connections.handshakesResumed += shard.upstream.counters.handshakesResumed
            for cause in ConnectionEnd.allCases {
                state.snapshot.connections.upstreamEnded[cause.rawValue, default: 0] += shard.upstream.counters.ended[cause] ?? 0
            }
            state.snapshot.connections.upstreamRetries += shard.upstream.counters.retries
            state.snapshot.connections.upstreamTurnedAway += shard.upstream.counters.turnedAway
            state.snapshot.connections.upstreamWaiting += shard.upstream.waitingCount
            state.snapshot.connections.upstreamLeftQueue += shard.upstream.counters.leftQueue
            state.snapshot.connections.attempted += shard.rechecks.attempted
            state.snapshot.connections.backgroundRunning += shard.backgroundFetches.running
            state.snapshot.connections.backgroundStarted += shard.backgroundFetches.started
            state.snapshot.connections.backgroundSkipped += shard.backgroundFetches.skipped
            state.left -= 1
            return state.left == 0 ? state.snapshot : nil
        }
    }
}
