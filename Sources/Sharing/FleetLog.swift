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
    /// Set when it is started; it owns this.
    weak var node: FleetNode?
    private var following: (any FleetFollowing)?
    var figures = LogFigures()
    /// The same for others.
    private let published = Mutex(LogFigures())

    /// Who wants to know what became of what.
    private var waiting: [LogWriter.Token: (LogWriter.Outcome) -> Void] = [:]
    private var lastToken: LogWriter.Token = 0
    private var purges: Set<LogWriter.Token> = []
    /// Purges that lie on the disk, in their order.
    private var kept: [(token: LogWriter.Token, message: LogMessage)] = []
    private var timer: LoopTimer?
    private var writerTimer: LoopTimer?
    private var isStopped = false
    /// On which the log was met: another one may lead to another server.
    var metConnection: UInt64?
    var writerConnection: UInt64?
    /// From one meeting of the log to the next.
    var session = 0
    var isResting = false

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

    init(
        _ settings: FleetSettings, _ keys: EngineKeys, _ number: UInt64, beside store: StorePlace, _ logger: Logger, time: any TimeSource
    ) {
        (self.settings, self.keys, self.logger) = (settings, keys, logger)
        files = FleetFiles(beside: store)
        loop = EventLoop(label: "cistern.fleet", time: time)
        reader = EngineClient(loop: loop, settings.engine)
        writer = EngineClient(loop: loop, settings.engine)
        follower = LogFollower(node: number, kept: files.keptPosition()?.kept, now: time.monotonicMilliseconds)
        logWriter = LogWriter(node: number)
    }

    /// - Parameter following: obeys what others say.
    public func start(_ node: FleetNode, _ following: any FleetFollowing) {
        loop.execute { [self] in
            self.node = node
            self.following = following
            for message in files.pendingPurges() {
                lastToken += 1
                kept.append((lastToken, message))
                perform(logWriter.handle(.append(message, .keptPurge, token: lastToken), now: now))
            }
            takeLeft()
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

    private func takeLeft() {
        let messages = files.takeLeftPurges()
        guard !messages.isEmpty else { return }
        let known = Set(kept.map(\.message))
        for message in messages where !known.contains(message) {
            lastToken += 1
            kept.append((lastToken, message))
            perform(logWriter.handle(.append(message, .keptPurge, token: lastToken), now: now))
        }
        if keepPending() { files.dropLeftPurges() }
    }

    /// Nothing is followed afterwards.
    public func stop(then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in
            // Purges that are under way are kept for the next process.
            handle(LogWriter.Event.lost)
            // What was written down as one's own until a moment ago may have been overwritten by the next process.
            if following?.mayKeepPosition == false { keepPending() }
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
        handle(LogFollower.Event.tick)
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

    private func publish() { published.withLock { $0 = figures } }

    private func perform(_ action: LogFollower.Action) {
        switch action {
        case .readFrom(let position): read(from: position)
        case .look: look()
        case .apply(let placed):
            figures.applied += 1
            note(placed)
            FleetOrder(placed.entry.message).map { batch.orders.append($0) }
        case .note(let placed): note(placed)
        case .startAnew(let epoch, let floor): node?.change { $0.table.startAnew(epoch: epoch, floor: floor) }
        case .raiseFloor(let position): node?.change { $0.table.raiseFloor(to: position) }
        case .doubt(let after, let before): node?.change { $0.table.doubt(after: after, before: before) }
        case .gap(let gap): obey(gap)
        case .report(let number):
            batch.report = number
            batches.append(batch)
            batch = Batch()
        case .keep(let position):
            guard following?.mayKeepPosition == true else { return }
            if !files.keep(position) {
                logger.warning("the position in the fleet's log cannot be written: it is read again after a restart")
            }
        case .renewEpoch: renewEpoch()
        case .mayAppend(let fence, let isNewPrimary): connectWriter(fence, isNewPrimary: isNewPrimary)
        case .append(let fence): perform(logWriter.handle(.fence(fence), now: now))
        case .seeing:
            sight += 1
            batch.sight = sight
        case .blind(let since):
            sight += 1
            hasSight = false
            let time = loop.time.wallMilliseconds - max(0, now - since)
            node?.sight.lose(at: Timestamp(milliseconds: time))
            figures.blindSince = time
            figures.blindings += 1
            logger.warning("the fleet's log cannot be seen: copies count as fresh for share.blind_limit only")
        case .reconnect: meetAgain()
        }
    }

    /// All that was said before is obeyed.
    private func see() {
        hasSight = true
        keepSight()
        figures.blindSince = nil
        logger.notice("the fleet's log is followed: what other nodes purge is seen")
    }

    private func note(_ placed: PlacedEntry) {
        guard let mark = placed.entry.message.mark else { return }
        node?.change { $0.table.note(mark, at: placed.position) }
    }

    private func obey(_ gap: LogGap) {
        if gap == .neverFollowed, following?.hasStored != true { return }
        figures.gaps[gap, default: 0] += 1
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

    /// One batch after the other. Reports are said together where several wait.
    private func flushBatch() {
        if !batch.orders.isEmpty || batch.sight != nil {
            batches.append(batch)
            batch = Batch()
        }
        guard !isObeying, !batches.isEmpty, let following else { return }
        isObeying = true
        let report = batches.compactMap(\.report).last
        let sight = batches.compactMap(\.sight).last
        let orders = batches.flatMap(\.orders)
        batches = []
        let obeyed: @Sendable () -> Void = { [weak self] in
            guard let self else { return }
            loop.execute { [self] in
                isObeying = false
                if let report { handle(.applied(report: report)) }
                if let sight, sight == self.sight { see() }
                flushBatch()
            }
        }
        guard !orders.isEmpty else { return obeyed() }
        following.obey(orders, then: obeyed)
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
        for action in actions { perform(action) }
        figures.pendingPurges = logWriter.pendingPurges
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
        case .hold(let message): message.mark.map { mark in node?.change { $0.table.hold(mark) } }
        case .settle(let message, let position): message.mark.map { mark in node?.change { $0.table.settle(mark, at: position) } }
        case .keepPending(let token, let message):
            kept.append((token, message))
            keepPending()
        case .dropPending(let token):
            kept.removeAll { $0.token == token }
            keepPending()
        case .tell(let token, let outcome): tell(token, outcome)
        }
    }

    private func tell(_ token: LogWriter.Token, _ outcome: LogWriter.Outcome) {
        // That a purge is in the log is not yet what is waited for.
        if case .appended = outcome, purges.contains(token) { return }
        purges.remove(token)
        waiting.removeValue(forKey: token)?(outcome)
    }

    @discardableResult
    private func keepPending() -> Bool {
        // Two processes would write one file, and each what it knows.
        let isKept = files.keep(pending: kept.map(\.message), isLeft: following?.mayKeepPosition == false)
        if !isKept { logger.error("purges that are pending cannot be written down: a restart would forget them") }
        return isKept
    }
}

/// What is counted of the log.
public struct LogFigures: Sendable {
    /// Entries of others that were obeyed; entries of this node that are in the log.
    public var applied: UInt64 = 0
    public var appended: UInt64 = 0
    public var gaps: [LogGap: UInt64] = [:]
    public var blindings: UInt64 = 0
    /// Of no secret that this node has.
    public var unopened: UInt64 = 0
    /// Milliseconds of the clock of day; nil: the log is seen.
    public var blindSince: Int64?
    public var pendingPurges = 0
    /// The last entry that was read, and its age when it was (milliseconds).
    public var position = LogPosition.beginning
    public var lagMilliseconds: Int64 = 0
    /// Nodes that have written lately, and when each was heard of last (milliseconds of the log).
    public var nodes: [UInt64: UInt64] = [:]
    public var replicas = 0
    /// Why the log could not be asked for last; nil where it could.
    public var trouble: String?

    public init() {}

    /// Other processes that have written within the last minute before the last entry.
    public func recentNodes(besides own: UInt64) -> Int {
        nodes.count { $0.key != own && $0.value + 60_000 >= position.milliseconds }
    }
}
