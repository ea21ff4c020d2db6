// One shard's access to the shared level: it offers stored responses to the engine and looks up misses there. A request waits for the
// engine no longer than the lookup timeout.

import CachePolicy
import CacheStore
import ContentCodings
import Engine
import Fleet
import HTTPCore
import Reactor
import ResponseCache

/// `@unchecked Sendable` because its state is used on its loop only; other threads only pass the reference.
public final class FleetLevel: FleetStorage, @unchecked Sendable {
    public let node: FleetNode
    let loop: EventLoop
    let client: EngineClient
    private var sealer: FleetSealer
    private let zstd = QuickZstd()
    public internal(set) var figures = FleetFigures()
    /// Concurrent misses share one look-up.
    private var activeSearches: [SearchName: SharedSearch] = [:]

    private struct SearchName: Hashable {
        let key: HashedKey
        let mayWait: Bool
    }

    let patience: PatienceLine<SharedSearch>
    var renewal: LoopTimer?
    var waitingForNodes = 0
    /// When the engine last refused PTTL: milliseconds of the loop's clock; nil if it has not.
    private var expiryRefusedAt: Int64?
    /// Interval between attempts to use PTTL after a refusal, in milliseconds.
    private static let expiryRetryMilliseconds: Int64 = 60_000
    private var mapTimer: LoopTimer?
    /// True while round trips to the engine take longer than the lookup timeout. Misses are not looked up then.
    public private(set) var isSlow = false
    private var probe: LoopTimer?

    /// Numbers of this shard's writes that the log does not contain yet.
    private var unpropagated: Set<UInt64> = []
    public private(set) var lastAnnounced: UInt64 = 0
    /// Number of the last write that requests no longer wait for. Its entry is appended to the log later.
    private var lastUnpropagated: UInt64 = 0
    private var waiters: [PropagationWaiter] = []

    /// Maximum size of a record's key and head, bytes.
    private static let overheadBytes = 256 << 10

    public init(_ node: FleetNode, on loop: EventLoop) {
        (self.node, self.loop) = (node, loop)
        sealer = FleetSealer(node.settings.secrets.first)
        var engine = node.settings.engine
        // A value is read in one piece, which blocks the loop.
        engine.limits.replyBytes = node.settings.contentLimitBytes + Self.overheadBytes
        client = EngineClient(loop: loop, engine)
        patience = PatienceLine(loop: loop, milliseconds: node.settings.timeout) { $0.giveUp() }
        keep = EngineWords("PX", String(node.settings.keep))
        leaseWords = EngineWords(String(decoding: node.name, as: UTF8.self), "NX", "GET", "PX", String(LeaseTimes.expiry))
        renewalWords = EngineWords(String(decoding: node.name, as: UTF8.self), "XX", "PX", String(LeaseTimes.expiry))
        client.onChange = { [unowned client, node] in node.note($0, $1, by: client) }
    }

    public func start() {
        client.start()
        scheduleMapRefresh()
    }

    /// Refreshes the Cluster's slot map, because replies to other commands do not report new servers.
    private func scheduleMapRefresh() {
        mapTimer = loop.schedule(after: .seconds(Self.mapRefreshSeconds)) { [weak self] in
            guard let self else { return }
            client.refreshMap()
            node.logServerFailures(of: client)
            scheduleMapRefresh()
        }
    }

    private static let mapRefreshSeconds = 30

    public func close() {
        client.close()
        renewal?.cancel()
        mapTimer?.cancel()
        probe?.cancel()
        for search in Array(activeSearches.values) { search.giveUp() }
        // A paused search does not continue.
        activeSearches = [:]
        let left = waiters
        waiters = []
        for waiter in left { waiter.resume() }
    }

    private var isDisconnected: Bool { node.logLink.isDisconnected(at: Timestamp(milliseconds: loop.batchWallMilliseconds)) }

    public var engineFigures: EngineFigures { client.figures }
    public var servers: [EngineServerState] { client.servers }

    /// - Returns: nil if the value is not a usable record.
    func open(_ value: [UInt8], at location: FleetLocation, recordKeys: RecordKeys) -> VersionedRecord? {
        let secret = node.settings.secrets.all[location.secret]
        return VersionedRecord(value, sealedBy: secret, at: recordKeys.record.bytes, by: zstd, limit: client.settings.limits.replyBytes)
    }

    public let isShared = true
    public var contentLimitBytes: Int { node.settings.contentLimitBytes }

    public func mayOffer() -> Bool {
        guard client.isOpen, !isDisconnected else {
            count(client.isOpen ? .unplaced : .failed)
            return false
        }
        return true
    }

