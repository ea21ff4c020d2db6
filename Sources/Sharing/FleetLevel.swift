// One shard's access to the shared level: it offers stored responses to the engine and looks up misses there. A request waits for the
// engine for the look-up timeout at most.

import CachePolicy
import CacheStore
import ContentCodings
import Engine
import Fleet
import HTTPCore
import Reactor
import ResponseCache

/// `@unchecked Sendable` because it is touched on its loop only; others carry it there.
public final class FleetLevel: SharedLevel, @unchecked Sendable {
    public let node: FleetNode
    let loop: EventLoop
    let client: EngineClient
    private var sealer: FleetSealer
    private let zstd = QuickZstd()
    public internal(set) var figures = FleetFigures()
    /// Concurrent misses share one look-up.
    private var underWay: [SearchName: SharedSearch] = [:]

    private struct SearchName: Hashable {
        let key: HashedKey
        let mayWait: Bool
    }

    let patience: PatienceLine<SharedSearch>
    var renewal: LoopTimer?
    var waitingForNodes = 0
    private var around: LoopTimer?
    /// Whether round trips to the engine take longer than the look-up timeout. Misses are not looked up then.
    public private(set) var isSlow = false
    private var probe: LoopTimer?

    /// Numbers of this shard's writes that are not in the log yet.
    private var untold: Set<UInt64> = []
    public private(set) var lastTold: UInt64 = 0
    /// The last write that was given up: it comes into the log later.
    private var lastUntold: UInt64 = 0
    private var waiters: [ToldWaiter] = []

    /// Maximum size of a record's key and head, bytes.
    private static let overheadBytes = 256 << 10

    public init(_ node: FleetNode, on loop: EventLoop) {
        (self.node, self.loop) = (node, loop)
        sealer = FleetSealer(node.settings.secrets.first)
        var engine = node.settings.engine
        // A value is read in one piece, which holds the loop.
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
        lookAround()
    }

    /// Refreshes the Cluster's map: no other command reports new servers.
    private func lookAround() {
        around = loop.schedule(after: .seconds(Self.aroundSeconds)) { [weak self] in
            guard let self else { return }
            client.refreshMap()
            node.tellOfServers(of: client)
            lookAround()
        }
    }

    private static let aroundSeconds = 30

    public func close() {
        client.close()
        renewal?.cancel()
        around?.cancel()
        probe?.cancel()
        for search in Array(underWay.values) { search.giveUp() }
        // A search that rests does not continue.
        underWay = [:]
        let left = waiters
        waiters = []
        for waiter in left { waiter.goOn() }
    }

    private var isBlind: Bool { node.sight.isBlind(at: Timestamp(milliseconds: loop.batchWallMilliseconds)) }

    public var engineFigures: EngineFigures { client.figures }
    public var servers: [EngineServerState] { client.servers }

    /// - Returns: nil: not a usable record.
    func open(_ value: [UInt8], at place: SharedPlace, lying lies: RecordPlace) -> GivenRecord? {
        let secret = node.settings.secrets.all[place.secret]
        return GivenRecord(value, sealedBy: secret, at: lies.record.bytes, by: zstd, limit: client.settings.limits.replyBytes)
    }

    public let isShared = true
    public var contentLimitBytes: Int { node.settings.contentLimitBytes }

    public func mayOffer() -> Bool {
        guard client.isOpen, !isBlind else {
            count(client.isOpen ? .unplaced : .failed)
            return false
        }
        return true
    }

