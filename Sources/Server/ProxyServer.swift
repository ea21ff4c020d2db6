// The whole proxy: the shards and their listeners; its start, its counts, its end.

import Administration
import CachePolicy
import Coordination
import Descriptors
import Dispatch
import Downstream
import Explanation
import FaultInjection
import Figures
import Glibc
import Locking
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import Sharing
import Telemetry
import Tracing
import Upstream

/// `@unchecked Sendable` because the shards are made before anything runs and what changes afterwards is behind mutexes.
public final class ProxyServer: @unchecked Sendable {
    /// What is served now. Replaced by a reload; modes are changed under it, so that none is lost to one.
    let state: Mutex<Serving?> = Mutex(nil)
    /// Whether what is served may still be replaced. Behind `state`'s mutex.
    private(set) var isReloadable = true
    private let tickets: Mutex<TicketKeys?> = Mutex(nil)
    /// What was read again so far.
    let reloads = Mutex(ReloadCounts())
    /// Where settings are read again, one time after the other.
    let reloadQueue = DispatchQueue(label: "cistern.reload", qos: .utility)
    /// How they are read; nil where they cannot change.
    let readSettings: Mutex<SettingsReading?> = Mutex(nil)
    /// Sockets that were handed over, by their descriptors. Touched by who makes this, and then on `reloadQueue`.
    var handed: [Int32: BoundSocket] = [:]
    /// Where pages of numbers are made.
    private let pageQueue = DispatchQueue(label: "cistern.pages", qos: .utility)
    private(set) var shards: [ServedShard] = []
    /// Asked from all loops.
    private let isStopping = Mutex(false)
    /// The process that this one takes over from; nil where it begins anew. And whether that has not ended yet.
    let predecessor: Predecessor?
    let following = Mutex(false)
    /// Where another process may take over, and its path.
    let door: Mutex<(door: TakeOverDoor, path: String)?> = Mutex(nil)
    /// Of other processes that were to take over, or whose place this one has taken.
    let takeOvers = Mutex((done: 0, failed: 0))
    /// Updated on the first shard's loop, read when the page is generated.
    private let clockSteps = Mutex(ClockSteps())
    /// With which listeners another process goes on; nil where none has taken over.
    let handedOver: Mutex<[ServedListener]?> = Mutex(nil)
    /// What the page of the state remembers.
    public let status: StatusMemory
    private let time: any TimeSource
    let logger: Logger

    /// - Parameter predecessor: the process that this one takes over from: nothing is written before `waitToTakeOver` has returned.
    /// - Throws: `StoreError`, `ListenError` or `CertificateError`: nothing is left running then.
    public init(
        _ settings: ProxySettings, logger: Logger, accessLog: AccessLog? = nil, recorder: (any ExchangeRecorder)? = nil,
        after predecessor: Predecessor? = nil, time: any TimeSource = SystemTime.shared
    ) throws {
        (self.time, self.logger, self.predecessor) = (time, logger, predecessor)
        status = StatusMemory(now: time.monotonicMilliseconds)
        let process = ProcessState(settings, logger: logger, accessLog: accessLog, recorder: recorder, time: time)
        if let keys = predecessor?.ticketKeys { tickets.withLock { $0 = TicketKeys(keys) } }
        let certificates = try ServedCertificates(settings.listening, ticketKeys, now: time.wallMilliseconds / 1_000)
        let prepared = try certificates?.prepared(shards: settings.shards)
        if let predecessor { try predecessor.check(isStoring: settings.store != nil) }
        let apis = try ServedAPI.all(of: process, server: self, handed: predecessor?.store)
        let listeners = try ServedListener.all(settings, after: predecessor?.inherited() ?? [], handed: &handed, logger)
        let serving = Serving(
            process: process, apis: apis, listeners: listeners,
            interface: AdminInterface(server: self, apis: apis, settings: settings.admin), pages: OwnPages(self),
            challenges: settings.listening.challengeDirectory.map { AcmeChallenges(directory: $0) }, certificates: certificates,
            past: PastFigures())
        state.withLock { $0 = serving }
        shards = (0..<settings.shards).map { ServedShard(process, number: $0, time: time) }
        for (place, shard) in shards.enumerated() {
            shard.use(shard.prepare(serving, besides: nil, prepared?[place]), onFailure: logHandshake)
        }
    }

    var serving: Serving {
        guard let serving = state.withLock({ $0 }) else { preconditionFailure("a server is asked before it is made") }
        return serving
    }

    var settings: ProxySettings { serving.settings }
    var process: ProcessState { serving.process }
    public var addresses: [ListenAddress] { serving.addresses(isAdmin: false) }
    public var adminAddresses: [ListenAddress] { serving.addresses(isAdmin: true) }
    /// Of clients, in the order of the settings.
    public var urls: [String] { serving.listeners.filter { !$0.isAdmin }.map { $0.settings.url(at: $0.address) } }
    /// All APIs' responses lie in one store, which each of their caches can close, and flush.
    var anyCache: SharedCacheState? { serving.apis[0].state.cache }

