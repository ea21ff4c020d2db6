// The fleet node of this server: announcing purges, and reporting the state and counters of the fleet.

import CachePolicy
import Dispatch
import Engine
import Figures
import Fleet
import HTTPCore
import JSON
import Reactor
import ResponseCache
import ReverseProxy
import Sharing

extension ProxyServer {
    public func announcePurge(_ selection: FleetSelection, isSoft: Bool) -> AnnouncedPurge? {
        fleet.map { $0.announce(message(selection, isSoft: isSoft)) }
    }

    /// Message for a purge. If the marks of a target are known, the message contains only these, so other nodes need not search their
    /// stores. The marks are unknown for APIs that only other nodes serve.
    private func message(_ selection: FleetSelection, isSoft: Bool) -> LogMessage? {
        switch selection.kind {
        case .nothing: return nil
        case .everything where selection.apis.isEmpty: return LogMessage(.all, isSoft: isSoft)
        case .target where !isSoft:
            let caches = serving.apis.compactMap { $0.state.cache.map { ResponseCache($0, mayWait: true) { [self] in cacheTime } } }
            let meant = caches.filter { selection.isMeant($0.state.settings) }.map { $0.marks(ofTarget: selection.value) }
            guard !meant.contains(where: { $0 == nil }), !selection.mayMeanOthers(than: caches.map(\.state.settings)) else { break }
            let marks = meant.flatMap { $0 ?? [] }
            return marks.isEmpty ? nil : LogMessage(marks: marks)
        case .everything, .target, .prefix, .tag, .criteria: break
        }
        return LogMessage(.selection, argument: selection.bytes, isSoft: isSoft)
    }

    /// Maximum time for which a take-over waits for the disk: the new process waits for the commit no longer than five seconds.
    private static let positionMilliseconds = 1_000

    /// Stores the position in the log for a process that takes over. From an older position, that process would apply writes of other nodes
    /// again, and remove responses that were fetched after them. Blocks; must not be called on an event loop.
    func keepFleetPosition() {
        guard let log = fleet?.log else { return }
        let kept = DispatchSemaphore(value: 0)
        log.keepPosition { kept.signal() }
        _ = kept.wait(timeout: .now() + .milliseconds(Self.positionMilliseconds))
    }

    var cacheTime: CacheTime { CacheTime(wall: Timestamp(milliseconds: wallMilliseconds), monotonic: monotonicMilliseconds) }
}

extension ProxyServer {
    public func collectShare(then: @escaping @Sendable (JSONValue?) -> Void) {
        guard let fleet else { return then(nil) }
        // Each shard adds its servers on its own loop. A server counts as failing if one shard reports a failure.
        let servers = Mutex<[EngineServer: EngineServerState]>([:])
        onEachShard { served in
            let known = served.fleet?.servers ?? []
            servers.withLock { all in
                for one in known where all[one.server]?.failure == nil { all[one.server] = one }
            }
        } then: {
            then(Self.state(of: fleet, servers.withLock { Array($0.values) }))
        }
    }

    private static func state(of fleet: FleetNode, _ servers: [EngineServerState]) -> JSONValue {
        let log = fleet.log.publishedFigures
        let lines = servers.sorted { $0.server.description < $1.server.description }.map { one -> JSONValue in
            [
                "address": .string(one.server.description), "role": .string(one.role.label),
                "slots": one.role.slots.map { .integer($0) } ?? .null, "has_log": .bool(one.server == log.server),
                "failure": one.failure.map { .string($0.rawValue) } ?? .null,
            ]
        }
        let time = { (milliseconds: Int64?) -> JSONValue in milliseconds.map { .string(RFC3339.format(milliseconds: $0)) } ?? .null }
        return [
            "fleet": .string(fleet.settings.name), "node": .string(fleet.nodeName), "seeing": .bool(fleet.isUpToDate),
            "blind_since": time(log.disconnectedSince), "trouble": log.trouble.map { .string($0.label) } ?? .null,
            "trouble_sentence": log.trouble.map { .string($0.sentence(fleet: fleet.settings.name)) } ?? .null,
            "log_server": log.server.map { .string($0.description) } ?? .null, "log_slot": log.slot.map { .integer($0) } ?? .null,
            "position": .string(log.position.text), "lag_ms": .integer(Int(log.lagMilliseconds)), "nodes": .integer(fleet.otherNodeCount),
            "unopened": .integer(Int(clamping: log.unopened)), "unopened_at": time(log.lastUnopened),
            "foreign": .integer(Int(clamping: log.foreign)),
            "is_slow": .bool(fleet.isSlow), "servers": .array(lines),
            "offers_rejected": fleet.offerRejection.map { .string($0.rawValue) } ?? .null,
            "replicas": .integer(log.replicas), "pending_purges": .integer(log.pendingPurges.values.reduce(0, +)),
            "pending_reasons": .object(
                LogWriter.Pending.allCases.map { JSONValue.Member($0.rawValue, .integer(log.pendingPurges[$0] ?? 0)) }),
            "gaps": .object(LogGap.allCases.map { JSONValue.Member($0.rawValue, .integer(Int(clamping: log.gaps[$0] ?? 0))) }),
        ]
    }
}

