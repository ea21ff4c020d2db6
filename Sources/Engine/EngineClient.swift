// Asks Redis or Valkey, one server or a Cluster, from one loop. It knows where what is, waits no longer than it was told, and asks nobody who has failed
// lately. What commands mean is its callers' matter.

import Reactor

/// All of it on its loop. `close` it, or it stays, with its connections: what it is made of refers to each other until then.
///
/// `@unchecked Sendable` because everything is touched on the loop only, which `assertOnLoop` holds callers to.
public final class EngineClient: @unchecked Sendable {
    public let loop: EventLoop
    public let settings: EngineSettings
    /// Told when a server is asked no more, and when that is over: of each beginning the end as well, unless the client is closed.
    public var onChange: ((EngineServer, EngineServerChange) -> Void)?

    /// Whether any server would be asked: false where all breakers that count are open. Then asking is refused at once.
    public private(set) var isOpen = true

    var limits: EngineLimits { settings.limits }
    let counted = Counted()
    let space = ReadSpace()
    lazy var worker = LoopWorker(loop: loop)
    private(set) var nodes: [EngineServer: EngineNode] = [:] {
        didSet { primaryNodes = [] }
    }
    /// Those of the map's primaries that were asked, in its order: nobody is looked for by his name each time.
    private var primaryNodes: [EngineNode?] = []
    private(set) var isClosed = false
    /// nil until it is known whether there is a Cluster.
    var map: SlotMap? {
        didSet { primaryNodes = [] }
    }
    /// What waits for the map.
    var held: [EngineCall] = []
    var lookUp = MapLookUp()
    /// Calls that are sent again a little later.
    var waitingCount = 0
    private var lines: [Int64: PatienceLine<EngineCall>] = [:]
    private var turn = 0

    /// - Parameter settings: with one server at least.
    public init(loop: EventLoop, _ settings: EngineSettings) {
        precondition(!settings.servers.isEmpty, "no server is named")
        self.loop = loop
        self.settings = settings
    }

    /// Connects, so that the first to want something need not wait for that. Without it the first command does so.
    public func start() {
        loop.assertOnLoop()
        lookUpMap()
    }

    // MARK: Asking

    /// Sends a command, with all others of this batch of events.
    /// - Parameters:
    ///   - patienceMilliseconds: nil: the settings'.
    ///   - late: once where patience was over first, with what came of it then, which may be that nothing did; not where it was never taken up.
    ///   - then: once, on the loop, at the latest when patience is over; from within this call where nothing is sent, so who asks again
    ///     after a failure does so by a timer.
    public func send(
        _ command: EngineCommand, patienceMilliseconds: Int64? = nil, late: ((EngineReply) -> Void)? = nil,
        then: @escaping (EngineReply) -> Void
    ) {
        sendAll(
            EngineCommands([command]), patienceMilliseconds: patienceMilliseconds,
            late: late.map { late in { replies in late(replies[0]) } }, then: { replies in then(replies[0]) })
    }

    /// Sends commands of one slot in one piece, on one connection, in their order. Replies have the same order. Where one of them is another server's
    /// those without a key that come behind it go along, so WAIT means what was before it.
    /// - Parameter isUrgent: false where nobody waits for the replies: then they may go out with the next commands of others, some milliseconds later.
    public func sendAll(
        _ commands: EngineCommands, patienceMilliseconds: Int64? = nil, isUrgent: Bool = true, late: (([EngineReply]) -> Void)? = nil,
        then: @escaping ([EngineReply]) -> Void
    ) {
        loop.assertOnLoop()
        guard commands.count > 0 else { return then([]) }
        counted.figures.commands += UInt64(commands.count)
        guard !isClosed, isOpen else { return refuse(commands.count, isClosed ? .closed : .breakerOpen, then) }
        let patience = max(0, patienceMilliseconds ?? settings.patienceMilliseconds)
        let now = loop.time.monotonicMilliseconds
        let call = EngineCall(commands, deadline: now + patience, isUrgent: isUrgent, late: late, then: then)
        route(call)
        if !call.isFinished { call.wait(in: line(patience), since: now) }
    }

    public func sendAll(
        _ commands: [EngineCommand], patienceMilliseconds: Int64? = nil, late: (([EngineReply]) -> Void)? = nil,
        then: @escaping ([EngineReply]) -> Void
    ) { sendAll(EngineCommands(commands), patienceMilliseconds: patienceMilliseconds, late: late, then: then) }

    private func refuse(_ count: Int, _ failure: EngineFailure, _ then: ([EngineReply]) -> Void) {
        for _ in 0..<count { counted.noteFailure(failure) }
        then([EngineReply](repeating: .failed(failure), count: count))
    }

    /// Whether the server that has the key would be asked now.
    public func isOpen(forKey key: [UInt8]) -> Bool {
        guard isOpen else { return false }
        guard let server = map?.owner(of: KeySlot.of(key)), let node = nodes[server] else { return true }
        return node.breaker.isClosed
    }

