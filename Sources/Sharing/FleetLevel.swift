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
    var renewal: LoopTimer?
    /// Look-ups that wait for another node's lease.
    var waitingForNodes = 0
    private var around: LoopTimer?
    /// Whether round trips to the engine take longer than `share.timeout`: then no miss looks there.
    public private(set) var isSlow = false
    private var probe: LoopTimer?

    /// Writes of this shard that are not in the log yet, by their numbers, and who waits for them.
    private var untold: Set<UInt64> = []
    public private(set) var lastTold: UInt64 = 0
    /// The last of those that were given up: they come into the log later.
    private var lastUntold: UInt64 = 0
    private var waiters: [ToldWaiter] = []

    /// What a record has beside its content, at most: its key and head.
    private static let overheadBytes = 256 << 10

    public init(_ node: FleetNode, on loop: EventLoop) {
        (self.node, self.loop) = (node, loop)
        sealer = FleetSealer(node.settings.secrets.first)
        var engine = node.settings.engine
        // A value is taken from its connection in one piece, which holds the loop.
        engine.limits.replyBytes = node.settings.contentLimitBytes + Self.overheadBytes
        client = EngineClient(loop: loop, engine)
        patience = PatienceLine(loop: loop, milliseconds: node.settings.timeout) { $0.giveUp() }
        keep = EngineWords("PX", String(node.settings.keep))
        leaseWords = EngineWords(String(decoding: node.name, as: UTF8.self), "NX", "GET", "PX", String(LeaseTimes.expiry))
        renewalWords = EngineWords(String(decoding: node.name, as: UTF8.self), "XX", "PX", String(LeaseTimes.expiry))
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
        // Others find the response, or may ask: they are told both in one piece.
        if isRemoved { commands.add(Words.unlink, place.lease) }
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience, isUrgent: false) { replies in
            if case .status = replies[0] { count(.sent) } else { count(.failed) }
        }
    }

    // MARK: What others have to know

    public func invalidated(_ marks: [[UInt8]], isDoubtful: Bool) {
        loop.assertOnLoop()
        lastTold += 1
        let number = lastTold
        untold.insert(number)
        node.tell(LogMessage(of: marks, isSoft: isDoubtful)) { [self] isTold in loop.execute { self.noteTold(number, isTold) } }
    }

    /// Whether a write is not in the log yet.
    public var isAwaited: Bool { !untold.isEmpty }

    /// Waits until all that was changed here until now is in the log, for `share.timeout` at most.
    /// - Parameters:
    ///   - former: `lastTold` before the change.
    ///   - then: called on the loop; told whether the changes since are in the log.
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

    // MARK: What is asked for all

    /// Nobody waits for it.
    static let offerPatience: Int64 = 1_000

    enum Words {
        static let get = EngineWords("GET")
        static let set = EngineWords("SET")
        static let unlink = EngineWords("UNLINK")
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
        return isForEachNode(keys.own) ? .unshareable : nil
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
    private var then: ((_ left: Set<UInt64>) -> Void)?

    init(_ left: Set<UInt64>, _ then: @escaping (_ left: Set<UInt64>) -> Void) { (self.left, self.then) = (left, then) }

    /// Once.
    func goOn() {
        timer?.cancel()
        timer = nil
        let then = then
        self.then = nil
        then?(left)
    }
}
