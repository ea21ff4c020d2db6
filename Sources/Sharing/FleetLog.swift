// The log of the fleet, as this process reads and writes it: the shell of Fleet's two machines, on a loop of its own, so that no client ever waits for it.
// What the machines say is done in order; nothing is decided here.

import CachePolicy
import Engine
import Fleet
import Locking
import Logging
import Reactor
import ResponseCache

/// `@unchecked Sendable` because it is touched on its loop only; others carry it there.
public final class FleetLog: @unchecked Sendable {
    let loop: EventLoop
    let settings: FleetSettings
    let keys: EngineKeys
    let logger: Logger
    let files: FleetFiles
    /// What waits for entries holds up what comes behind it: so there are two.
    let reader: EngineClient
    let writer: EngineClient
    var follower: LogFollower
    var logWriter: LogWriter
    var readCount = ReadCount()
    var trimming: LogTrimming
    /// Set when it is started; it owns this.
    weak var node: FleetNode?
    var following: (any FleetFollowing)?
    var figures = LogFigures()
    /// The same for others.
    private let published = Mutex(LogFigures())

    /// Who wants to know what became of what.
    private var waiting: [LogWriter.Token: (LogWriter.Outcome) -> Void] = [:]
    var lastToken: LogWriter.Token = 0
    /// Those of them that are purges.
    private var purges: Set<LogWriter.Token> = []
    /// They lie on the disk, or are about to.
    var pending = PendingPurges()
    let pendingFile: FileKeeper<KeptPending>
    private let positionFile: FileKeeper<FollowedPosition>
    /// Whether they are counted when they are written.
    var isCountDue = false
    /// How often what others have left was taken.
    var takings = 0
    private var timer: LoopTimer?
    private var writerTimer: LoopTimer?
    private var isStopped = false
    /// On which the log was met: another one may lead to another server.
    var metConnection: UInt64?
    /// `LogInfo.primary` of the server that was met. The connection for writing has to lead to it.
    var metPrimary: [UInt8] = []
    var writerConnection: UInt64?
    /// From one meeting of the log to the next.
    var session = 0
    var isResting = false
    /// When the epoch and the engine's time were requested last, and before when entries are not requested again.
    var lastCheck = Int64.min / 2
    var nextReading = Int64.min / 2
    /// What was warned of since the log was seen last.
    private var warned: Set<String> = []
    /// What lay beside the epoch when this node looked last; nil: nothing is known.
    var admission: FleetAdmission?
    /// Milliseconds of the loop's clock: when this node was refused last, and when it greeted for a foreign entry.
    var refusedAt: Int64?
    var greetedAt: Int64?
    /// When it was warned of entries that do not open (milliseconds of the loop's clock).
    private var warnedOfUnopened: Int64?
    /// Why the engine has refused an entry last.
    var lastRefusal: EngineFailure?
    /// Whether it was warned that the log is not trimmed, and it was not since.
    private var isUntrimmed = false

    /// What is to be obeyed, and the report that follows it.
    private struct Batch {
        var orders: [FleetOrder] = []
        var report: UInt64?
        /// `sight` when what comes before it was all there is to be obeyed first.
        var sight: UInt64?
    }
    /// Counts how often it has changed whether the log is seen.
    private var sight: UInt64 = 0
    private var batch = Batch()
    private var batches: [Batch] = []
    private var isObeying = false
    /// Whether what was said before the log was seen is obeyed.
    private var hasSight = false

    private static let tickMilliseconds = 250
    /// Milliseconds without an entry until a node appends one, however short `share.blind_limit` is.
    private static let leastQuiet: Int64 = 500
    /// Handed over together.
    private static let ordersAtATime = 2_048

    init(
        _ settings: FleetSettings, _ keys: EngineKeys, _ number: UInt64, beside store: StorePlace, _ logger: Logger, time: any TimeSource
    ) {
        (self.settings, self.keys, self.logger) = (settings, keys, logger)
        let files = FleetFiles(beside: store)
        self.files = files
        loop = EventLoop(label: "cistern.fleet", time: time)
        pendingFile = FileKeeper("cistern.fleet.pending", loop: loop) { files.keep($0) }
        positionFile = FileKeeper("cistern.fleet.position", loop: loop) { followed in
            followed.following.synchronize()
            return followed.following.mayKeepPosition && files.keep(followed.position)
        }
        reader = EngineClient(loop: loop, settings.engine)
        writer = EngineClient(loop: loop, settings.engine)
        var limits = LogFollower.Limits()
        if let limit = settings.blindLimit { limits.quiet = max(Self.leastQuiet, limit / 2) }
        follower = LogFollower(node: number, kept: files.keptPosition()?.kept, now: time.monotonicMilliseconds, limits: limits)
        logWriter = LogWriter(node: number)
        trimming = LogTrimming(keep: settings.keep, node: number)
    }

