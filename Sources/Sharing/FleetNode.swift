// A node of a fleet: the state that its shards share, and its access to the log.

import CachePolicy
import CacheStore
import Engine
import Fleet
import HTTPCore
import Logging
import Reactor
import ResponseCache

public final class FleetNode: Sendable {
    public let settings: FleetSettings
    public let membership: FleetMembership
    public let log: FleetLog
    public let exclusions: AnnouncedExclusions
    let keys: EngineKeys
    /// Random number that identifies this process.
    public let number: UInt64
    let name: [UInt8]
    private let state = Mutex(State())
    let leases = Mutex(LeaseTable())
    private let watch = Mutex(EngineWatch())
    private let slow = Mutex<Set<ObjectIdentifier>>([])
    private let rejection = Mutex<(current: EngineFailure?, logged: Set<EngineFailure>)>((nil, []))
    private let hasLoggedExpiry = Mutex(false)
    private let upstreams = Mutex<[String: String]>([:])
    private let logger: Logger

    /// State that the log's loop writes and the shards read.
    struct State {
        var table = MarkTable()
        var applied = AppliedPositions()
        var clock = FleetClock()
        var reached = LogPosition.beginning
    }

    public init(_ settings: FleetSettings, beside store: StoreLocation, _ logger: Logger, time: any TimeSource = SystemTime.shared) {
        keys = EngineKeys(fleet: settings.name)
        number = UInt64.random(in: 1 ... .max)
        name = Array(String(number, radix: 16).utf8)
        var settings = settings
        settings.engine.clientName = "cistern-\(settings.name)-\(String(number, radix: 16))"
        (self.settings, self.logger) = (settings, logger)
        let logLink = FleetLogLink(blindLimit: settings.blindLimit, afterGap: settings.afterGap, since: time.wallMilliseconds)
        membership = FleetMembership(settings.secrets.partitions, logLink, settings.secrets.sealing) {
            logLink.blindPeriod(at: Timestamp(milliseconds: time.wallMilliseconds))
        }
        log = FleetLog(settings, keys, number, beside: store, logger, time: time)
        exclusions = AnnouncedExclusions(FleetFiles(beside: store), fleet: settings.name)
    }

    var logLink: FleetLogLink { membership.logLink }

    public var isUpToDate: Bool { !logLink.isDisconnected(at: Timestamp(milliseconds: log.loop.time.wallMilliseconds)) }
    /// Engine's clock minus this machine's clock, in milliseconds, reduced by the measurement error; nil if unknown.
    public var clockSkew: Int64? {
        let (now, wall) = (log.now, log.loop.time.wallMilliseconds)
        return change { $0.clock.skew(wallNow: wall, now: now) }
    }
    public var nodeName: String { String(decoding: name, as: UTF8.self) }

    /// Number of other processes that have written to the log within the last hour. Earlier processes of this node count too.
    public var otherNodeCount: Int {
        let figures = log.publishedFigures
        let now = change { $0.clock.now(log.now) }
        return now.map { figures.nodes(since: $0 - 3_600_000, besides: number) } ?? 0
    }

    /// Logs a server's failure, unless the log's own messages report it: the server holds the log, or is the only one.
    func note(_ server: EngineServer, _ change: EngineServerChange, by client: EngineClient) {
        let mayLog = client.isCluster && server != log.publishedFigures.server
        watch.withLock { $0.note(server, change, by: ObjectIdentifier(client), mayLog: mayLog, now: log.now) }.map(logNews)
    }

    /// Called regularly: logs delayed failures.
    func logServerFailures(of client: EngineClient) {
        guard client.isCluster else { return }
        let server = log.publishedFigures.server
        watch.withLock { $0.due(now: log.now) { $0 != server } }.forEach(logNews)
    }

    /// Logs that the shards' round trips have become longer, or shorter, than the lookup timeout.
    func noteRoundTrip(_ microseconds: Int64, isSlow: Bool, of client: EngineClient) {
        let (wasSlow, isSlow) = slow.withLock { slow in
            defer { if isSlow { slow.insert(ObjectIdentifier(client)) } else { slow.remove(ObjectIdentifier(client)) } }
            return (!slow.isEmpty, isSlow || slow.count > 1)
        }
        guard wasSlow != isSlow else { return }
        guard isSlow else { return logger.notice("the engine is fast enough again: misses are looked up at other nodes") }
        logger.warning(
            "a round trip to the engine takes \(microseconds / 1_000) ms, longer than \(settings.timeout) ms: until it is faster, misses do not query other nodes. Bring the nodes and the engine closer together"
        )
    }

    public var isSlow: Bool { slow.withLock { !$0.isEmpty } }

    /// Why the engine rejects this node's responses; nil if it accepts them.
    public var offerRejection: EngineFailure? { rejection.withLock(\.current) }

    /// Logs that the engine rejects responses. Failures that also affect the log are reported by it.
    func noteOffer(_ reply: EngineReply) {
        let failure = reply.failure
        guard failure.map({ [.commandForbidden, .keyForbidden, .full].contains($0) }) ?? true else { return }
        let isNew = rejection.withLock { rejection in
            rejection.current = failure
            return failure.map { rejection.logged.insert($0).inserted } ?? false
        }
        guard isNew, let failure else { return }
        logger.warning("responses of this node are not shared: the engine \(failure.sentence(fleet: settings.name))")
    }