extension EngineServerState.Role {
    fileprivate var label: String {
        switch self {
        case .primary: "primary"
        case .alone: "alone"
        case .replica: "replica"
        case .unlisted: "unlisted"
        }
    }

    fileprivate var slots: Int? { if case .primary(let slots) = self { slots } else { nil } }
}

extension FleetLevel {
    /// Must be called on the shard's event loop.
    func addFigures(to snapshot: inout MetricsSnapshot) {
        var sum = snapshot.sharing ?? MetricsSnapshot.Sharing()
        sum.add(figures, engineFigures)
        sum.slowLoops += isSlow ? 1 : 0
        snapshot.sharing = sum
    }
}

extension MetricsSnapshot.Sharing {
    fileprivate mutating func add(_ figures: FleetFigures, _ engine: EngineFigures) {
        Self.add(FleetOutcome.allCases.map { ($0.rawValue, figures.lookUps[$0] ?? 0) }, to: &lookUps)
        Self.add(LeaseOutcome.allCases.map { ($0.rawValue, figures.leases[$0] ?? 0) }, to: &leases)
        Self.add(OfferOutcome.allCases.map { ($0.rawValue, figures.offers[$0] ?? 0) }, to: &offers)
        Self.add(FleetRefusal.allCases.map { ($0.rawValue, figures.refusals[$0] ?? 0) }, to: &refusals)
        add(engine.failures)
        let failing = engine.serversWithOpenBreaker
        servers = [
            (true, (servers.first?.count ?? 0) + engine.servers - failing), (false, (servers.last?.count ?? 0) + failing),
        ]
        var times = Histogram(engine.roundTrips)
        if let known = roundTrips { times.merge(known) }
        roundTrips = times
    }

    private mutating func add(_ failures: [EngineFailure: UInt64]) {
        Self.add(EngineFailure.allCases.map { ($0.rawValue, failures[$0] ?? 0) }, to: &engineFailures)
    }

    private static func add(_ lines: [Line], to sum: inout [Line]) {
        guard !sum.isEmpty else {
            sum = lines
            return
        }
        for index in sum.indices { sum[index].count += lines[index].count }
    }

    mutating func add(_ log: LogFigures, isUpToDate: Bool, clockSkew: Int64?) {
        self.clockSkew = clockSkew
        (entriesApplied, entriesAppended, disconnections, unopened) = (log.applied, log.appended, log.disconnections, log.unopened)
        (lag, self.isUpToDate, foreign) = (log.lagMilliseconds, isUpToDate, log.foreign)
        // There is no cause before the first connection to the log.
        troubles = LogTrouble.labels.map { ($0, !isUpToDate && $0 == log.trouble?.label ? 1 : 0) }
        add(log.engineFailures)
        pendingPurges = LogWriter.Pending.allCases.map { ($0.rawValue, UInt64(log.pendingPurges[$0] ?? 0)) }
        gaps = LogGap.allCases.map { ($0.rawValue, log.gaps[$0] ?? 0) }
    }
}

extension Histogram {
    /// Buckets from 16 microseconds to a second.
    fileprivate init(_ times: RoundTrips) {
        let first = 4
        var counts = (first..<RoundTrips.buckets).map { times.counts[$0] }
        for index in 0..<first { counts[0] += times.counts[index] }
        self.init(bounds: (first..<(RoundTrips.buckets - 1)).map { 1 << Int64($0) }, counts: counts, sum: times.sumMicroseconds)
    }
}
