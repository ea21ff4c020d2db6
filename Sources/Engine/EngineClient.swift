// Client of Redis or Valkey (one server or a Cluster) for one loop. Commands have a timeout, and failing servers are not contacted.

import Reactor

/// Used on its loop only. The client and its connections exist until `close`.
/// `@unchecked Sendable` because all state is used on the loop only, which `assertOnLoop` checks.
public final class EngineClient: @unchecked Sendable {
    public let loop: EventLoop
    public let settings: EngineSettings
    /// Called when a server begins or ceases to fail, unless the client is closed.
    public var onChange: ((EngineServer, EngineServerChange) -> Void)?

    /// False while all relevant circuit breakers are open, so that commands fail at once.
    public private(set) var isOpen = true

    var limits: EngineLimits { settings.limits }
    let counted = EngineCounters()
    let space = ReadSpace()
    lazy var worker = LoopWorker(loop: loop)
    private(set) var nodes: [EngineServer: EngineNode] = [:] {
        didSet { primaryNodes = [] }
    }
    /// Nodes of the map's primaries, in the map's order.
    private var primaryNodes: [EngineNode?] = []
    private(set) var isClosed = false
    /// The slot map; nil if unknown.
    var map: SlotMap? {
        didSet { primaryNodes = [] }
    }
    /// Calls that wait for the slot map.
    var held: [EngineCall] = []
    var lookUp = MapLookUp()
    /// Number of calls that wait for a retry.
    var waitingCount = 0
    private var lines: [Int64: PatienceLine<EngineCall>] = [:]
    private var turn = 0

    public init(loop: EventLoop, _ settings: EngineSettings) {
        precondition(!settings.servers.isEmpty, "no server is configured")
        self.loop = loop
        self.settings = settings
    }

    /// Connects before the first command.
    public func start() {
        loop.assertOnLoop()
        lookUpMap()
    }

    /// Sends a command at the end of this batch of events.
    /// - Parameters:
    ///   - patienceMilliseconds: timeout; nil for the configured one.
    ///   - late: called once after a timeout, with the final result, if the command was sent.
    ///   - then: called once on the loop, at the latest after the timeout. It may be called during this call, so retries must use a timer.
    public func send(
        _ command: EngineCommand, patienceMilliseconds: Int64? = nil, late: ((EngineReply) -> Void)? = nil,
        then: @escaping (EngineReply) -> Void
    ) {
        sendAll(
            EngineCommands([command]), patienceMilliseconds: patienceMilliseconds,
            late: late.map { late in { replies in late(replies[0]) } }, then: { replies in then(replies[0]) })
    }

    /// Sends commands of one slot on one connection, in order. If a command is redirected, the commands without a key after it are sent to
    /// the same server, so that WAIT refers to it.
    /// - Parameter isUrgent: if false, the commands may wait some milliseconds for others.
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

    /// Number of the connection to the key's server, unique in this client; nil if there is none. Needed for commands that refer to a
    /// connection, such as WAIT.
    public func connection(forKey key: [UInt8]) -> UInt64? {
        loop.assertOnLoop()
        return map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectionNumber
    }

    /// Closes an established connection to the key's server, because its name may lead to another server by now.
    public func connectAnew(forKey key: [UInt8]) {
        loop.assertOnLoop()
        map?.owner(of: KeySlot.of(key)).flatMap { nodes[$0] }?.connectAnew()
    }

    /// Whether a Cluster is used. False also while that is unknown.
    public var isCluster: Bool { lookUp.isCluster }

    /// Closes the client. All calls end with `.failed(.closed)`.
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
        // Callers use few different timeouts. Empty queues are removed, so that their number is bounded.
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

    /// Returns a connected primary; each call returns the next one.
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
