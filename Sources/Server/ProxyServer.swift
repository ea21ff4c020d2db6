// The whole proxy: owns the shards and what they serve, starts and stops them, and collects their counts.

import Administration
import Dispatch
import Downstream
import Explanation
import Figures
import Glibc
import Logging
import Notifying
import Reactor
import ResponseCache
import ReverseProxy
import Sharing
import Tracing
import Upstream

/// `@unchecked Sendable` because the shards are made before anything runs, and mutexes guard all later changes.
public final class ProxyServer: @unchecked Sendable {
    /// What is served now. A reload replaces it. Modes are changed while this mutex is held, so that a reload loses no change.
    let state: Mutex<Serving?> = Mutex(nil)
    /// Whether what is served may still be replaced. Guarded by the mutex of `state`.
    private(set) var isReloadable = true
    private let tickets: Mutex<TicketKeys?> = Mutex(nil)
    let reloads = Mutex(ReloadCounts())
    let reloadQueue = DispatchQueue(label: "cistern.reload", qos: .utility)
    /// Reads the settings; nil if only the files that they name are read again.
    let readSettings: Mutex<SettingsReading?> = Mutex(nil)
    /// Sockets that were handed over, by descriptor. Used by the initializer, and then on `reloadQueue`.
    var activated: [Int32: BoundSocket] = [:]
    /// Queue for generating metrics pages.
    private let pageQueue = DispatchQueue(label: "cistern.pages", qos: .utility)
    private(set) var shards: [ServedShard] = []
    /// Read on all loops.
    private let isStopping = Mutex(false)
    /// The process that this one takes over from; nil after an ordinary start.
    let predecessor: Predecessor?
    let following = Mutex(false)
    /// The socket on which another process may take over, and its path.
    let takeOverListener: Mutex<(takeOverListener: TakeOverListener, path: String)?> = Mutex(nil)
    /// Number of completed take-overs by this process, and of failed ones by other processes.
    let takeOvers = Mutex((done: 0, failed: 0))
    /// Updated on the first shard's loop, read when the page is generated.
    private let clockSteps = Mutex(ClockSteps())
    /// The listeners that another process continues with; nil if none has taken over.
    let handedOver: Mutex<[ServedListener]?> = Mutex(nil)
    /// Data of the status page.
    public let status: StatusMemory
    private let time: any TimeSource
    let logger: Logger
    let notifier: Notifier
    /// This process as a node of a fleet; nil if nothing is stored, or shared with other nodes.
    let fleet: FleetNode?

    /// - Parameters:
    ///   - fleet: nil if nothing is shared with other nodes.
    ///   - predecessor: the process that this one takes over from; nothing is written before `waitToTakeOver` returns. nil: none.
    /// - Throws: `StoreError`, `ListenError`, `CertificateError` or `DescriptorError`. Nothing remains running.
    public init(
        _ settings: ProxySettings, fleet: FleetSettings? = nil, logger: Logger, accessLog: AccessLog? = nil,
        requestLines: RequestLines? = nil, recorder: (any ExchangeRecorder)? = nil, after predecessor: Predecessor? = nil,
        time: any TimeSource = SystemTime.shared
    ) throws {
        (self.time, self.logger, self.predecessor) = (time, logger, predecessor)
        status = StatusMemory(now: time.monotonicMilliseconds)
        self.fleet = settings.store.flatMap { store in fleet.map { FleetNode($0, beside: store, logger, time: time) } }
        notifier = Notifier(fleetNode: self.fleet?.nodeName ?? "", isContinued: predecessor != nil, logger)
        let process = ProcessState(
            settings, logger: logger, accessLog: accessLog, requestLines: requestLines, recorder: recorder,
            fleet: self.fleet?.membership, time: time)
        if let keys = predecessor?.ticketKeys { tickets.withLock { $0 = TicketKeys(keys) } }
        let certificates = try ServedCertificates(settings.listening, ticketKeys, now: time.wallMilliseconds / 1_000)
        let prepared = try certificates?.prepared(shards: settings.shards)
        if let predecessor { try predecessor.check(isStoring: settings.store != nil) }
        let apis = try ServedAPI.all(of: process, server: self, inherited: predecessor?.store)
        let listeners = try ServedListener.all(settings, after: predecessor?.inherited() ?? [], activated: &activated, logger)
        let serving = Serving(
            process: process, apis: apis, listeners: listeners,
            interface: AdminInterface(server: self, apis: apis, settings: settings.admin), pages: OwnPages(self),
            challenges: settings.listening.challengeDirectory.map { AcmeChallenges(directory: $0) }, certificates: certificates,
            past: ReplacedFigures())
        let descriptorError = EventLoop.descriptorError(loops: settings.shards)
        guard descriptorError == 0 else { throw DescriptorError(code: descriptorError) }
        state.withLock { $0 = serving }
        shards = (0..<settings.shards).map { ServedShard(process, number: $0, self.fleet, time: time) }
        for (index, shard) in shards.enumerated() {
            shard.use(shard.prepare(serving, besides: nil, prepared?[index]), onFailure: logHandshake)
        }
    }

