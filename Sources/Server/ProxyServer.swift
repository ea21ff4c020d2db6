// The whole proxy: the shards and their listeners; its start, its counts, its end.

import Administration
import CachePolicy
import Coordination
import Dispatch
import Downstream
import Explanation
import FaultInjection
import Glibc
import Locking
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import Telemetry
import Upstream

/// `@unchecked Sendable` because the shards are made before anything runs and what changes afterwards is behind mutexes.
package final class ProxyServer: @unchecked Sendable {
    package private(set) var addresses: [ListenAddress] = []
    package private(set) var adminAddresses: [ListenAddress] = []
    /// Of Unix sockets that were bound here.
    private var ownSocketFiles: [String] = []
    let shared: SharedFlowState
    /// Where pages of numbers are made.
    private let pageQueue = DispatchQueue(label: "cistern.pages", qos: .utility)
    private var shards: [ProxyShard] = []
    /// Each with the loop that it lives on.
    private var listeners: [(shard: ProxyShard, listener: Listener)] = []
    /// nil where no listener speaks TLS.
    let served: ServedCertificates?
    /// Asked from all loops.
    private let isStopping = Mutex(false)
    private let time: any TimeSource

    /// - Throws: `StoreError`, `ListenError` or `CertificateError`: nothing is left running then.
    package init(
        _ settings: ProxySettings, logger: Logger, accessLog: AccessLog? = nil, recorder: (any ExchangeRecorder)? = nil,
        time: any TimeSource = SystemTime.shared
    ) throws {
        self.time = time
        shared = try SharedFlowState(settings, logger: logger, accessLog: accessLog, recorder: recorder)
        let listening = shared.settings.listening
        let speaksTLS = (listening.listeners + listening.adminListeners).contains(where: \.isTLS)
        served = speaksTLS ? try ServedCertificates(listening.tls, now: time.wallMilliseconds / 1_000) : nil
        var sockets: [PlacedSocket] = []
        for number in 0..<settings.shards { try bind(shard: number, &sockets) }
        try bindAdminSocket(&sockets)
        try makeShards(sockets)
        logStart()
        logCertificates()
        shared.startKeys(now: time.monotonicMilliseconds)
    }

    var settings: ProxySettings { shared.settings }
    var logger: Logger { shared.logger }

    /// TCP sockets are bound once for each shard, all to the port that the first one got; a Unix socket belongs to the first shard; one that was
    /// handed over is accepted from by all.
    private func bind(shard: Int, _ sockets: inout [PlacedSocket]) throws(ListenError) {
        for (isAdmin, wanted) in [(false, settings.listening.listeners), (true, settings.listening.adminListeners)] {
            for (index, listener) in wanted.enumerated() {
                let actual = shard == 0 ? listener.address : (isAdmin ? adminAddresses : addresses)[index]
                if case .unix = listener.address, shard > 0 { continue }
                if case .handed = listener.address, shard > 0 {
                    let placed = sockets.first { $0.isAdmin == isAdmin && $0.settings == listener }
                    if let socket = placed?.socket {
                        sockets.append(PlacedSocket(socket: socket, settings: listener, shard: shard, isAdmin: isAdmin))
                    }
                    continue
                }
                let socket = try BoundSocket(actual, backlog: settings.downstream.backlog, isShared: shard > 0)
                sockets.append(PlacedSocket(socket: socket, settings: listener, shard: shard, isAdmin: isAdmin))
                guard shard == 0 else { continue }
                if case .unix(let path) = listener.address { ownSocketFiles.append(path) }
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
            sockets.append(PlacedSocket(socket: socket, settings: ListenerSettings(address), shard: 0, isAdmin: true))
            adminAddresses.append(address)
            ownSocketFiles.append(path)
        } catch {
            if settings.admin.isSocketRequired { throw error }
            logger.warning("no administrator's interface: \(error)")
        }
    }

    private func makeShards(_ sockets: [PlacedSocket]) throws(CertificateError) {
        shards = (0..<settings.shards).map { ProxyShard(shared, number: $0, time: time) }
        try prepareTLS(shards)
        let pages = OwnPages(self)
        if settings.listening.servesOwnPages, settings.listening.adminListeners.isEmpty {
            for shard in shards { shard.ownPages = pages }
        }
        if let directory = settings.listening.challengeDirectory {
            let challenges = AcmeChallenges(directory: directory)
            for shard in shards { shard.challenges = challenges }
        }
        let admin = AdminInterface(server: self, settings: settings.admin, cache: shared.cache)
        for placed in sockets {
            let shard = shards[placed.shard]
            let receiver: any RequestReceiver =
                placed.isAdmin ? AdminReceiver(shard: shard, interface: admin, pages: pages, address: placed.socket.address) : shard
            let listener = Listener(
                loop: shard.loop, socket: placed.socket, settings: placed.settings, connections: shard.connections, receiver: receiver)
            listeners.append((shard, listener))
        }
    }

    /// Begins to accept.
    package func start() {
        for shard in shards {
            shard.loop.execute { shard.start() }
            shard.loop.start()
        }
        onFirstShard { [self] in
            rotateTickets(on: $0)
            watchMemory(on: $0)
        }
        for index in listeners.indices {
            let shard = listeners[index].shard
            shard.loop.execute { [self] in listeners[index].listener.start() }
        }
    }

    /// From now on /readyz says that no more clients should be sent here. Those that come are served as before.
    package func announceStop() { isStopping.withLock { $0 = true } }

    /// How often it is looked whether there is memory to return. Loops may wait for milliseconds where some is, so once a minute at most.
    private static let memoryInterval = Duration.seconds(5)
    private static let memoryReturnInterval = Duration.seconds(60)

    private func watchMemory(on shard: ProxyShard, after interval: Duration = memoryInterval) {
        shard.loop.schedule(after: interval) { [weak self] in
            guard let self else { return }
            guard shared.connections.hasMemoryToReturn() else { return watchMemory(on: shard) }
            pageQueue.async { ConnectionBudget.returnFreeMemory() }
            watchMemory(on: shard, after: Self.memoryReturnInterval)
        }
    }

    /// Stops accepting, lets running responses finish within `deadline`, writes what waits for the store. Blocks until all is done; not
    /// to be called from a shard's loop.
    package func stop(deadline: Duration) {
        announceStop()
        let group = DispatchGroup()
        for shard in shards {
            group.enter()
            shard.loop.execute { [self] in
                finish(listeners.filter { $0.shard === shard }.map(\.listener)[...]) {
                    shard.connections.drain(deadline: deadline) {
                        shard.close()
                        shard.loop.stop { group.leave() }
                    }
                }
            }
        }
        group.wait()
        for path in ownSocketFiles { unlink(path) }
        shared.cache?.close()
        shared.accessLog?.finish()
        logger.info("stopped")
    }

    /// One after the other. On their loop.
    private func finish(_ listeners: ArraySlice<Listener>, then: @escaping () -> Void) {
        guard let first = listeners.first else { return then() }
        first.finish { self.finish(listeners.dropFirst(), then: then) }
    }

    /// Waits until what was handed to the store is readable from its files.
    package func flushStore() { shared.cache?.flush() }

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

    func onFirstShard(_ work: @escaping @Sendable (ProxyShard) -> Void) {
        guard let shard = shards.first else { return }
        shard.loop.execute { work(shard) }
    }

    package var modes: ModeTable { shared.modes }

    /// Returns what `change` returns: whether there was something to change. If so, `then` is called once every shard knows.
    package func changeModes(_ change: (inout ModeTable) -> Bool, then: @escaping @Sendable () -> Void) -> Bool {
        guard let changed = shared.changeModes(change) else { return false }
        let exceptions =
            changed.rules.map { "\($0.mode.rawValue) for \($0.prefix)" }
            + changed.routes.sorted { $0.key < $1.key }.map { "\($0.value.rawValue) for the route \(shared.routes.all[$0.key].name)" }
        logger.notice("the mode is \(([changed.all.rawValue] + exceptions).joined(separator: ", "))")
        // As with faults: two changes at once may come to a shard in either order.
        onEachShard { [shared] in
            $0.modes = shared.modes
        } then: {
            then()
        }
        return true
    }

    package var wallMilliseconds: Int64 { time.wallMilliseconds }
    package var monotonicMilliseconds: Int64 { time.monotonicMilliseconds }

    /// Whether requests are taken.
    package var isReady: Bool { isStopping.withLock { !$0 } }

    package func reopenAccessLog() {
        shared.accessLog?.reopen { [logger] code in
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
        snapshot.isReady = isReady
        let modes = self.modes
        snapshot.modes = ServingMode.allCases.map { mode in
            let exceptions = modes.exceptions(with: mode)
            return MetricsSnapshot.ModeLine(
                mode: mode.rawValue, isForAll: modes.all == mode, prefixes: exceptions.prefixes, routes: exceptions.routes)
        }
        addCertificates(to: &snapshot.clientTLS)
        snapshot.faultRules = shared.faults.rules.count
        snapshot.cookieSetsLeftOut = shared.cache?.cookieOrigins?.leftOut ?? 0
        snapshot.gone = shared.cache?.gone?.counts.map { (event: $0.event, count: UInt64($0.count)) } ?? []
        snapshot.recorded = shared.recorder?.counts ?? []
        snapshot.collapsedWaiting = shared.collapsed.waiting
        snapshot.failures = shared.health.summary(now: time.monotonicMilliseconds)
        (snapshot.tokens.lookUps, snapshot.tokens.lookUpsRemembered) = shared.lookUpFigures
        (snapshot.tokens.keys, snapshot.tokens.keyReads, snapshot.tokens.keyFailures) = shared.keyFigures
        snapshot.accessLogDropped = shared.accessLog?.dropped ?? 0
        snapshot.connections.limit = shared.connections.limit
        snapshot.connections.turnedAway = shared.connections.turnedAway
        snapshot.connections.cut = shared.connections.cut
        snapshot.connections.unsentBytes = shared.connections.unsentBytes
        snapshot.connections.heldContentBytes = shared.content.heldBytes
        return snapshot
    }

    var cacheFigures: CacheFigures { CacheFigures(shared.cache) }

    // MARK: Log

    private func logStart() {
        let listening = zip(settings.listening.listeners, addresses).map { $0.name(at: $1) }.joined(separator: ", ")
        let loops = settings.shards == 1 ? "1 event loop" : "\(settings.shards) event loops"
        logger.info("listening on \(listening), upstream \(settings.upstream.origin)\(settings.upstream.basePath), \(loops)")
        if !adminAddresses.isEmpty {
            logger.info("metrics and admin interface on \(adminAddresses.map(\.description).joined(separator: ", "))")
        }
        for warning in shared.routes.all.flatMap(\.warnings) { logger.warning("\(warning)") }
        if settings.admin.allowsFaults { logger.warning("admin.faults: an administrator may inject faults, to practise outages") }
        guard let cache = shared.cache else {
            return shared.recorder == nil
                ? logger.warning("no store: nothing is kept") : logger.info("recording: nothing is kept in a store")
        }
        for line in OpeningReport(cache).lines {
            switch line {
            case .info(let text): logger.info("\(text)")
            case .warning(let text): logger.warning("\(text)")
            case .error(let text): logger.error("\(text)")
            }
        }
    }
}

/// A bound socket and where it is listened on.
private struct PlacedSocket {
    let socket: BoundSocket
    let settings: ListenerSettings
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
            shard.addFigures(to: &state.snapshot)
            state.left -= 1
            return state.left == 0 ? state.snapshot : nil
        }
    }
}
