// This node of a fleet: what all of its shards have to know of the log, and its voice there.

import CachePolicy
import CacheStore
import Engine
import Fleet
import Hashing
import Locking
import Logging
import Reactor
import ResponseCache

public final class FleetNode: Sendable {
    public let settings: FleetSettings
    public let membership: FleetMembership
    public let log: FleetLog
    let keys: EngineKeys
    /// Of this process: another one is another node.
    public let number: UInt64
    /// The same as the holder of a lease.
    let name: [UInt8]
    private let state = Mutex(State())
    /// Changed by the shards.
    let leases = Mutex(LeaseTable())
    /// Changed by the shards.
    private let watch = Mutex(EngineWatch())
    /// Shards' clients whose round trips are too long.
    private let slow = Mutex<Set<ObjectIdentifier>>([])
    /// Set by the server; asked by the log's loop.
    private let upstreams = Mutex<[String: String]>([:])
    private let logger: Logger

    /// Changed by the log's loop; asked by the shards, when something is not stored here.
    struct State {
        var table = MarkTable()
        var applied = AppliedPositions()
        var clock = FleetClock()
        /// How far the log was handed over.
        var reached = LogPosition.beginning
    }

    public init(_ settings: FleetSettings, beside store: StorePlace, _ logger: Logger, time: any TimeSource = SystemTime.shared) {
        keys = EngineKeys(fleet: settings.name)
        number = UInt64.random(in: 1 ... .max)
        name = Array(String(number, radix: 16).utf8)
        var settings = settings
        settings.engine.clientName = "cistern-\(settings.name)-\(String(number, radix: 16))"
        (self.settings, self.logger) = (settings, logger)
        let sight = FleetSight(blindLimit: settings.blindLimit, afterGap: settings.afterGap, since: time.wallMilliseconds)
        membership = FleetMembership(FleetHashing(settings.secrets.partitions), sight)
        log = FleetLog(settings, keys, number, beside: store, logger, time: time)
    }

    var sight: FleetSight { membership.sight }

    public var isSeeing: Bool { !sight.isBlind(at: Timestamp(milliseconds: log.loop.time.wallMilliseconds)) }
    /// Engine server's clock minus this machine's clock, in milliseconds, less what the measurement explains; nil if unknown.
    public var clockSkew: Int64? {
        let (now, wall) = (log.now, log.loop.time.wallMilliseconds)
        return change { $0.clock.skew(wallNow: wall, now: now) }
    }
    public var nodeName: String { String(decoding: name, as: UTF8.self) }

    /// Other processes that have written to the log within the last hour, former ones of this node too: who purges nothing and changes nothing does not show.
    public var nodesHeardOf: Int {
        let figures = log.publishedFigures
        let now = change { $0.clock.now(log.now) }
        return now.map { figures.nodes(since: $0 - 3_600_000, besides: number) } ?? 0
    }

    /// A shard asks a server of the engine no more, or does so again. That of the log is told of with the log, and so is one that is alone.
    func note(_ server: EngineServer, _ change: EngineServerChange, by client: EngineClient) {
        let mayTell = client.isCluster && server != log.publishedFigures.server
        watch.withLock { $0.note(server, change, by: ObjectIdentifier(client), mayTell: mayTell, now: log.now) }.map(tell)
    }

    /// Tells what could not be told when it began. Asked for now and then.
    func tellOfServers(of client: EngineClient) {
        guard client.isCluster else { return }
        let server = log.publishedFigures.server
        watch.withLock { $0.due(now: log.now) { $0 != server } }.forEach(tell)
    }

    /// The round trip of a shard's client has become longer than `share.timeout`, or is shorter again.
    func noteRoundTrip(_ microseconds: Int64, isSlow: Bool, of client: EngineClient) {
        let (wasSlow, isSlow) = slow.withLock { slow in
            defer { if isSlow { slow.insert(ObjectIdentifier(client)) } else { slow.remove(ObjectIdentifier(client)) } }
            return (!slow.isEmpty, isSlow || slow.count > 1)
        }
        guard wasSlow != isSlow else { return }
        guard isSlow else { return logger.notice("the engine is fast enough again: misses look for what other nodes have stored") }
        logger.warning(
            "a round trip to the engine takes \(microseconds / 1_000) ms, longer than share.timeout (\(settings.timeout) ms): misses do not look for what other nodes have stored until it is faster. Raise share.timeout, or bring the nodes and the engine closer together"
        )
    }