    /// - Parameter following: obeys what others say.
    public func start(_ node: FleetNode, _ following: any FleetFollowing) {
        loop.execute { [self] in
            self.node = node
            self.following = following
            takeKept()
            reader.start()
            writer.start()
            tick()
            meet()
        }
        loop.start()
    }

    /// The process that this one has taken over from has ended: what it has answered as pending since is ours now.
    public func takeLeftPurges() {
        loop.execute { [self] in
            if !isStopped { takeLeft() }
        }
    }

    /// Nothing is followed afterwards.
    public func stop(then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in
            // Purges that are under way are kept for the next process.
            handle(LogWriter.Event.lost)
            // And so are writes that the others were not told of.
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

    // MARK: Following

    func handle(_ event: LogFollower.Event) {
        loop.assertOnLoop()
        guard !isStopped else { return }
        for action in follower.handle(event, now: now) { perform(action) }
        node?.change { state in
            state.applied.note(follower.version, at: loop.time.wallMilliseconds)
            state.reached = follower.position
        }
        flushBatch()
        keepSight()
        publish()
    }

    /// Each answer counts for a while.
    private func keepSight() {
        guard hasSight, let end = follower.seesUntil else { return }
        node?.sight.see(until: Timestamp(milliseconds: loop.time.wallMilliseconds + end - now))
    }

    public var publishedFigures: LogFigures { published.withLock { $0 } }

    func publish() { published.withLock { $0 = figures } }

    private func perform(_ action: LogFollower.Action) {
        switch action {
        case .readFrom(let position): read(from: position)
        case .look: look()
        case .apply(let placed):
            figures.applied += 1
            if placed.entry == .unopened { node?.sight.doubt(.unopened, at: Timestamp(milliseconds: loop.time.wallMilliseconds)) }
            node?.note(placed)
            batch.orders += FleetOrder.orders(of: placed.entry.message)
        case .note(let placed): node?.note(placed)
        case .startAnew(let epoch, let floor): node?.change { $0.table.startAnew(epoch: epoch, floor: floor) }
        case .raiseFloor(let position): node?.change { $0.table.raiseFloor(to: position) }
        case .doubt(let after, let before): node?.change { $0.table.doubt(after: after, before: before) }
        case .gap(let gap): obey(gap)
        case .report(let number):
            batch.report = number
            batches.append(batch)
            batch = Batch()
        case .keep(let position): keep(position)
        case .renewEpoch: renewEpoch()
        case .mayAppend(let fence, let isNewPrimary): connectWriter(fence, isNewPrimary: isNewPrimary)
        case .append(let fence): perform(logWriter.handle(.fence(fence), now: now))
        case .greet: perform(logWriter.handle(.greet, now: now))
        case .seeing:
            sight += 1
            batch.sight = sight
            // All was read: what was said meanwhile is told no more.
            figures.lagMilliseconds = 0
        case .blind(let since, let cause):
            sight += 1
            hasSight = false
            let time = loop.time.wallMilliseconds - max(0, now - since)
            node?.sight.lose(at: Timestamp(milliseconds: time))
            if figures.blindSince == nil { figures.blindings += 1 }
            figures.blindSince = min(figures.blindSince ?? time, time)
            figures.trouble = LogTrouble(cause, known: figures.trouble, refusal: lastRefusal, figures.server)
            if cause == .unheard { connectAnew() }
            warnOfBlindness()
        case .reconnect: meetAgain()
        }
    }

    /// All that was said before is obeyed.
    private func see() {
        hasSight = true
        keepSight()
        figures.blindSince = nil
        figures.trouble = nil
        warned = []
        logger.notice("the fleet's log is followed: what other nodes purge is seen")
    }

    /// Once, and once more where it turns out that somebody has to do something about it.
    func warnOfBlindness() {
        guard !hasSight, let trouble = figures.trouble else { return }
        guard warned.isEmpty || trouble.isMisconfiguration && !warned.contains(trouble.label) else { return }
        warned.insert(trouble.label)
        logger.warning(
            "the fleet's log cannot be seen: \(trouble.sentence(fleet: settings.name)). Copies count as fresh for share.blind_limit only, and nothing is taken from other nodes"
        )
    }

    /// Why the engine does not trim the log; nil: it does.
    func noteTrimming(_ failure: EngineFailure?) {
        guard let failure else {
            isUntrimmed = false
            return
        }
        guard !isUntrimmed, failure.isMisconfiguration else { return }
        isUntrimmed = true
        logger.warning(
            "the fleet's log is not trimmed (XTRIM): the engine \(failure.sentence(fleet: settings.name)). Entries go by their age only, as others are appended"
        )
    }

    func noteUnopened(isForeign: Bool) {
        if isForeign {
            figures.foreign += 1
            greetAfterForeign()
        } else {
            figures.unopened += 1
        }
        figures.lastUnopened = loop.time.wallMilliseconds
        if let last = warnedOfUnopened, now - last < Self.unopenedRestMilliseconds { return }
        warnedOfUnopened = now
        logger.warning(
            isForeign
                ? "an entry of the log of fleet \(settings.name) is by a key that no node of the fleet has: somebody else writes there. It counts as nothing (\(figures.foreign) so far)"
                : "an entry of the fleet's log does not open: a node of fleet \(settings.name) has another share.secret_file, and shares nothing with this one. What it purges or changes may be anything, so all that is stored here counts as stale each time (\(figures.unopened) so far)"
        )
    }

    private static let unopenedRestMilliseconds: Int64 = 60_000

    private func obey(_ gap: LogGap) {
        if gap == .neverFollowed, following?.hasStored != true { return }
        figures.gaps[gap, default: 0] += 1
        node?.sight.doubt(gap.doubt, at: Timestamp(milliseconds: loop.time.wallMilliseconds))
        if gap == .neverFollowed {
            logger.notice("what is stored here was never held against the fleet's log: it counts as stale once")
            return batch.orders.append(.everything(isSoft: true))
        }
        let isSoft = settings.afterGap == .stale
        logger.error(
            "other nodes may have purged what nobody can tell any more (\(gap.rawValue)): all that is stored here \(isSoft ? "counts as stale" : "is dropped")"
        )
        batch.orders.append(.everything(isSoft: isSoft))
    }

    /// Beside this loop: what comes meanwhile is obeyed.
    private func keep(_ position: KeptPosition) {
        guard let following, following.mayKeepPosition else { return }
        positionFile.keep(FollowedPosition(position: position, following: following)) { [weak self] isKept in
            guard let self else { return }
            if isKept { return handle(LogFollower.Event.kept(position)) }
            // Another process may have taken over meanwhile.
            guard following.mayKeepPosition else { return }
            logger.warning("the position in the fleet's log cannot be written: it is read again after a restart")
        }
    }

    /// One batch after the other. Reports are said together where several wait.
    private func flushBatch() {
        if !batch.orders.isEmpty || batch.sight != nil {
            batches.append(batch)
            batch = Batch()
        }
        guard !isObeying, !batches.isEmpty, let following else { return }
        isObeying = true
        // The rest when these are done: what was said while this node was away may be a million.
        var orders: [FleetOrder] = []
        var taken = 0
        while taken < batches.count, taken == 0 || orders.count + batches[taken].orders.count <= Self.ordersAtATime {
            orders += batches[taken].orders
            taken += 1
        }
        let report = batches[..<taken].compactMap(\.report).last
        let sight = batches[..<taken].compactMap(\.sight).last
        batches.removeFirst(taken)
        let marks = orders.prefix(while: \.isMark)
        following.follow(marks)
        // What follows much has a turn of its own, so that none goes deeper into the stack than the one before it.
        guard marks.count < orders.count || !batches.isEmpty else { return obeyed(report, sight) }
        following.obey(Array(orders.dropFirst(marks.count))) { [weak self] in
            guard let self else { return }
            loop.execute { self.obeyed(report, sight) }
        }
    }

    private func obeyed(_ report: UInt64?, _ sight: UInt64?) {
        isObeying = false
        if let report { handle(.applied(report: report)) }
        if let sight {
            // What is stored from then on can be given: the disk has the ceiling of its position.
            positionFile.whenWritten { [weak self] in
                if let self, sight == self.sight { see() }
            }
        }
        flushBatch()
    }

    // MARK: Writing

    /// Something was changed here, and others have to know.
    /// - Parameter then: called on this loop: once where a write is in the log or will not be waited for, or once it is known how durable a purge is.
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
        // That a purge is pending is told when it lies on the disk.
        let told = actions.filter(\.isTellingPending)
        keepPending(actions) { [self] in for action in told { perform(action) } }
        for action in actions where !action.isTellingPending { perform(action) }
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
        // `keepPending` has done so.
        case .keepPending, .dropPending: break
        case .tell(let token, let outcome): tell(token, outcome)
        }
    }

    private func tell(_ token: LogWriter.Token, _ outcome: LogWriter.Outcome) {
        // That a purge is in the log is not yet what is waited for.
        if case .appended = outcome, purges.contains(token) { return }
        purges.remove(token)
        waiting.removeValue(forKey: token)?(outcome)
    }
}

/// How far the store has come, with who knows whether that may be said.
private struct FollowedPosition: Sendable {
    let position: KeptPosition
    let following: any FleetFollowing
}