    var serving: Serving {
        guard let serving = state.withLock({ $0 }) else { preconditionFailure("the server is used before it exists") }
        return serving
    }

    var settings: ProxySettings { serving.settings }
    var process: ProcessState { serving.process }
    public var addresses: [ListenAddress] { serving.addresses(isAdmin: false) }
    public var adminAddresses: [ListenAddress] { serving.addresses(isAdmin: true) }
    /// URLs for clients, in the order of the settings.
    public var urls: [String] { serving.listeners.filter { !$0.isAdmin }.map { $0.settings.url(at: $0.address) } }
    /// The cache of the first API. All APIs have one store, which each cache can close and flush.
    var anyCache: APICacheState? { serving.apis[0].state.cache }

    /// The session ticket keys of the process, for all TLS listeners. Returns nil if the system provides no random numbers.
    func ticketKeys() -> TicketKeys? {
        tickets.withLock { keys in
            keys = keys ?? TicketKeys()
            return keys
        }
    }

    /// Starts the event loops, which accept connections.
    public func start() {
        logStart(serving)
        logCertificates(serving)
        for api in serving.apis { api.state.startKeys(now: time.monotonicMilliseconds) }
        if predecessor == nil { rememberedIdentities?.take(now: wallMilliseconds) }
        notifier.use(serving.settings.notify)
        followPredecessor()
        fleet?.start(FleetOrderApplier(self))
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
        // A successor purges once the store's files are its own.
        if predecessor == nil { purgeExcluded() }
        for warning in rememberSharing() { logger.warning("\(warning)") }
    }

    private var rememberedIdentities: RememberedIdentities? {
        RememberedIdentities(of: serving.apis.map(\.state), isOfFleet: fleet != nil)
    }

    /// Makes /readyz report that the process is stopping. Requests are still served.
    public func announceStop() { isStopping.withLock { $0 = true } }

    /// Interval between checks for free memory that can be returned, and minimum time between returns. A return may block the loops for
    /// milliseconds.
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

    /// Claims the end of this process: what is served cannot be replaced any more. Either `stop` or a take-over claims it.
    /// - Returns: false if it is claimed already.
    func claimEnd() -> Bool {
        state.withLock { _ in
            defer { isReloadable = false }
            return isReloadable
        }
    }

    /// Claims the end for `stop`. A take-over in progress is completed or abandoned first.
    private func claimEndForStop() {
        if !claimEnd() {
            reloadQueue.sync {}
            guard claimEnd() else { return }
        }
        endReloads()
    }

    /// Undoes `claimEnd()` after a failed take-over.
    func releaseEnd() { state.withLock { _ in isReloadable = true } }

    /// Stops accepting, completes active responses within `deadline`, and writes pending data to the store. Blocks until all is done; must
    /// not be called on an event loop. After a take-over the other process continues to accept and to write.
    public func stop(deadline: Duration) {
        claimEndForStop()
        let others = handedOver.withLock { $0 }
        if others == nil { announceStop() }
        closeTakeOverListener(isHandedOver: others != nil)
        let sum = Mutex(MetricsSnapshot(values: MetricNames.values))
        let group = DispatchGroup()
        for _ in shards { group.enter() }
        whenDrained(deadline) { served in
            served.close()
            sum.withLock { served.addFigures(to: &$0) }
            served.shard.loop.stop { group.leave() }
        }
        group.wait()
        if let log = fleet?.log {
            group.enter()
            log.stop { group.leave() }
            group.wait()
        }
        ServedListener.remove(serving.listeners, butNot: others ?? [])
        if others == nil { rememberedIdentities?.write(now: wallMilliseconds) }
        anyCache?.close()
        process.accessLog?.finish()
        process.requestLines?.finish()
        process.spans?.finish()
        notifier.finish()
        if others != nil { sendLastCounts(countsPage(complete(sum.withLock { $0 }))) }
        logger.info("stopped")
    }

