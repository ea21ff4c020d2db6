// The shared level as one shard uses it: what is stored here goes to the engine, what is missing here is looked for there, and of all nodes that miss
// the same one asks the upstream. Nobody waits for the engine for longer than `share.timeout`.

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
    /// Who misses the same waits for the same look-up.
    private var underWay: [SearchName: SharedSearch] = [:]

    private struct SearchName: Hashable {
        /// Of the first place.
        let key: HashedKey
        let mayWait: Bool
    }

    /// Look-ups that the engine has not replied to.
    let patience: PatienceLine<SharedSearch>
    /// What is asked of the upstream for all nodes, by the key under which it will be stored here.
    var leases: [HashedKey: HeldLease] = [:]
    var renewal: LoopTimer?
    private var around: LoopTimer?
    /// Whether round trips to the engine take longer than `share.timeout`: then no miss looks there.
    public private(set) var isSlow = false
    private var probe: LoopTimer?
    /// What could not be shared lately, and until when (milliseconds of the loop): it is not looked for.
    private var unshareable: [ByteKey: Int64] = [:]

    /// Writes of this shard that are not in the log yet, by their numbers, and who waits for them.
    private var untold: Set<UInt64> = []
    private var lastTold: UInt64 = 0
    private var waiters: [ToldWaiter] = []

    /// What a record has beside its content, at most: its key and head.
    private static let overheadBytes = 256 << 10
    /// How much of that is remembered.
    static let leaseLimit = 4_096
    static let unshareableLimit = 4_096
    static let unshareableMilliseconds: Int64 = 2_000

    public init(_ node: FleetNode, on loop: EventLoop) {
        (self.node, self.loop) = (node, loop)
        sealer = FleetSealer(node.settings.secrets.first)
        var engine = node.settings.engine
        // A value is taken from its connection in one piece, which holds the loop.
        engine.limits.replyBytes = node.settings.contentLimitBytes + Self.overheadBytes
        client = EngineClient(loop: loop, engine)
        patience = PatienceLine(loop: loop, milliseconds: node.settings.timeout) { $0.giveUp() }
        keep = EngineWords("PX", String(node.settings.keep))
        leaseWords = EngineWords(String(decoding: node.name, as: UTF8.self), "NX", "GET", "PX", String(SharedSearch.leaseMilliseconds))
        renewalWords = EngineWords(String(decoding: node.name, as: UTF8.self), "XX", "PX", String(SharedSearch.leaseMilliseconds))
        client.onChange = { [unowned client, node] in node.note($0, $1, by: client) }
    }

    /// On its loop.
    public func start() {
        client.start()
        lookAround()
    }

    /// A Cluster's servers come and go, and nothing that is asked of the others tells of it.
    private func lookAround() {
        around = loop.schedule(after: .seconds(Self.aroundSeconds)) { [weak self] in
            guard let self else { return }
            client.refreshMap()
            node.tellOfServers(of: client)
            lookAround()
        }
    }

    private static let aroundSeconds = 30

    /// On its loop: whoever waits goes on.
    public func close() {
        client.close()
        renewal?.cancel()
        around?.cancel()
        probe?.cancel()
        for search in Array(underWay.values) { search.giveUp() }
        // One that rests until it looks again does so no more.
        underWay = [:]
        let left = waiters
        waiters = []
        for waiter in left { waiter.goOn() }
    }

    private var isBlind: Bool { node.sight.isBlind(at: Timestamp(milliseconds: loop.batchWallMilliseconds)) }

    public var engineFigures: EngineFigures { client.figures }
    public var servers: [EngineServerState] { client.servers }

    // MARK: Giving

    /// - Returns: nil where the value is no record that this node can use.
    func open(_ value: [UInt8], at place: SharedPlace, lying lies: RecordPlace) -> GivenRecord? {
        let secret = node.settings.secrets.all[place.secret]
        return GivenRecord(value, sealedBy: secret, at: lies.record.bytes, by: zstd, limit: client.settings.limits.replyBytes)
    }

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
        // What leads to variants is not yet what others wait for, nor counted beside its variant.
        let isResponse = item.metadata.withUnsafeBytes(StoredMetadata.kind) == .response
        func count(_ outcome: OfferOutcome) { if isResponse { self.count(outcome) } }
        let wallNow = loop.batchWallMilliseconds
        // Where the clock was set back it is not known what had been followed then.
        guard recency.requestTime.milliseconds <= wallNow,
            let placed = node.place(recency, wallNow: wallNow, now: loop.batchMilliseconds)
        else { return count(.unplaced) }
        var lease: HeldLease?
        if !leases.isEmpty {
            if isResponse { lease = leases.removeValue(forKey: HashedKey(item.key)) } else { leases[HashedKey(item.key)]?.isGiven = true }
        }
        let place = lease?.place ?? node.keys.place(of: node.settings.secrets.first.name(of: key))
        let record = SharedRecord(key: key, metadata: item.metadata, head: item.head, body: item.body)
        let given = GivenRecord(record, placed.version, fleetTime: placed.fleetTime).packed(by: zstd)
        let valueBytes = given.sealedBytes
        guard valueBytes < client.settings.limits.replyBytes else {
            if let lease { leaveAlone(item.key, lease) }
            return count(.tooLong)
        }
        var commands = EngineCommands(room: valueBytes + Self.commandBytes)
        commands.add(
            Words.set, place.record, valueBytes: valueBytes, { given.appendSealed(to: &$0, by: &sealer, at: place.record.bytes) }, keep)
        // Others find the response, or may ask: they are told both in one piece.
        if let lease, isOurs(lease) { commands.add(Words.unlink, place.lease) }
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience, isUrgent: false) { replies in
            if case .status = replies[0] { count(.sent) } else { count(.failed) }
        }
    }

    // MARK: What others have to know

    public func invalidated(_ mark: [UInt8], isDoubtful: Bool) {
        loop.assertOnLoop()
        lastTold += 1
        let number = lastTold
        untold.insert(number)
        node.tell(LogMessage(mark: mark, isSoft: isDoubtful)) { [self] in loop.execute { self.noteTold(number) } }
    }

    /// Whether a write is not in the log yet.
    public var isAwaited: Bool { !untold.isEmpty }

    /// Calls `then`, on the loop, once all that was changed here until now is in the log, or after `share.timeout`.
    public func whenTold(_ then: @escaping () -> Void) {
        guard isAwaited else { return then() }
        let waiter = ToldWaiter(untold, then)
        waiters.append(waiter)
        waiter.timer = loop.schedule(after: .milliseconds(Int(node.settings.timeout))) { [self] in
            waiters.removeAll { $0 === waiter }
            waiter.goOn()
        }
    }

    private func noteTold(_ number: UInt64) {
        untold.remove(number)
        for waiter in waiters { waiter.left.remove(number) }
        let ready = waiters.filter(\.left.isEmpty)
        waiters.removeAll(where: \.left.isEmpty)
        for waiter in ready { waiter.goOn() }
    }

    // MARK: What is asked for all

    /// Nobody waits for it.
    static let offerPatience: Int64 = 1_000

    enum Words {
        static let get = EngineWords("GET")
        static let set = EngineWords("SET")
        static let unlink = EngineWords("UNLINK")
        /// What lies in the place of a lease, and for how long.
        static let alone = EngineWords([FleetLevel.alone] + ["PX", String(FleetLevel.unshareableMilliseconds)].map { Array($0.utf8) })
    }

    /// How long records are kept.
    private let keep: EngineWords
    /// Who has a lease is told in the same breath.
    let leaseWords: EngineWords
    let renewalWords: EngineWords
    /// What two commands take beside their values, about: two keys with the fleet's name.
    static let commandBytes = 256

    private func count(_ outcome: OfferOutcome) { figures.offers[outcome, default: 0] += 1 }

    // MARK: Looking

    /// Why it is not worth while to look there at all: for the cost of a comparison; nil where it is.
    public func obstacle(for keys: TargetKeys) -> SharedObstacle? {
        guard client.isOpen else { return .failing }
        guard !isBlind else { return .blind }
        guard !isSlow else { return .slow }
        guard !unshareable.isEmpty, let end = unshareable[ByteKey(keys.own)] else { return nil }
        return end <= loop.batchMilliseconds ? nil : .unshareable
    }

    /// Looks for a response, stores here what may be taken, and tells whoever waits, on the loop: at the latest after `share.timeout`, or, where another
    /// node asks the upstream, after `wait`.
    /// - Parameter wait: milliseconds; nil: no other node is waited for, and none is to wait for this one.
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

    /// Where the engine is too slow it is asked by PING now and then, and by what is given to other nodes, for which nobody waits.
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

    /// Nobody joins it any more.
    func ended(_ search: SharedSearch) {
        let name = SearchName(key: search.key, mayWait: search.mayWait)
        if underWay[name] === search { underWay[name] = nil }
    }

    /// This node is to ask the upstream for all.
    /// - Parameters:
    ///   - place: where it lies in the engine.
    ///   - key: under which it will be stored here.
    func hold(_ place: RecordPlace, for key: HashedKey) {
        let now = loop.batchMilliseconds
        if leases.count >= Self.leaseLimit { leases = leases.filter { $0.value.end > now } }
        guard leases.count < Self.leaseLimit else { return giveBack(place) }
        leases[key] = HeldLease(place: place, end: now + SharedSearch.leaseMilliseconds, last: now + Self.renewingMilliseconds)
        keepLeases()
    }

    /// Nobody needs to wait for this node.
    func giveBack(_ place: RecordPlace) {
        var commands = EngineCommands()
        commands.add(Words.unlink, place.lease)
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { _ in }
    }

    /// What this node has asked the upstream for is over.
    /// - Parameters:
    ///   - key: under which it was to be stored here.
    ///   - isStored: it is. Where it was not given then, it cannot be shared.
    public func ended(_ key: [UInt8], isUnshareable: Bool, isStored: Bool = false) {
        loop.assertOnLoop()
        guard !leases.isEmpty, let lease = leases.removeValue(forKey: HashedKey(key)) else { return }
        if isUnshareable || (isStored && !lease.isGiven) { return leaveAlone(key, lease) }
        if isOurs(lease) { giveBack(lease.place) }
    }

    /// Everybody asks for himself for a while: else each would wait for the one before.
    private func leaveAlone(_ key: [UInt8], _ lease: HeldLease) {
        noteUnshareable(key)
        guard isOurs(lease) else { return }
        var commands = EngineCommands()
        commands.add(Words.set, lease.place.lease, Words.alone)
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { _ in }
    }

    /// Of one that has ended by itself another node may be the holder.
    private func isOurs(_ lease: HeldLease) -> Bool { lease.end > loop.batchMilliseconds }

    /// What lies in the place of a lease where the last response could not be shared: everybody asks.
    static let alone = [UInt8(ascii: "-")]

    func noteUnshareable(_ key: [UInt8]) {
        if unshareable.count >= Self.unshareableLimit { unshareable = [:] }
        unshareable[ByteKey(key)] = loop.batchMilliseconds + Self.unshareableMilliseconds
    }
}

/// Who waits for what the shared level has, on its loop.
public protocol SharedWaiter: AnyObject {
    /// Goes on.
    /// - Parameter refusal: why what was found last may not be taken.
    /// - Returns: whether somebody still waits for the response.
    func sharedEnded(_ outcome: SharedOutcome, _ refusal: SharedRefusal?) -> Bool

    /// Another node asks the upstream for the same, and is waited for.
    func sharedWaits()

    /// Something was stored after that.
    func sharedCameLate()
}

/// A response that waits for the log.
private final class ToldWaiter {
    var left: Set<UInt64>
    var timer: LoopTimer?
    private var then: (() -> Void)?

    init(_ left: Set<UInt64>, _ then: @escaping () -> Void) { (self.left, self.then) = (left, then) }

    /// Once.
    func goOn() {
        timer?.cancel()
        timer = nil
        let then = then
        self.then = nil
        then?()
    }
}