    public func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency) {
        loop.assertOnLoop()
        // A marker that leads to variants does not end any node's wait, and is not counted.
        let isResponse = StoredMetadata.kind(of: item.metadata.span) == .response
        func count(_ outcome: OfferOutcome) { if isResponse { self.count(outcome) } }
        let wallNow = loop.batchWallMilliseconds
        // After the clock was set back, the position at that time is unknown.
        guard recency.requestTime.milliseconds <= wallNow,
            let stamp = node.stamp(recency, wallNow: wallNow, now: loop.batchMilliseconds)
        else { return count(.unplaced) }
        let (lease, isRemoved) = offering(item.key, isResponse: isResponse)
        let recordKeys = lease?.recordKeys ?? node.keys.recordKeys(of: node.settings.secrets.first.name(of: key))
        let record = FleetRecord(key: key, metadata: item.metadata, head: item.head, body: item.body)
        let versioned = VersionedRecord(record, stamp.version, fleetTime: stamp.fleetTime).packed(by: zstd)
        let valueBytes = versioned.sealedBytes
        guard valueBytes < client.settings.limits.replyBytes else {
            if let lease { mark(HashedKey(item.key), lease, .eachNode, 0, loop.batchMilliseconds) }
            return count(.tooLong)
        }
        var commands = EngineCommands(room: valueBytes + Self.commandBytes)
        commands.add(
            Words.set, recordKeys.record, valueBytes: valueBytes,
            { versioned.appendSealed(to: &$0, by: &sealer, at: recordKeys.record.bytes) }, keep)
        // The record and the end of the lease arrive together.
        if isRemoved { commands.add(Words.unlink, recordKeys.lease) }
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience, isUrgent: false) { [node] replies in
            node.noteOffer(replies[0])
            if case .status = replies[0] { count(.sent) } else { count(.failed) }
        }
    }

    public func invalidated(_ marks: [[UInt8]], isDoubtful: Bool) { announce(LogMessage(of: marks, isSoft: isDoubtful)) }

    public func invalidated(identitiesOf tokens: [[UInt8]], isLost: Bool) { announce(LogMessage(tokens: tokens, isLost: isLost)) }

    private func announce(_ message: LogMessage) {
        loop.assertOnLoop()
        lastAnnounced += 1
        let number = lastAnnounced
        unpropagated.insert(number)
        node.propagate(message) { [self] isPropagated in
            loop.execute { self.notePropagated(number, isPropagated) }
        }
    }

    public var isAwaited: Bool { !unpropagated.isEmpty }

    public func whenPropagated(since former: UInt64, _ then: @escaping (_ isPropagated: Bool) -> Void) {
        let waiter = PropagationWaiter(unpropagated) { [self] left in then(lastUnpropagated <= former && !left.contains { $0 > former }) }
        guard isAwaited else { return waiter.resume() }
        waiters.append(waiter)
        waiter.timer = loop.schedule(after: .milliseconds(Int(node.settings.timeout))) { [self] in
            waiters.removeAll { $0 === waiter }
            waiter.resume()
        }
    }

    private func notePropagated(_ number: UInt64, _ isPropagated: Bool) {
        unpropagated.remove(number)
        if !isPropagated { lastUnpropagated = max(lastUnpropagated, number) }
        for waiter in waiters { waiter.left.remove(number) }
        let ready = waiters.filter(\.left.isEmpty)
        waiters.removeAll(where: \.left.isEmpty)
        for waiter in ready { waiter.resume() }
    }

    /// False for a while after the engine has refused PTTL.
    var mayReadExpiry: Bool {
        expiryRefusedAt.map { loop.time.monotonicMilliseconds - $0 >= Self.expiryRetryMilliseconds } ?? true
    }

    func noteExpiryRefused() {
        expiryRefusedAt = loop.time.monotonicMilliseconds
        node.noteExpiryRefused()
    }

    static let offerPatience: Int64 = 1_000

    enum Words {
        static let get = EngineWords("GET")
        static let set = EngineWords("SET")
        static let unlink = EngineWords("UNLINK")
        static let pttl = EngineWords("PTTL")
    }

    private let keep: EngineWords
    let leaseWords: EngineWords
    let renewalWords: EngineWords
    /// Approximate size of two commands without their values, in bytes.
    static let commandBytes = 256

    private func count(_ outcome: OfferOutcome) { figures.offers[outcome, default: 0] += 1 }

    public func obstacle(for keys: TargetKeys) -> FleetObstacle? {
        guard client.isOpen else { return .failing }
        guard !isDisconnected else { return .disconnected }
        guard !isSlow else { return .slow }
        return isForEachNode(keys.own) ? .unshareable : nil
    }

    public func search(_ lookUp: FleetLookUp, in cache: ResponseCache, wait: Int64?, for waiter: any FleetWaiter) {
        loop.assertOnLoop()
        guard let first = lookUp.locations.first else {
            _ = waiter.fleetLookUpEnded(.missing, nil)
            return
        }
        judgeRoundTrip()
        let key = HashedKey(first.key)
        let name = SearchName(key: key, mayWait: wait != nil)
        if let search = activeSearches[name] { return search.join(waiter) }
        let search = SharedSearch(self, lookUp, key, cache, wait: wait)
        activeSearches[name] = search
        search.join(waiter)
        search.start()
    }

    /// Updates `isSlow`. While the engine is slow, round trips are measured by PING and by offers.
    private func judgeRoundTrip() {
        let limit = node.settings.timeout * 1_000
        let isSlow = client.roundTripMicroseconds > (isSlow ? limit * 3 / 4 : limit)
        if isSlow != self.isSlow {
            self.isSlow = isSlow
            node.noteRoundTrip(client.roundTripMicroseconds, isSlow: isSlow, of: client)
        }
        guard isSlow, probe == nil else { return }
        probe = loop.schedule(after: .milliseconds(Self.probeMilliseconds)) { [weak self] in
            guard let self else { return }
            client.send(EngineCommand("PING"), patienceMilliseconds: Self.offerPatience) { [weak self] _ in
                self?.probe = nil
                self?.judgeRoundTrip()
            }
        }
    }

    private static let probeMilliseconds = 250

    func ended(_ search: SharedSearch) {
        let name = SearchName(key: search.key, mayWait: search.mayWait)
        if activeSearches[name] === search { activeSearches[name] = nil }
    }
}

private final class PropagationWaiter {
    var left: Set<UInt64>
    var timer: LoopTimer?
    private var then: ((_ left: Set<UInt64>) -> Void)?

    init(_ left: Set<UInt64>, _ then: @escaping (_ left: Set<UInt64>) -> Void) { (self.left, self.then) = (left, then) }

    func resume() {
        timer?.cancel()
        timer = nil
        let then = then
        self.then = nil
        then?(left)
    }
}