    /// Of the process: all that speak TLS have the same. nil where there is no randomness.
    func ticketKeys() -> TicketKeys? {
        tickets.withLock { keys in
            keys = keys ?? TicketKeys()
            return keys
        }
    }

    /// Begins to accept.
    public func start() {
        logStart(serving)
        logCertificates(serving)
        for api in serving.apis { api.state.startKeys(now: time.monotonicMilliseconds) }
        followPredecessor()
        process.fleet?.start(FleetObedience(self))
        for served in shards {
            served.shard.loop.execute { served.start() }
            served.shard.loop.start()
        }
        onFirstShard { [self] in
            rotateTickets(on: $0)
            watchMemory(on: $0)
            watchClock(on: $0)
            watchStatus(on: $0)
        }
    }

    /// From now on /readyz says that no more clients should be sent here. Those that come are served as before.
    public func announceStop() { isStopping.withLock { $0 = true } }

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

    /// Interval between comparisons of the wall clock with the monotonic clock.
    private static let clockInterval = Duration.seconds(5)

    private func watchClock(on shard: Shard) {
        let step = clockSteps.withLock { $0.note(wall: time.wallMilliseconds, monotonic: time.monotonicMilliseconds) }
        if let step {
            let seconds = "\(abs(step) / 1_000).\(abs(step) % 1_000 / 100) s"
            logger.warning("the system clock was set \(step < 0 ? "back" : "forward") by \(seconds), or the machine was suspended")
        }
        shard.loop.schedule(after: Self.clockInterval) { [weak self] in self?.watchClock(on: shard) }
    }

    /// What is served is as it is from now on: this process is about to end, or another takes over.
    /// - Returns: false where that was so already.
    func claimEnd() -> Bool {
        state.withLock { _ in
            defer { isReloadable = false }
            return isReloadable
        }
    }

    /// Whoever hands over at this moment comes to an end first, one way or the other.
    private func claimEndForStop() {
        if !claimEnd() {
            reloadQueue.sync {}
            guard claimEnd() else { return }
        }
        endReloads()
    }

    /// It was not to be.
    func giveBackEnd() { state.withLock { _ in isReloadable = true } }

    /// Stops accepting, lets running responses finish within `deadline`, writes what waits for the store. Blocks until all is done; not
    /// to be called from a shard's loop. Where another process has taken over, that goes on accepting and writes.
    public func stop(deadline: Duration) {
        claimEndForStop()
        let others = handedOver.withLock { $0 }
        if others == nil { announceStop() }
        closeDoor(isHandedOver: others != nil)
        let gathering = Gathering(count: shards.count, labels: MetricNames.labels)
        let last: Mutex<MetricsSnapshot?> = Mutex(nil)
        let group = DispatchGroup()
        for _ in shards { group.enter() }
        onceDrained(deadline) { served in
            served.close()
            if let sum = gathering.add(served) { last.withLock { $0 = sum } }
            served.shard.loop.stop { group.leave() }
        }
        group.wait()
        if let log = process.fleet?.log {
            group.enter()
            log.stop { group.leave() }
            group.wait()
        }
        ServedListener.remove(serving.listeners, butNot: others ?? [])
        anyCache?.close()
        process.accessLog?.finish()
        process.spans?.finish()
        if others != nil, let sum = last.withLock({ $0 }) { tellLast(countsPage(complete(sum))) }
        logger.info("stopped")
    }

    /// Does `work` on each shard's loop once no shard has a client any more: until then a request of one may wait for another's fetch.
    private func onceDrained(_ deadline: Duration, _ work: @escaping @Sendable (ServedShard) -> Void) {
        let left = Mutex(shards.count)
        for served in shards {
            served.shard.loop.execute { [shards] in
                served.finish(deadline: deadline) {
                    let isLast = left.withLock { left in
                        left -= 1
                        return left == 0
                    }
                    guard isLast else { return }
                    for one in shards { one.shard.loop.execute { work(one) } }
                }
            }
        }
    }

    /// Waits until what was handed to the store is readable from its files.
    public func flushStore() { anyCache?.flush() }

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

    public var wallMilliseconds: Int64 { time.wallMilliseconds }
    public var monotonicMilliseconds: Int64 { time.monotonicMilliseconds }

    /// Whether requests are taken.
    public var isReady: Bool { isStopping.withLock { !$0 } }

    public func reopenAccessLog() {
        process.accessLog?.reopen { [logger] code in
            logger.error("the access log cannot be reopened: \(SystemError.words(code)); the old file is written to further")
        }
    }

    // MARK: Metrics