    public var isSlow: Bool { slow.withLock { !$0.isEmpty } }

    private func tell(_ news: EngineWatch.News) {
        switch news {
        case .fails(let server, let failure):
            logger.warning("what \(server) of the engine has is not shared: it \(failure.sentence(fleet: settings.name))")
        case .isWell(let server): logger.notice("\(server) of the engine is asked again")
        case .dropped(let server): logger.notice("\(server) of the engine is needed no more: the Cluster has given its part to others")
        }
    }

    /// URLs of the upstreams by the names of their APIs: nodes that have another one for an API are not of one fleet.
    public var served: [String: String] {
        get { upstreams.withLock { $0 } }
        set { upstreams.withLock { $0 = newValue } }
    }

    /// Follows the log from now on.
    public func start(_ following: any FleetFollowing) { log.start(self, following) }

    func change<Result>(_ body: (inout State) -> Result) -> Result { state.withLock { body(&$0) } }

    // MARK: Records

    /// What others have to know of a response that was stored here; nil where it cannot be told.
    func place(_ recency: Recency, wallNow: Int64, now: Int64) -> (version: RecordVersion, fleetTime: Int64)? {
        state.withLock { state in
            guard let version = state.applied.version(before: recency.requestTime.milliseconds),
                let time = state.clock.fleetTime(ofWall: recency.responseTime.milliseconds, wallNow: wallNow, now: now)
            else { return nil }
            return (version, time)
        }
    }

    /// By this node's clock of day; nil where that cannot be.
    func wallTime(ofFleet time: Int64, wallNow: Int64, now: Int64) -> Int64? {
        state.withLock { $0.clock.wallTime(ofFleet: time, wallNow: wallNow, now: now) }
    }

    /// Why a record may not be taken; nil where it may.
    /// - Parameter marks: the keys of all that may concern it.
    func refusal(
        of version: RecordVersion, concerning marks: [[UInt8]], isMeant: (_ selection: [UInt8]) -> Bool
    ) -> TakeRefusal? {
        let hashes = marks.map(Self.hash)
        return state.withLock { $0.table.refusal(of: version, reached: $0.reached, concerning: hashes, isSelected: isMeant) }
    }

    // MARK: What others have to know

    /// Something was changed here by a write. From now on nothing older is taken.
    /// - Parameter then: once it is in the log, or will not be waited for: from any thread.
    func tell(_ message: LogMessage, then: @escaping @Sendable (_ isTold: Bool) -> Void) {
        // Until the log's loop holds it itself.
        hold(message)
        log.loop.execute { [self] in
            log.append(message, .write) { outcome in if case .appended = outcome { then(true) } else { then(false) } }
            settle(message, at: nil)
        }
    }

    /// What is about to be purged here is not taken from others any more.
    /// - Parameter message: nil: the purge concerns nothing that others may have.
    public func announce(_ message: LogMessage?) -> any AnnouncedPurge {
        message.map(hold)
        return Announcement(node: self, message: message)
    }

    private struct Announcement: AnnouncedPurge {
        let node: FleetNode
        let message: LogMessage?

        func tell(then: @escaping @Sendable (PurgeReach) -> Void) {
            guard let message else { return then(.durable) }
            node.log.loop.execute {
                node.log.append(message, .purge) { then(PurgeReach($0)) }
                node.settle(message, at: nil)
            }
        }
    }

    func hold(_ message: LogMessage) { change { for mark in message.tableMarks { $0.table.hold(mark) } } }

    func settle(_ message: LogMessage, at position: LogPosition?) {
        change { for mark in message.tableMarks { $0.table.settle(mark, at: position) } }
    }

    func note(_ placed: PlacedEntry) { change { for mark in placed.entry.message.tableMarks { $0.table.note(mark, at: placed.position) } } }

    static func hash(_ mark: [UInt8]) -> UInt64 { mark.withUnsafeBytes(ContentHash.number) }
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