    /// The connection to the server that has the key: each new one of this client has another number. What the engine keeps by connection (WAIT) or by server is
    /// another's once it has changed. nil where there is none.
    public func connection(forKey key: [UInt8]) -> UInt64? {
        loop.assertOnLoop()
        return map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectionNumber
    }

    /// Ends the connection to the server that has the key, where it has stood for a while: its name may lead to another by now.
    public func connectAnew(forKey key: [UInt8]) {
        loop.assertOnLoop()
        map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectAnew()
    }

    /// Whether it is known where what is.
    public var isConnected: Bool { map != nil }

    /// Whether the servers say that they are a Cluster; false where that is not known.
    public var isCluster: Bool { lookUp.isCluster }

    /// Ends all connections; who waits gets `.failed(.closed)`.
    public func close() {
        loop.assertOnLoop()
        guard !isClosed else { return }
        isClosed = true
        isOpen = false
        lookUp.timer?.cancel()
        let waiting = held
        held = []
        for call in waiting { finish(call, with: .closed) }
        for node in nodes.values { node.close() }
        nodes = [:]
        // What waits to be sent again.
        for line in lines.values { line.close { finish($0, with: .closed) } }
        lines = [:]
    }

    /// Smoothed round trip to its servers, in microseconds.
    public var roundTripMicroseconds: Int64 { counted.figures.roundTrips.smoothedMicroseconds }

    public var figures: EngineFigures {
        loop.assertOnLoop()
        var figures = counted.figures
        figures.servers = nodes.count
        figures.serversWithOpenBreaker = nodes.values.count { !$0.breaker.isClosed }
        figures.commandsUnderWay = nodes.values.reduce(0) { $0 + $1.flightCount }
        return figures
    }

    // MARK: Patience

    func line(_ patience: Int64) -> PatienceLine<EngineCall> {
        if let line = lines[patience] { return line }
        // Callers have a few patiences; one who has a new one each time does not fill the memory.
        if lines.count >= 64 { lines = lines.filter { !$0.value.isEmpty } }
        let line = PatienceLine<EngineCall>(loop: loop, milliseconds: patience) { [self] in expire($0) }
        lines[patience] = line
        return line
    }

    private func expire(_ call: EngineCall) {
        if call.pinned == nil { for _ in call.open { counted.noteFailure(.timedOut) } }
        call.expire()
    }

    func finish(_ call: EngineCall, with failure: EngineFailure) {
        call.fill(failure)
        finish(call)
    }

    func finish(_ call: EngineCall) {
        guard !call.isFinished else { return }
        // Our own are nobody's commands.
        if call.pinned == nil {
            for reply in call.replies {
                switch reply {
                case .failed(let failure): if !call.isExpired { counted.noteFailure(failure) }
                default: if call.isExpired { counted.figures.lateReplies += 1 }
                }
            }
        }
        call.finish()
    }

    // MARK: Servers

    /// nil: there are too many.
    func node(_ server: EngineServer) -> EngineNode? {
        if let node = nodes[server] { return node }
        guard nodes.count < limits.servers, !isClosed else { return nil }
        let node = EngineNode(server, self)
        nodes[server] = node
        return node
    }

    /// - Parameter place: in the map's primaries.
    func primaryNode(_ place: Int) -> EngineNode? {
        if place < primaryNodes.count, let node = primaryNodes[place] { return node }
        guard let primaries = map?.primaries, let node = node(primaries[place]) else { return nil }
        while primaryNodes.count < primaries.count { primaryNodes.append(nil) }
        primaryNodes[place] = node
        return node
    }

    /// Those that are in use no more go.
    func keepOnly(_ servers: Set<EngineServer>) {
        for (server, node) in nodes where !servers.contains(server) && node.isUnused {
            nodes[server] = nil
            let wasFailing = !node.breaker.isClosed
            node.close()
            if wasFailing { onChange?(server, .dropped) }
        }
    }

    /// Any primary for what has no key: one that is up, in turn.
    func anyServer() -> EngineServer? {
        guard let primaries = map?.primaries, !primaries.isEmpty else { return nil }
        turn &+= 1
        for step in 0..<primaries.count {
            let server = primaries[(turn + step) % primaries.count]
            if nodes[server]?.isReady == true { return server }
        }
        return primaries[turn % primaries.count]
    }

    func breakerChanged(of node: EngineNode) {
        judge()
        onChange?(node.server, node.breaker.isClosed ? .isWell : .fails(node.lastFailure))
    }

    func judge() {
        guard !isClosed else { return }
        let servers = map?.primaries ?? settings.servers
        isOpen = servers.isEmpty || servers.contains { nodes[$0]?.breaker.isClosed ?? true }
    }
}