    /// Copies each shard's counts on its own loop; `then` is called on the pages' queue, since what is made of them takes its time.
    public func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void) {
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
        let serving = serving
        let (settings, process) = (serving.settings, serving.process)
        snapshot.addPast(serving.past)
        snapshot.loops.sort { $0.shard < $1.shard }
        snapshot.process = .now()
        (snapshot.version, snapshot.libraries, snapshot.settingsHash) = (settings.version, LibraryVersions.all, settings.hash)
        snapshot.monotonicNow = time.monotonicMilliseconds
        snapshot.clockSteps = clockSteps.withLock { $0 }
        snapshot.inherited = predecessor?.counts
        snapshot.isReady = isReady
        snapshot.unixOffset = time.wallMilliseconds - time.monotonicMilliseconds
        addCertificates(serving.certificates, to: &snapshot.clientTLS)
        snapshot.reloads = reloads.withLock { $0.figures }
        let takeOvers = takeOvers.withLock { $0 }
        (snapshot.figures[.takeOversDone], snapshot.figures[.takeOversFailed]) = takeOvers
        snapshot.figures[.faultRules] = process.faults.rules.count
        snapshot.recorded = process.recorder?.counts ?? []
        for api in serving.apis { api.addFigures(to: &snapshot, now: time.monotonicMilliseconds) }
        snapshot.figures[.accessLogDropped] += process.accessLog?.dropped ?? 0
        if let tracing = MetricsSnapshot.Tracing(process) { snapshot.tracing = tracing }
        process.fleet.map { snapshot.sharing?.add($0.log.publishedFigures, isSeeing: $0.isSeeing, clockSkew: $0.clockSkew) }
        let names = settings.upstream.names.counts
        (snapshot.figures[.namesFound], snapshot.figures[.namesFailed]) = (Int(names.found), Int(names.failed))
        addBudgets(to: &snapshot)
        return snapshot
    }

    /// Process-wide state of all event loops.
    private func addBudgets(to snapshot: inout MetricsSnapshot) {
        let (budget, content) = (process.connections, process.content)
        snapshot.figures[.connectionsLimit] = budget.limit
        snapshot.figures[.connectionsTurnedAway] = budget.turnedAway
        snapshot.figures[.connectionsCut] = budget.cut
        snapshot.figures[.unsentBytes] = budget.unsentBytes
        snapshot.figures[.unsentLimitBytes] = budget.unsentLimitBytes
        snapshot.figures[.heldContentBytes] = content.heldBytes
        snapshot.figures[.heldContentLimitBytes] = content.rules.totalBytes
        snapshot.limits.note("limits.connections", budget.open, of: budget.limit)
        snapshot.limits.note("limits.unsent", budget.unsentBytes, of: budget.unsentLimitBytes)
        snapshot.limits.note("limits.request_buffers", content.heldBytes, of: content.rules.totalBytes)
        snapshot.limits.note("descriptors", snapshot.process.openDescriptors, of: snapshot.process.maximumDescriptors)
    }

    public var cacheFigures: CacheFigures { CacheFigures(anyCache) }

    // MARK: Log

    /// The addresses that clients come to, with https:// where that is spoken.
    public var listeningPlaces: String { Self.listeningPlaces(serving) }

    private static func listeningPlaces(_ serving: Serving) -> String {
        serving.listeners.filter { !$0.isAdmin }.map { $0.settings.name(at: $0.address) }.joined(separator: ", ")
    }

    func logServing(_ serving: Serving) {
        let (settings, apis) = (serving.settings, serving.apis)
        let loops = settings.shards == 1 ? "1 event loop" : "\(settings.shards) event loops"
        let upstreams = apis.map { $0.name.isEmpty ? $0.upstreamURL : "\($0.name) at \($0.upstreamURL)" }.joined(separator: ", ")
        logger.info("listening on \(Self.listeningPlaces(serving)), upstream \(upstreams), \(loops)")
        let adminURLs = serving.listeners.filter(\.isAdmin).map { $0.settings.url(at: $0.address) }
        if !adminURLs.isEmpty {
            logger.info("metrics (/metrics), the state (/-/status) and the admin interface on \(adminURLs.joined(separator: ", "))")
        }
        if serving.servesOwnPages { logger.info("metrics (/metrics) also on the addresses of clients, as admin_listen is empty") }
        for warning in apis.flatMap(\.state.routes.all).flatMap(\.warnings) { logger.warning("\(warning)") }
        if settings.admin.allowsFaults { logger.warning("admin.faults: an administrator may inject faults, to practise outages") }
    }

    private func logStart(_ serving: Serving) {
        let former = predecessor == nil ? "" : ", and takes over from the one before it"
        logger.info("cistern \(serving.settings.version) begins as process \(getpid())\(former)")
        logServing(serving)
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
            served.addFigures(to: &state.snapshot)
            state.left -= 1
            return state.left == 0 ? state.snapshot : nil
        }
    }
}
