// The fleet's log: the I/O shell around the state machines of module Fleet, on a separate event loop. It performs the machines' actions in
// order and makes no decisions.

import CachePolicy
import Engine
import Fleet
import Identity
import Logging
import Reactor
import ResponseCache

/// `@unchecked Sendable` because its state is used on its loop only; other threads only pass the reference.
public final class FleetLog: @unchecked Sendable {
    let loop: EventLoop
    let settings: FleetSettings
    let keys: EngineKeys
    let logger: Logger
    let files: FleetFiles
    private let nodeNumber: UInt64
    /// Separate from the writer's client, because a blocking read delays all commands behind it.
    let reader: EngineClient
    let writer: EngineClient
    var follower: LogFollower
    var logWriter: LogWriter
    var readCount = ReadCount()
    var trimming: LogTrimming
    weak var node: FleetNode?
    var following: (any FleetOrderReceiver)?
    var figures = LogFigures()
    /// Copy of `figures` for other threads.
    private let published = Mutex(LogFigures())

    private var waiting: [LogWriter.Token: (LogWriter.Outcome) -> Void] = [:]
    var lastToken: LogWriter.Token = 0
    private var purges: Set<LogWriter.Token> = []
    var pending = PendingPurges()
    let pendingFile: FileKeeper
    private let positionFile: FileKeeper
    var isCountDue = false
    var takings = 0
    private var timer: LoopTimer?
    private var writerTimer: LoopTimer?
    private var isStopped = false
    var logConnection: UInt64?
    /// `LogInfo.primary` of the connected server. The writer must reach the same primary.
    var logPrimary: [UInt8] = []
    var writerConnection: UInt64?
    /// Number of the current connection to the log. Replies from earlier connections are ignored.
    var session = 0
    var isResting = false
    /// When epoch and time were last requested, and the earliest time of the next read.
    var lastCheck = Int64.min / 2
    var nextReading = Int64.min / 2
    private var warned: Set<String> = []
    /// Admission value as last read; nil if unknown.
    var admission: FleetAdmission?
    /// When this node was last refused, and when it last sent a greeting for a foreign entry: milliseconds of the loop's clock.
    var refusedAt: Int64?
    var lastHello: Int64?
    private var warnedOfUnopened: Int64?
    var lastRefusal: EngineFailure?
    private var isUntrimmed = false

    /// Orders to apply, and the report that is sent after them.
    private struct Batch {
        var orders: [FleetOrder] = []
        var report: UInt64?
        /// `linkNumber` of the connection if all orders before it complete a catch-up; nil otherwise.
        var linkNumber: UInt64?
    }
    /// Number of changes between connected and disconnected.
    private var linkNumber: UInt64 = 0
    private var batch = Batch()
    private var batches: [Batch] = []
    private var isApplying = false
    /// Whether all orders that preceded the connection are applied.
    private var isLinked = false

    private static let tickMilliseconds = 250
    /// Minimum of `LogFollower.Limits.quiet`, in milliseconds.
    private static let leastQuiet: Int64 = 500
    private static let ordersAtATime = 2_048

    init(
        _ settings: FleetSettings, _ keys: EngineKeys, _ number: UInt64, beside store: StoreLocation, _ logger: Logger, time: any TimeSource
    ) {
        (self.settings, self.keys, nodeNumber, self.logger) = (settings, keys, number, logger)
        files = FleetFiles(beside: store)
        loop = EventLoop(label: "cistern.fleet", time: time)
        pendingFile = FileKeeper("cistern.fleet.pending", loop: loop)
        positionFile = FileKeeper("cistern.fleet.position", loop: loop)
        reader = EngineClient(loop: loop, settings.engine)
        writer = EngineClient(loop: loop, settings.engine)
        var limits = LogFollower.Limits()
        if let limit = settings.blindLimit { limits.quiet = max(Self.leastQuiet, limit / 2) }
        follower = LogFollower(node: number, kept: nil, now: time.monotonicMilliseconds, limits: limits)
        logWriter = LogWriter(node: number)
        trimming = LogTrimming(keep: settings.keep, node: number)
    }

