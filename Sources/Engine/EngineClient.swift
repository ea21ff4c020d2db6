// Client of Redis or Valkey, one server or a Cluster, for one loop. Commands have a patience, and failing servers are not asked.

import Reactor

/// Used on its loop only. It stays, with its connections, until `close`.
/// `@unchecked Sendable` because everything is touched on the loop only, which `assertOnLoop` checks.
public final class EngineClient: @unchecked Sendable {
    public let loop: EventLoop
    public let settings: EngineSettings
    /// Called when a server fails, and when that ends, unless the client is closed.
    public var onChange: ((EngineServer, EngineServerChange) -> Void)?

    /// False while all relevant breakers are open: commands fail at once.
    public private(set) var isOpen = true

    var limits: EngineLimits { settings.limits }
    let counted = EngineCounters()
    let space = ReadSpace()
    lazy var worker = LoopWorker(loop: loop)
    private(set) var nodes: [EngineServer: EngineNode] = [:] {
        didSet { primaryNodes = [] }
    }
    /// Nodes of the map's primaries, in its order.
    private var primaryNodes: [EngineNode?] = []
    private(set) var isClosed = false
    /// nil: unknown.
    var map: SlotMap? {
        didSet { primaryNodes = [] }
    }
    /// Calls that wait for the map.
    var held: [EngineCall] = []
    var lookUp = MapLookUp()
    /// Calls that wait for a retry.
    var waitingCount = 0
    private var lines: [Int64: PatienceLine<EngineCall>] = [:]
    private var turn = 0

    public init(loop: EventLoop, _ settings: EngineSettings) {
        precondition(!settings.servers.isEmpty, "no server is named")
        self.loop = loop
        self.settings = settings
    }

    /// Connects in advance.
    public func start() {
        loop.assertOnLoop()
        lookUpMap()
    }

    /// Sends a command at the end of this batch of events.
    /// - Parameters:
    ///   - patienceMilliseconds: nil: the settings'.
    ///   - late: called once after patience was over, with the final result, if the command was sent.
    ///   - then: called once on the loop, at the latest when patience is over. It may be called from within this call, so retry by a timer.
    public func send(
        _ command: EngineCommand, patienceMilliseconds: Int64? = nil, late: ((EngineReply) -> Void)? = nil,
        then: @escaping (EngineReply) -> Void
    ) {
        sendAll(
            EngineCommands([command]), patienceMilliseconds: patienceMilliseconds,
            late: late.map { late in { replies in late(replies[0]) } }, then: { replies in then(replies[0]) })
    }

    /// Sends commands of one slot on one connection, in their order. Redirected commands take those without a key behind them along, so
    /// WAIT keeps its meaning.
    /// - Parameter isUrgent: false: the commands may wait some milliseconds for others.
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

    /// Number of the connection to the key's server, unique in this client; nil: none. WAIT and the like depend on it.
    public func connection(forKey key: [UInt8]) -> UInt64? {
        loop.assertOnLoop()
        return map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectionNumber
    }

    /// Closes an established connection to the key's server: its name may lead to another by now.
    public func connectAnew(forKey key: [UInt8]) {
        loop.assertOnLoop()
        map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectAnew()
    }

    /// False also if unknown.
    public var isCluster: Bool { lookUp.isCluster }

    /// All calls end with `.failed(.closed)`.
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
        for line in lines.values { line.close { finish($0, with: .closed) } }
        lines = [:]
    }

    public var roundTripMicroseconds: Int64 { counted.figures.roundTrips.smoothedMicroseconds }

    public var figures: EngineFigures {
        loop.assertOnLoop()
        var figures = counted.figures
        figures.servers = nodes.count
        figures.serversWithOpenBreaker = nodes.values.count { !$0.breaker.isClosed }
        figures.commandsUnderWay = nodes.values.reduce(0) { $0 + $1.flightCount }
        return figures
    }

    func line(_ patience: Int64) -> PatienceLine<EngineCall> {
        if let line = lines[patience] { return line }
        // Callers use few different timeouts. Empty queues are removed, so that their number stays bounded.
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
        // The client's own commands are not counted.
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

    func node(_ server: EngineServer) -> EngineNode? {
        if let node = nodes[server] { return node }
        guard nodes.count < limits.servers, !isClosed else { return nil }
        let node = EngineNode(server, self)
        nodes[server] = node
        return node
    }

    /// - Parameter index: index in the map's primaries.
    func primaryNode(_ index: Int) -> EngineNode? {
        if index < primaryNodes.count, let node = primaryNodes[index] { return node }
        guard let primaries = map?.primaries, let node = node(primaries[index]) else { return nil }
        while primaryNodes.count < primaries.count { primaryNodes.append(nil) }
        primaryNodes[index] = node
        return node
    }

    func keepOnly(_ servers: Set<EngineServer>) {
        for (server, node) in nodes where !servers.contains(server) && node.isUnused {
            nodes[server] = nil
            let wasFailing = !node.breaker.isClosed
            node.close()
            if wasFailing { onChange?(server, .dropped) }
        }
    }

    /// A connected primary, in turn.
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
        onChange?(node.server, node.breaker.isClosed ? .recovered : .fails(node.lastFailure))
    }

    func judge() {
        guard !isClosed else { return }
        let servers = map?.primaries ?? settings.servers
        isOpen = servers.isEmpty || servers.contains { nodes[$0]?.breaker.isClosed ?? true }
    }
}