    /// Runs `work` on each shard's loop once no shard has a client. Until then, a client's request may wait for a fetch on another shard.
    private func whenDrained(_ deadline: Duration, _ work: @escaping @Sendable (ServedShard) -> Void) {
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

    /// Waits until all responses passed to the store can be read from its files.
    public func flushStore() { anyCache?.flush() }

    var shardCount: Int { shards.count }

    /// Runs `work` on each shard's loop, and then `then` on one of the loops.
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

    /// Whether the process accepts requests. False once it is stopping.
    public var isReady: Bool { isStopping.withLock { !$0 } }

    public func reopenAccessLog() {
        process.accessLog?.reopen { [logger] code in
            logger.error("the access log cannot be reopened: \(SystemError.words(code)); the former file remains in use")
        }
    }

    // MARK: Metrics

    /// Copies the counts of each shard on its loop. Calls `then` on the pages' queue, because it may take long.
    public func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void) {
        let sum = Mutex(MetricsSnapshot(values: MetricNames.values))
        onEachShard { served in
            sum.withLock { served.addFigures(to: &$0) }
        } then: { [self] in
            pageQueue.async { then(self.complete(sum.withLock { $0 })) }
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
        addCertificates(serving.certificates, to: &snapshot)
        snapshot.reloads = reloads.withLock { $0.figures }
        let takeOvers = takeOvers.withLock { $0 }
        (snapshot.figures[.takeOversDone], snapshot.figures[.takeOversFailed]) = takeOvers
        snapshot.figures[.faultRules] = process.faults.rules.count
        snapshot.recorded = process.recorder?.counts ?? []
        for api in serving.apis { api.addFigures(to: &snapshot, now: time.monotonicMilliseconds) }
        snapshot.figures[.accessLogDropped] += process.accessLog?.dropped ?? 0
        snapshot.figures[.requestLinesOmitted] = process.requestLines?.omitted ?? 0
        let spans = process.spanCounts.figures
        snapshot.figures.labelled.add(spans)
        snapshot.hasTraced =
            process.spans != nil || [LabelledFigure.spansExported, .spansDropped, .spanExportFailures].contains { spans.sum($0) > 0 }
        snapshot.notifications = notifier.figures
        fleet.map { snapshot.sharing?.add($0.log.publishedFigures, isUpToDate: $0.isUpToDate, clockSkew: $0.clockSkew) }
        let names = settings.upstream.names.counts
        (snapshot.figures[.nameLookUpsDone], snapshot.figures[.nameLookUpsFailed]) = (Int(names.found), Int(names.failed))
        addBudgets(to: &snapshot)
        return snapshot
    }

    /// Process-wide state of all event loops.
    private func addBudgets(to snapshot: inout MetricsSnapshot) {
        let (budget, content, responses) = (process.connections, process.content, process.responses)
        snapshot.figures[.connectionsLimit] = budget.limit
        snapshot.figures[.connectionsRejected] = budget.rejectedConnections
        snapshot.figures[.connectionsCut] = budget.cut
        snapshot.figures[.unsentBytes] = budget.unsentBytes
        snapshot.figures[.unsentLimitBytes] = budget.unsentLimitBytes
        snapshot.figures[.heldContentBytes] = content.heldBytes
        snapshot.figures[.heldContentLimitBytes] = content.rules.totalBytes
        snapshot.figures[.heldResponseBytes] = responses.heldBytes
        snapshot.figures[.heldResponseLimitBytes] = responses.limitBytes
        snapshot.limits.note("limits.connections", budget.open, of: budget.limit)
        snapshot.limits.note("unsent_responses", budget.unsentBytes, of: budget.unsentLimitBytes)
        snapshot.limits.note("request_content", content.heldBytes, of: content.rules.totalBytes)
        snapshot.limits.note("responses", responses.heldBytes, of: responses.limitBytes)
        snapshot.limits.note("descriptors", snapshot.process.openDescriptors, of: snapshot.process.maximumDescriptors)
    }

    public var cacheFigures: CacheFigures { CacheFigures(anyCache) }

    // MARK: Log

    /// The addresses for clients, with `https://` if they use TLS.
    public var listeningAddresses: String { Self.listeningAddresses(serving) }

    private static func listeningAddresses(_ serving: Serving) -> String {
        serving.listeners.filter { !$0.isAdmin }.map { $0.settings.name(at: $0.address) }.joined(separator: ", ")
    }

    func logServing(_ serving: Serving) {
        let (settings, apis) = (serving.settings, serving.apis)
        let loops = settings.shards == 1 ? "1 event loop" : "\(settings.shards) event loops"
        let upstreams = apis.map { $0.name.isEmpty ? $0.upstreamURL : "\($0.name) at \($0.upstreamURL)" }.joined(separator: ", ")
        logger.info("listening on \(Self.listeningAddresses(serving)), upstream \(upstreams), \(loops)")
        let adminURLs = serving.listeners.filter(\.isAdmin).map { $0.settings.url(at: $0.address) }
        if !adminURLs.isEmpty { logger.info("metrics (/metrics) and the admin interface on \(adminURLs.joined(separator: ", "))") }
        if serving.servesOwnPages {
            logger.info(
                "metrics (/metrics) are also served on the addresses of listen, because admin_listen is empty; set it to separate them"
            )
        }
        for warning in apis.flatMap(\.state.routes.all).flatMap(\.warnings) { logger.warning("\(warning)") }
        if settings.admin.allowsFaults { logger.warning("admin.faults is true: an administrator may inject faults, to practise outages") }
    }

    private func logStart(_ serving: Serving) {
        let former = predecessor == nil ? "" : ", and takes over from the former process"
        if let page = statusURLs.first { logger.info("status page: \(page)") }
        logger.info("cistern \(serving.settings.version) starts as process \(getpid())\(former)")
        logServing(serving)
        guard let cache = anyCache else {
            return process.recorder == nil
                ? logger.warning("no store: responses are not stored") : logger.info("recording: responses are not stored")
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

/// The process may not open the file descriptors that its event loops need.
public struct DescriptorError: Error, CustomStringConvertible {
    /// errno of the failed system call.
    let code: Int32

    public var description: String {
        "cannot create the event loops: \(SystemError.words(code)); raise the limit of open files (ulimit -n)"
    }
}