    public func start(_ node: FleetNode, _ following: any FleetOrderReceiver) {
        loop.execute { [self] in
            self.node = node
            self.following = following
            // Read now, because a process that this one replaces writes the position until it hands over.
            follower = LogFollower(node: nodeNumber, kept: files.keptPosition()?.kept, now: now, limits: follower.limits)
            takeKept()
            reader.start()
            writer.start()
            tick()
            connect()
        }
        loop.start()
    }

    /// Adopts the pending purges of the previous process, which has ended.
    public func takeLeftPurges() {
        loop.execute { [self] in
            if !isStopped { takeLeft() }
        }
    }

    /// Stores the applied position for a process that takes over.
    /// - Parameter then: called on this loop when the position is on disk, or cannot be written.
    public func keepPosition(then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in
            if !isStopped { follower.lastToKeep(now: now).map(keep) }
            positionFile.whenWritten(then)
        }
    }

    public func stop(then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in
            // Purges in progress and writes that are not in the log are stored for the next process.
            handle(LogWriter.Event.lost)
            keepWrites()
            pendingFile.finish()
            follower.lastToKeep(now: now).map(keep)
            positionFile.finish()
            isStopped = true
            timer?.cancel()
            writerTimer?.cancel()
            reader.close()
            writer.close()
            for one in waiting.values { one(.later) }
            waiting = [:]
            following?.finish()
            following = nil
            loop.stop(then: then)
        }
    }

    var now: Int64 { loop.time.monotonicMilliseconds }
    var isRunning: Bool { !isStopped }

    private func tick() {
        guard !isStopped else { return }
        figures.engineFailures = reader.figures.failures.merging(writer.figures.failures, uniquingKeysWith: +)
        handle(LogFollower.Event.tick)
        if !figures.pendingPurges.isEmpty { countPending() }
        timer = loop.schedule(after: .milliseconds(Self.tickMilliseconds)) { [weak self] in self?.tick() }
    }

    func handle(_ event: LogFollower.Event) {
        loop.assertOnLoop()
        guard !isStopped else { return }
        for action in follower.handle(event, now: now) { perform(action) }
        node?.change { state in
            state.applied.note(follower.version, at: loop.time.wallMilliseconds)
            state.reached = follower.position
        }
        flushBatch()
        extendLink()
        publish()
    }

    /// Extends the time until which the connection counts as live. Each reply does so.
    private func extendLink() {
        guard isLinked, let end = follower.connectedUntil else { return }
        node?.logLink.see(until: Timestamp(milliseconds: loop.time.wallMilliseconds + end - now))
    }

    public var publishedFigures: LogFigures { published.withLock { $0 } }

    func publish() { published.withLock { $0 = figures } }

    private func perform(_ action: LogFollower.Action) {
        switch action {
        case .readFrom(let position): read(from: position)
        case .readInfo: readInfo()
        case .apply(let positioned):
            figures.applied += 1
            if positioned.entry == .unopened { node?.logLink.doubt(.unopened, at: Timestamp(milliseconds: loop.time.wallMilliseconds)) }
            node?.note(positioned)
            take(positioned.entry.message)
        case .note(let positioned):
            node?.note(positioned)
            if isRecentLostWrite(positioned) { take(positioned.entry.message) }
        case .startAnew(let epoch, let floor): node?.change { $0.table.startAnew(epoch: epoch, floor: floor) }
        case .raiseFloor(let position): node?.change { $0.table.raiseFloor(to: position) }
        case .doubt(let after, let before): node?.change { $0.table.doubt(after: after, before: before) }
        case .gap(let gap): applyGap(gap)
        case .report(let number):
            batch.report = number
            batches.append(batch)
            batch = Batch()
        case .keep(let position): keep(position)
        case .renewEpoch: renewEpoch()
        case .mayAppend(let fence, let isNewPrimary): connectWriter(fence, isNewPrimary: isNewPrimary)
        case .append(let fence): perform(logWriter.handle(.fence(fence), now: now))
        case .sendHello: perform(logWriter.handle(.sendHello, now: now))
        case .upToDate:
            linkNumber += 1
            batch.linkNumber = linkNumber
            // Age is reported only for entries read after the catch-up.
            figures.lagMilliseconds = 0
        case .disconnected(let since, let cause):
            linkNumber += 1
            isLinked = false
            let time = loop.time.wallMilliseconds - max(0, now - since)
            node?.logLink.lose(at: Timestamp(milliseconds: time))
            if figures.disconnectedSince == nil { figures.disconnections += 1 }
            figures.disconnectedSince = min(figures.disconnectedSince ?? time, time)
            figures.trouble = LogTrouble(cause, known: figures.trouble, refusal: lastRefusal, figures.server)
            if cause == .unheard { connectAnew() }
            logDisconnection()
        case .reconnect: reconnect()
        }
    }

    /// Whether the upstream may still process a write that another process of this node has applied. Only that process knows that the users
    /// of its tokens are uncertain.
    private func isRecentLostWrite(_ positioned: PositionedEntry) -> Bool {
        let (message, origin) = (positioned.entry.message, positioned.entry.origin)
        guard message.kind == .identities, message.isSoft, origin?.node != nodeNumber else { return false }
        return Self.lag(of: positioned.position, fleetNow: fleetNow) < IdentityWrite.lossMilliseconds
    }

    /// Queues the orders of a message. The users of tokens change at once, because purges before them may take seconds.
    private func take(_ message: LogMessage) {
        let orders = FleetOrder.orders(of: message)
        if case .identities? = orders.first { following?.follow(orders[...]) } else { batch.orders += orders }
    }

    private func see() {
        isLinked = true
        extendLink()
        figures.disconnectedSince = nil
        figures.trouble = nil
        warned = []
        logger.notice("connected to the fleet's log: purges of other nodes are applied")
    }

    /// Logs the cause once, and again if it turns out to be a mistake in the settings.
    func logDisconnection() {
        guard !isLinked, let trouble = figures.trouble else { return }
        guard warned.isEmpty || trouble.isMisconfiguration && !warned.contains(trouble.label) else { return }
        warned.insert(trouble.label)
        let sentence =
            "disconnected from the fleet's log: \(trouble.sentence(fleet: settings.name)). Stored responses count as fresh for "
            + "share.blind_limit only, and responses of other nodes are not used"
        logger.warning("\(sentence)")
    }

    /// - Parameter failure: why the log is not trimmed; nil if trimming succeeds.
    func noteTrimming(_ failure: EngineFailure?) {
        guard let failure else {
            isUntrimmed = false
            return
        }
        guard !isUntrimmed, failure.isMisconfiguration else { return }
        isUntrimmed = true
        let sentence =
            "the fleet's log is not trimmed (XTRIM): the engine \(failure.sentence(fleet: settings.name)). "
            + "Old entries are removed only when new ones are appended"
        logger.warning("\(sentence)")
    }

    func noteUnopened(isForeign: Bool) {
        if isForeign {
            figures.foreign += 1
            sendHelloAfterForeign()
        } else {
            figures.unopened += 1
        }
        figures.lastUnopened = loop.time.wallMilliseconds
        if let last = warnedOfUnopened, now - last < Self.unopenedRestMilliseconds { return }
        warnedOfUnopened = now
        let sentence =
            isForeign
            ? "ignored an entry in the log of fleet \(settings.name): its key belongs to no node of the fleet, so another program "
                + "writes to the log (\(figures.foreign) so far)"
            : "cannot decrypt an entry of the fleet's log: a node of fleet \(settings.name) has another share.secret_file. The entry "
                + "may be a purge of anything, so all responses stored here become stale (\(figures.unopened) \(figures.unopened == 1 ? "entry" : "entries") so far)"
        logger.warning("\(sentence)")
    }

    private static let unopenedRestMilliseconds: Int64 = 60_000

    private func applyGap(_ gap: LogGap) {
        if gap == .neverFollowed, following?.hasStored != true { return }
        figures.gaps[gap, default: 0] += 1
        node?.logLink.doubt(FleetDoubt(rawValue: gap.rawValue) ?? .lostEntries, at: Timestamp(milliseconds: loop.time.wallMilliseconds))
        if gap == .neverFollowed {
            logger.notice("the responses stored here are older than this node's connection to the fleet's log: they become stale once")
            return batch.orders.append(.everything(isSoft: true, coversWrites: true))
        }
        let isSoft = settings.afterGap == .stale
        let effect = isSoft ? "become stale" : "are removed"
        logger.error("entries of other nodes were lost (\(gap.rawValue)), possibly purges: all responses stored here \(effect)")
        batch.orders.append(.everything(isSoft: isSoft, coversWrites: true))
    }

    private func keep(_ position: KeptPosition) {
        guard let following, following.mayKeepPosition else { return }
        let write = { @Sendable [files] in
            following.synchronize()
            return following.mayKeepPosition && files.keep(position)
        }
        positionFile.keep(write) { [weak self] isKept in
            guard let self else { return }
            if isKept { return handle(LogFollower.Event.kept(position)) }
            // Another process may have taken over meanwhile, and owns the file then.
            guard following.mayKeepPosition else { return }
            logger.warning("cannot write the position in the fleet's log: after a restart, the log is read again from an older position")
        }
    }

    private func flushBatch() {
        if !batch.orders.isEmpty || batch.linkNumber != nil {
            batches.append(batch)
            batch = Batch()
        }
        guard !isApplying, !batches.isEmpty, let following else { return }
        isApplying = true
        // A catch-up may have a million orders, so they are applied in parts.
        var orders: [FleetOrder] = []
        var taken = 0
        while taken < batches.count, taken == 0 || orders.count + batches[taken].orders.count <= Self.ordersAtATime {
            orders += batches[taken].orders
            taken += 1
        }
        let report = batches[..<taken].compactMap(\.report).last
        let linkNumber = batches[..<taken].compactMap(\.linkNumber).last
        batches.removeFirst(taken)
        let writes = orders.prefix(while: \.isOfWrite)
        following.follow(writes)
        // Long lists of orders continue in another turn of the loop, which bounds the stack.
        guard writes.count < orders.count || !batches.isEmpty else { return finishApplying(report, linkNumber) }
        following.apply(Array(orders.dropFirst(writes.count))) { [weak self] in
            guard let self else { return }
            loop.execute { self.finishApplying(report, linkNumber) }
        }
    }

    private func finishApplying(_ report: UInt64?, _ linkNumber: UInt64?) {
        isApplying = false
        if let report { handle(.applied(report: report)) }
        if let linkNumber {
            // Responses stored from now on can be offered: the upper bound of their position is on disk.
            positionFile.whenWritten { [weak self] in
                if let self, linkNumber == self.linkNumber { see() }
            }
        }
        flushBatch()
    }

    /// - Parameter then: called once on this loop: when a write is in the log or no longer waited for, or when the durability of a purge
    ///   is known.
    func append(_ message: LogMessage, _ purpose: LogWriter.Purpose, then: @escaping (LogWriter.Outcome) -> Void) {
        loop.assertOnLoop()
        guard !isStopped else { return then(.later) }
        lastToken += 1
        waiting[lastToken] = then
        if purpose == .purge { purges.insert(lastToken) }
        perform(logWriter.handle(.append(message, purpose, token: lastToken), now: now))
    }

    func handle(_ event: LogWriter.Event) {
        loop.assertOnLoop()
        guard !isStopped else { return }
        perform(logWriter.handle(event, now: now))
    }

    func perform(_ actions: [LogWriter.Action]) {
        // A pending purge is reported once it is on disk.
        let pendingReports = actions.filter(\.isReportingPending)
        keepPending(actions) { [self] in for action in pendingReports { perform(action) } }
        for action in actions where !action.isReportingPending { perform(action) }
        publish()
        writerTimer?.cancel()
        writerTimer = nil
        guard let next = logWriter.nextTick else { return }
        writerTimer = loop.schedule(after: .milliseconds(Int(max(1, next - now)))) { [weak self] in self?.handle(LogWriter.Event.tick) }
    }

    private func perform(_ action: LogWriter.Action) {
        switch action {
        case .send(let entries): send(entries)
        case .wait: waitForReplica()
        case .hold(let message): node?.hold(message)
        case .settle(let message, let position): node?.settle(message, at: position)
        case .keepPending, .dropPending: break
        case .report(let token, let outcome): reportOutcome(token, outcome)
        }
    }

    private func reportOutcome(_ token: LogWriter.Token, _ outcome: LogWriter.Outcome) {
        // A purge waits for durability, not only for the append.
        if case .appended = outcome, purges.contains(token) { return }
        purges.remove(token)
        waiting.removeValue(forKey: token)?(outcome)
    }
}