    /// Logs once that the engine refuses PTTL.
    func noteExpiryRefused() {
        let isNew = hasLoggedExpiry.withLock { hasLogged in
            defer { hasLogged = true }
            return !hasLogged
        }
        guard isNew else { return }
        let sentence = EngineFailure.commandForbidden.sentence(fleet: settings.name)
        logger.warning("a value in place of a lease delays misses by cache.collapse_wait: the engine \(sentence)")
    }

    private func logNews(_ news: EngineWatch.News) {
        switch news {
        case .fails(let server, let failure):
            logger.warning("responses on \(server) of the engine are not shared: the server \(failure.sentence(fleet: settings.name))")
        case .recovered(let server): logger.notice("\(server) of the engine is used again")
        case .dropped(let server): logger.notice("\(server) of the engine is no longer used: its slots have moved")
        }
    }

    /// Upstream URLs by API. Nodes with different URLs are not admitted to one fleet.
    public var served: [String: String] {
        get { upstreams.withLock { $0 } }
        set { upstreams.withLock { $0 = newValue } }
    }

    public func start(_ following: any FleetOrderReceiver) { log.start(self, following) }

    func change<Result>(_ body: (inout State) -> Result) -> Result { state.withLock { body(&$0) } }

    /// Returns the log position and fleet time of a response stored here; nil if unknown.
    func stamp(_ recency: Recency, wallNow: Int64, now: Int64) -> (version: RecordVersion, fleetTime: Int64)? {
        state.withLock { state in
            guard let version = state.applied.version(before: recency.requestTime.milliseconds),
                let time = state.clock.fleetTime(ofWall: recency.responseTime.milliseconds, wallNow: wallNow, now: now)
            else { return nil }
            return (version, time)
        }
    }

    /// Converts a fleet time to this node's wall clock; nil if the time is implausible.
    func wallTime(ofFleet time: Int64, wallNow: Int64, now: Int64) -> Int64? {
        state.withLock { $0.clock.wallTime(ofFleet: time, wallNow: wallNow, now: now) }
    }

    /// Returns why a record may not be used; nil if it may.
    /// - Parameter marks: keys of all marks that may concern the record.
    func refusal(
        of version: RecordVersion, concerning marks: [[UInt8]], isMeant: (_ selection: [UInt8]) -> Bool
    ) -> TakeRefusal? {
        let hashes = marks.map(Self.hash)
        return state.withLock { $0.table.refusal(of: version, reached: $0.reached, concerning: hashes, isSelected: isMeant) }
    }

    /// - Parameter then: called from any thread once the write is in the log or is no longer waited for.
    func propagate(_ message: LogMessage, then: @escaping @Sendable (_ isPropagated: Bool) -> Void) {
        // Refuses affected records until the log's loop does so.
        hold(message)
        log.loop.execute { [self] in
            log.append(message, .write) { outcome in if case .appended = outcome { then(true) } else { then(false) } }
            settle(message, at: nil)
        }
    }

    /// Publishes a purge. Older records of the purged responses are refused from now on.
    /// - Parameter message: nil if no other node can be affected.
    public func announce(_ message: LogMessage?) -> AnnouncedPurge {
        guard let message else { return AnnouncedPurge { then in then(.durable) } }
        hold(message)
        return AnnouncedPurge { [self] then in
            log.loop.execute { [self] in
                log.append(message, .purge) { then(PurgeReach($0)) }
                settle(message, at: nil)
            }
        }
    }

    func hold(_ message: LogMessage) { change { for mark in message.tableMarks { $0.table.hold(mark) } } }

    func settle(_ message: LogMessage, at position: LogPosition?) {
        change { for mark in message.tableMarks { $0.table.settle(mark, at: position) } }
    }

    func note(_ positioned: PositionedEntry) {
        change { for mark in positioned.entry.message.tableMarks { $0.table.note(mark, at: positioned.position) } }
    }

    static func hash(_ mark: [UInt8]) -> UInt64 { ContentHash.number(of: mark.span) }
}

extension PurgeReach {
    init(_ outcome: LogWriter.Outcome) {
        switch outcome {
        case .durable, .appended: self = .durable
        case .noReplica: self = .pending(reason: "no_replica")
        case .pending(let cause): self = .pending(reason: cause.rawValue)
        case .later: self = .pending(reason: LogWriter.Pending.notReached.rawValue)
        case .refused: self = .local
        }
    }
}

/// Log positions by time: a response gets the position that applied when its request was sent.
struct AppliedPositions: Sendable {
    private var entries: [(time: Int64, version: RecordVersion?)] = []

    private static let limit = 4_096

    /// - Parameters:
    ///   - version: nil if disconnected.
    ///   - time: wall clock. If it goes back, earlier positions are dropped.
    mutating func note(_ version: RecordVersion?, at time: Int64) {
        guard entries.last?.version != version || entries.isEmpty else { return }
        if let last = entries.last, time < last.time { entries = [] }
        // Only the first version of a millisecond counts, because a request in that millisecond may be older than later versions.
        if entries.count >= Self.limit { entries.removeFirst(Self.limit / 2) }
        entries.append((time, version))
    }

    /// Returns the position when a request was sent; nil if unknown.
    func version(before time: Int64) -> RecordVersion? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].time < time { low = middle + 1 } else { high = middle }
        }
        return low == 0 ? nil : entries[low - 1].version
    }
}