    public func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency) {
        loop.assertOnLoop()
        // A marker that leads to variants frees no waiting node, and is not counted.
        let isResponse = StoredMetadata.kind(of: item.metadata.span) == .response
        func count(_ outcome: OfferOutcome) { if isResponse { self.count(outcome) } }
        let wallNow = loop.batchWallMilliseconds
        // After the clock was set back, the position at that time is unknown.
        guard recency.requestTime.milliseconds <= wallNow,
            let placed = node.place(recency, wallNow: wallNow, now: loop.batchMilliseconds)
        else { return count(.unplaced) }
        let (lease, isRemoved) = offering(item.key, isResponse: isResponse)
        let place = lease?.place ?? node.keys.place(of: node.settings.secrets.first.name(of: key))
        let record = SharedRecord(key: key, metadata: item.metadata, head: item.head, body: item.body)
        let given = GivenRecord(record, placed.version, fleetTime: placed.fleetTime).packed(by: zstd)
        let valueBytes = given.sealedBytes
        guard valueBytes < client.settings.limits.replyBytes else {
            if let lease { mark(HashedKey(item.key), lease, .eachNode, 0, loop.batchMilliseconds) }
            return count(.tooLong)
        }
        var commands = EngineCommands(room: valueBytes + Self.commandBytes)
        commands.add(
            Words.set, place.record, valueBytes: valueBytes, { given.appendSealed(to: &$0, by: &sealer, at: place.record.bytes) }, keep)
        // The record and the end of the lease arrive together.
        if isRemoved { commands.add(Words.unlink, place.lease) }
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience, isUrgent: false) { replies in
            if case .status = replies[0] { count(.sent) } else { count(.failed) }
        }
    }

    public func invalidated(_ marks: [[UInt8]], isDoubtful: Bool) {
        loop.assertOnLoop()
        lastTold += 1
        let number = lastTold
        untold.insert(number)
        node.tell(LogMessage(of: marks, isSoft: isDoubtful)) { [self] isTold in loop.execute { self.noteTold(number, isTold) } }
    }

    public var isAwaited: Bool { !untold.isEmpty }

    public func whenTold(since former: UInt64, _ then: @escaping (_ isTold: Bool) -> Void) {
        let waiter = ToldWaiter(untold) { [self] left in then(lastUntold <= former && !left.contains { $0 > former }) }
        guard isAwaited else { return waiter.goOn() }
        waiters.append(waiter)
        waiter.timer = loop.schedule(after: .milliseconds(Int(node.settings.timeout))) { [self] in
            waiters.removeAll { $0 === waiter }
            waiter.goOn()
        }
    }

    private func noteTold(_ number: UInt64, _ isTold: Bool) {
        untold.remove(number)
        if !isTold { lastUntold = max(lastUntold, number) }
        for waiter in waiters { waiter.left.remove(number) }
        let ready = waiters.filter(\.left.isEmpty)
        waiters.removeAll(where: \.left.isEmpty)
        for waiter in ready { waiter.goOn() }
    }

    static let offerPatience: Int64 = 1_000

    enum Words {
        static let get = EngineWords("GET")
        static let set = EngineWords("SET")
        static let unlink = EngineWords("UNLINK")
    }

    private let keep: EngineWords
    let leaseWords: EngineWords
    let renewalWords: EngineWords
    /// Size of two commands without their values, about.
    static let commandBytes = 256

    private func count(_ outcome: OfferOutcome) { figures.offers[outcome, default: 0] += 1 }

    public func obstacle(for keys: TargetKeys) -> SharedObstacle? {
        guard client.isOpen else { return .failing }
        guard !isBlind else { return .blind }
        guard !isSlow else { return .slow }
        return isForEachNode(keys.own) ? .unshareable : nil
    }

    public func look(_ lookUp: SharedLookUp, in cache: ResponseCache, wait: Int64?, for waiter: any SharedWaiter) {
        loop.assertOnLoop()
        guard let first = lookUp.places.first else {
            _ = waiter.sharedEnded(.missing, nil)
            return
        }
        judgeRoundTrip()
        let key = HashedKey(first.key)
        let name = SearchName(key: key, mayWait: wait != nil)
        if let search = underWay[name] { return search.join(waiter) }
        let search = SharedSearch(self, lookUp, key, cache, wait: wait)
        underWay[name] = search
        search.join(waiter)
        search.start()
    }

    /// A slow engine is measured by PING and by offers.
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
        if underWay[name] === search { underWay[name] = nil }
    }
}

private final class ToldWaiter {
    var left: Set<UInt64>
    var timer: LoopTimer?
    private var then: ((_ left: Set<UInt64>) -> Void)?

    init(_ left: Set<UInt64>, _ then: @escaping (_ left: Set<UInt64>) -> Void) { (self.left, self.then) = (left, then) }

    func goOn() {
        timer?.cancel()
        timer = nil
        let then = then
        self.then = nil
        then?(left)
    }
}
