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
    /// Of clients, in the order of the settings.
    package var urls: [String] { zip(settings.listening.listeners, addresses).map { $0.url(at: $1) } }
    let process: ProcessState
    /// One at least.
    private(set) var apis: [ServedAPI] = []
    /// Where pages of numbers are made.
    private let pageQueue = DispatchQueue(label: "cistern.pages", qos: .utility)
    private var shards: [ServedShard] = []
    /// Each with the loop that it lives on.
    private var listeners: [(shard: Shard, listener: Listener)] = []
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
        process = ProcessState(settings, logger: logger, accessLog: accessLog, recorder: recorder)
        let listening = settings.listening
        let speaksTLS = (listening.listeners + listening.adminListeners).contains(where: \.isTLS)
        served = speaksTLS ? try ServedCertificates(listening.tls, now: time.wallMilliseconds / 1_000) : nil
        apis = try ServedAPI.all(of: self)
        var sockets: [PlacedSocket] = []
        for number in 0..<settings.shards { try bind(shard: number, &sockets) }
        try bindAdminSocket(&sockets)
        try makeShards(sockets)
        logStart()
        logCertificates()
        for api in apis { api.state.startKeys(now: time.monotonicMilliseconds) }
    }

    var settings: ProxySettings { process.settings }
    var logger: Logger { process.logger }
    /// All APIs' responses lie in one store, which each of their caches can close, and flush.
    private var anyCache: SharedCacheState? { apis[0].state.cache }

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
        shards = (0..<settings.shards).map { ServedShard(Shard(process, number: $0, time: time), apis.map(\.state)) }
        try prepareTLS(shards.map(\.shard))
        let pages = OwnPages(self)
        if settings.listening.servesOwnPages, settings.listening.adminListeners.isEmpty {
            for shard in shards { shard.forEachAPI { $0.ownPages = pages } }
        }
        if let directory = settings.listening.challengeDirectory {
            let challenges = AcmeChallenges(directory: directory)
            for shard in shards { shard.forEachAPI { $0.challenges = challenges } }
        }
        let admin = AdminInterface(server: self, settings: settings.admin)
        for placed in sockets {
            let served = shards[placed.shard]
            let receiver: any RequestReceiver =
                placed.isAdmin
                ? AdminReceiver(shard: served.first, interface: admin, pages: pages, address: placed.socket.address) : served.receiver
            let shard = served.shard
            let listener = Listener(
                loop: shard.loop, socket: placed.socket, settings: placed.settings, connections: shard.connections, receiver: receiver)
            listeners.append((shard, listener))
        }
    }

    /// Begins to accept.
    package func start() {
        for served in shards {
            served.shard.loop.execute { served.start() }
            served.shard.loop.start()
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

    private func watchMemory(on shard: Shard, after interval: Duration = memoryInterval) {
        shard.loop.schedule(after: interval) { [weak self] in
            guard let self else { return }
            guard process.connections.hasMemoryToReturn() else { return watchMemory(on: shard) }
            pageQueue.async { ConnectionBudget.returnFreeMemory() }
            watchMemory(on: shard, after: Self.memoryReturnInterval)
        }
    }

    /// Stops accepting, lets running responses finish within `deadline`, writes what waits for the store. Blocks until all is done; not
    /// to be called from a shard's loop.
    package func stop(deadline: Duration) {
        announceStop()
        let group = DispatchGroup()
        for served in shards {
            let shard = served.shard
            group.enter()
            shard.loop.execute { [self] in
                finish(listeners.filter { $0.shard === shard }.map(\.listener)[...]) {
                    shard.connections.drain(deadline: deadline) {
                        served.forEachAPI { $0.close() }
                        shard.loop.stop { group.leave() }
                    }
                }
            }
        }
        group.wait()
        for path in ownSocketFiles { unlink(path) }
        anyCache?.close()
        process.accessLog?.finish()
        logger.info("stopped")
    }

    /// One after the other. On their loop.
    private func finish(_ listeners: ArraySlice<Listener>, then: @escaping () -> Void) {
        guard let first = listeners.first else { return then() }
        first.finish { self.finish(listeners.dropFirst(), then: then) }
    }

    /// Waits until what was handed to the store is readable from its files.
    package func flushStore() { anyCache?.flush() }

    var shardCount: Int { shards.count }

    /// Does `work` on each shard's loop, and then, on one of them, `then`.
    func onEachShard(_ work: @escaping @Sendable (ServedShard) -> Void, then: @escaping @Sendable () -> Void) {
        let left = Mutex(shards.count)
        for shard in shards {
            shard.shard.loop.execute {
                work(shard)
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { then() }
            }
        }
    }

    func onFirstShard(_ work: @escaping @Sendable (Shard) -> Void) {
        guard let shard = shards.first?.shard else { return }
        shard.loop.execute { work(shard) }
    }

    package var wallMilliseconds: Int64 { time.wallMilliseconds }
    package var monotonicMilliseconds: Int64 { time.monotonicMilliseconds }

    /// Whether requests are taken.
    package var isReady: Bool { isStopping.withLock { !$0 } }

    package func reopenAccessLog() {
        process.accessLog?.reopen { [logger] code in
            logger.error("the access log cannot be reopened: \(String(cString: strerror(code))); the old file is written to further")
        }
    }

    // MARK: Metrics

    /// Copies each shard's counts on its own loop; `then` is called on the pages' queue, since what is made of them takes its time.
    package func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void) {
        let gathering = Gathering(count: shards.count, labels: MetricNames.labels)
        for shard in shards {
            shard.shard.loop.execute { [self] in
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
        addCertificates(to: &snapshot.clientTLS)
        snapshot.faultRules = process.faults.rules.count
        snapshot.recorded = process.recorder?.counts ?? []
        snapshot.collapsedWaiting = process.collapsed.waiting
        for api in apis { api.addFigures(to: &snapshot, now: time.monotonicMilliseconds) }
        snapshot.accessLogDropped = process.accessLog?.dropped ?? 0
        snapshot.connections.limit = process.connections.limit
        snapshot.connections.turnedAway = process.connections.turnedAway
        snapshot.connections.cut = process.connections.cut
        snapshot.connections.unsentBytes = process.connections.unsentBytes
        snapshot.connections.nameLookUps = settings.upstream.names.counts
        snapshot.connections.heldContentBytes = process.content.heldBytes
        return snapshot
    }

    package var cacheFigures: CacheFigures { CacheFigures(anyCache) }

    // MARK: Log

    private func logStart() {
        let listening = zip(settings.listening.listeners, addresses).map { $0.name(at: $1) }.joined(separator: ", ")
        let loops = settings.shards == 1 ? "1 event loop" : "\(settings.shards) event loops"
        let upstreams = apis.map { $0.name.isEmpty ? $0.upstreamURL : "\($0.name) at \($0.upstreamURL)" }.joined(separator: ", ")
        logger.info("listening on \(listening), upstream \(upstreams), \(loops)")
        if !adminAddresses.isEmpty {
            logger.info("metrics and admin interface on \(adminAddresses.map(\.description).joined(separator: ", "))")
        }
        for warning in apis.flatMap(\.state.routes.all).flatMap(\.warnings) { logger.warning("\(warning)") }
        if settings.admin.allowsFaults { logger.warning("admin.faults: an administrator may inject faults, to practise outages") }
        guard let cache = anyCache else {
            return process.recorder == nil
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

/// One shard, and each API on it.
final class ServedShard: Sendable {
    let shard: Shard
    private let apis: [ProxyShard]

    init(_ shard: Shard, _ apis: [SharedFlowState]) {
        self.shard = shard
        self.apis = apis.map { ProxyShard($0, on: shard) }
    }

    /// Those of the only one, or of several.
    var receiver: any RequestReceiver { apis[0].isAlone ? apis[0] : APIReceiver(apis) }
    /// For what is asked of none of them.
    var first: ProxyShard { apis[0] }

    func forEachAPI(_ work: (ProxyShard) -> Void) {
        for api in apis { work(api) }
    }

    func api(_ place: Int) -> ProxyShard { apis[place] }

    /// On its loop, before it takes the first request.
    func start() {
        shard.connections.start()
        forEachAPI { $0.start() }
    }
}

/// The sum of the shards' counts; complete when each has added its own.
private final class Gathering: Sendable {
    /// Each shard adds to it from its own loop.
    private let state: Mutex<(left: Int, snapshot: MetricsSnapshot)>

    init(count: Int, labels: MetricLabels) {
        state = Mutex((count, MetricsSnapshot(shards: ShardMetrics(labels: labels))))
    }

    /// Returns the sum where this was the last.
    func add(_ served: ServedShard) -> MetricsSnapshot? {
        state.withLock { state in
            served.shard.addFigures(to: &state.snapshot)
            served.forEachAPI { $0.addFigures(to: &state.snapshot) }
            state.left -= 1
            return state.left == 0 ? state.snapshot : nil
        }
    }
}
