// One server: its connection, which is re-established automatically, and its circuit breaker.

import Reactor

final class EngineNode {
    private enum Phase {
        case idle
        case preparing
        case connecting(NodeConnection, rest: [NodeAddress], NodeTLS?)
        case greeting(NodeConnection)
        case ready(NodeConnection)
        case resting
        case closed
    }

    let server: EngineServer
    private let client: EngineClient
    private var phase = Phase.idle
    private(set) var breaker: NodeBreaker
    private(set) var lastFailure = EngineFailure.unreachable
    private var waiting: [EngineCall] = []
    private var isPreparing = false
    /// Credentials for the connection in progress; nil to send no AUTH.
    private var credentials: EngineCredentials?
    /// Ends the preparation of a connection, or the pause after it.
    private var connectTimer: LoopTimer?
    private var probeTimer: LoopTimer?
    private var silenceTimer: LoopTimer?
    private var probes: UInt64 = 0
    private var isProbing = false
    /// Time when the circuit breaker last closed, and the interval of probes.
    private var closedAt: Int64?
    private var probeInterval: Int64 = 0
    /// Index of the address to try first.
    private var turn = 0

    /// Minimum age of a connection that is re-established at once after its end, in milliseconds.
    private static let steadyMilliseconds: Int64 = 1000
    /// Pause in milliseconds after a first failure; doubled with each further failure.
    private static let restMilliseconds: Int64 = 50
    /// If the circuit breaker opens again within this time, it counts as a relapse. In milliseconds.
    private static let relapseMilliseconds: Int64 = 5_000
    private static let longestProbeInterval: Int64 = 8_000

    init(_ server: EngineServer, _ client: EngineClient) {
        (self.server, self.client) = (server, client)
        breaker = NodeBreaker(failures: client.limits.failures)
    }

    private var loop: EventLoop { client.loop }
    private var limits: EngineLimits { client.limits }
    private var now: Int64 { loop.time.monotonicMilliseconds }

    var isReady: Bool { if case .ready = phase { breaker.isClosed } else { false } }
    /// Whether the connection is established, regardless of the circuit breaker.
    var isHandshakeDone: Bool { if case .ready = phase { true } else { false } }

    /// For tests: whether a connection is being established.
    var isConnecting: Bool {
        switch phase {
        case .preparing, .connecting, .greeting: true
        case .idle, .ready, .resting, .closed: false
        }
    }

    private var connection: NodeConnection? {
        switch phase {
        case .connecting(let connection, _, _), .greeting(let connection), .ready(let connection): connection
        case .idle, .preparing, .resting, .closed: nil
        }
    }

    var flightCount: Int { connection?.flightCount ?? 0 }
    var connectionNumber: UInt64? { if case .ready(let connection) = phase { connection.number } else { nil } }
    var isUnused: Bool { flightCount == 0 && waiting.isEmpty }

    func take(_ call: EngineCall) {
        guard breaker.isClosed else { return call.fail(.breakerOpen, at: self) }
        switch phase {
        case .ready(let connection): write(call, connection)
        case .idle, .preparing, .connecting, .greeting:
            guard waiting.count < limits.commandsUnderWay else { return call.fail(.queueFull, at: self) }
            waiting.append(call)
            connect()
        case .resting: call.fail(lastFailure, at: self)
        case .closed: call.fail(.closed, at: self)
        }
    }

    private func write(_ call: EngineCall, _ connection: NodeConnection) {
        // A call whose timeout has expired is not sent.
        guard !call.isExpired else { return call.fail(.timedOut, at: self) }
        guard connection.hasCapacity(commands: call.open.count * (call.isAsking ? 2 : 1), bytes: call.writtenBytes) else {
            return call.fail(.queueFull, at: self)
        }
        let times = NodeConnection.Times(milliseconds: now, microseconds: SystemTime.monotonicMicroseconds)
        call.noteSent(by: self, at: times.milliseconds)
        if !call.isAsking, let indexes = call.contiguousIndexes {
            connection.send(call.commands.bytes[...], for: call, indexes, isUrgent: call.isUrgent, at: times)
            return listenForSilence()
        }
        for index in call.open {
            let command = call.commands.entries[index]
            if call.isAsking, command.slot != nil { connection.send(Self.asking.bytes[...], for: ReplyClosure.none, at: times) }
            connection.send(
                call.commands.bytes(of: index), command.holdMilliseconds, for: call, index..<index + 1, isUrgent: call.isUrgent, at: times)
        }
        listenForSilence()
    }

    private static let asking = EngineCommand("ASKING")

    func noteReply(_ reply: EngineReply, to call: EngineCall) {
        if !call.isExpired, reply.failure == nil { breaker.noteReply() }
    }

    func settle(_ call: EngineCall) { client.settle(call, from: self) }

    private func releaseWaiting(_ use: (EngineCall) -> Void) {
        let released = waiting
        waiting = []
        released.forEach(use)
    }

    func noteTimeOut(sent: Int64) {
        if breaker.noteTimeOut(sent: sent, at: now) { opened(.timedOut) }
    }

    func connect() {
        guard case .idle = phase else { return }
        phase = .preparing
        connectTimer?.cancel()
        connectTimer = loop.schedule(after: .milliseconds(limits.connectMilliseconds)) { [self] in giveUpConnecting() }
        prepare()
    }

    private func giveUpConnecting() {
        turn += 1
        if case .connecting(let connection, _, let tls) = phase { phase = .connecting(connection, rest: [], tls) }
        // The server has accepted the connection but does not reply.
        if case .greeting(let connection) = phase { return connection.end(.timedOut) }
        if let connection { return connection.end(connection.isSecuring ? .noTLS : .unreachable) }
        if case .preparing = phase { fail(.unreachable) }
    }

    /// Prepares a connection. A numeric address, or a Unix socket, without TLS needs no lookup; anything else is prepared off the loop.
    private func prepare() {
        let (server, settings) = (server, client.settings)
        if settings.tls == nil, settings.passwordFile == nil, let addresses = NodeAddress.find(server, isNumeric: true) {
            return begin(addresses, nil)
        }
        guard !isPreparing else { return }
        isPreparing = true
        let loop = loop
        let reference = LoopReference(self)
        client.worker.perform(0) {
            Prepared(
                addresses: NodeAddress.find(server, isNumeric: false) ?? [], tls: settings.tls.map { NodeTLS($0, for: server) },
                credentials: settings.passwordFile.map { EngineCredentials(file: $0, user: settings.username) })
        } then: { prepared in
            loop.assertOnLoop()
            reference.take()?.takePrepared(prepared)
        }
    }

    private struct Prepared: Sendable {
        let addresses: [NodeAddress]
        /// TLS state; nil without TLS. The inner value is nil if a file cannot be used.
        let tls: NodeTLS??
        /// Credentials; nil without a password. The inner value is nil if the file cannot be used.
        let credentials: EngineCredentials??
    }

    private func takePrepared(_ prepared: Prepared) {
        isPreparing = false
        guard case .preparing = phase else { return }
        if case .some(nil) = prepared.tls { return fail(.untrusted) }
        if case .some(nil) = prepared.credentials { return fail(.denied) }
        credentials = prepared.credentials ?? nil
        begin(prepared.addresses, prepared.tls ?? nil)
    }

    private func begin(_ addresses: [NodeAddress], _ tls: NodeTLS?) {
        let start = addresses.isEmpty ? 0 : turn % addresses.count
        tryEach(Array(addresses[start...] + addresses[..<start]), tls)
    }

    private func tryEach(_ addresses: [NodeAddress], _ tls: NodeTLS?) {
        var rest = addresses[...]
        while let address = rest.popFirst() {
            guard let socket = address.connect() else { continue }
            let connection = NodeConnection(
                NodeStream(socket, tls), loop: loop, limits: limits, space: client.space, counted: client.counted, owner: self)
            phase = .connecting(connection, rest: Array(rest), tls)
            return
        }
        fail(.unreachable)
    }

    /// Called when the connection is established and the TLS handshake is complete.
    func connectionIsUp(_ connection: NodeConnection) {
        phase = .greeting(connection)
        guard let credentials else { return introduce(connection) }
        self.credentials = nil
        let words = [Array("AUTH".utf8)] + (credentials.user.map { [$0] } ?? []) + [credentials.password]
        ask(connection, EngineCommand(words)) { [self] reply in
            switch reply {
            case .status: introduce(connection)
            case .failed: break
            case .error(let text): connection.end(ErrorMeaning.ofPassword(text, from: server))
            default: connection.end(.protocolError)
            }
        }
    }

    private func introduce(_ connection: NodeConnection) {
        // A refused CLIENT SETNAME is ignored.
        if let name = client.settings.clientName { ask(connection, EngineCommand("CLIENT", "SETNAME", name)) { _ in } }
        guard client.settings.database > 0 else { return greeted(connection) }
        ask(connection, EngineCommand("SELECT", String(client.settings.database))) { [self] reply in
            switch reply {
            case .status: greeted(connection)
            case .failed: break
            default: connection.end(.noDatabase)
            }
        }
    }

    private func greeted(_ connection: NodeConnection) {
        connectTimer?.cancel()
        phase = .ready(connection)
        guard breaker.isClosed else { return probe() }
        isUp(connection)
    }

    private func isUp(_ connection: NodeConnection) {
        releaseWaiting { write($0, connection) }
        client.nodeIsUp(self)
    }

    func connectAnew() {
        guard case .ready(let connection) = phase, now - connection.upSince >= Self.steadyMilliseconds else { return }
        connection.end(.readOnly)
    }

    private func ask(_ connection: NodeConnection, _ command: EngineCommand, _ then: @escaping (EngineReply) -> Void) {
        let times = NodeConnection.Times(milliseconds: now, microseconds: SystemTime.monotonicMicroseconds)
        connection.send(command.bytes[...], for: ReplyClosure(then), at: times)
    }

    /// Handles the end of a connection. Its outstanding commands fail after this function has returned.
    func connection(_ connection: NodeConnection, endedBy failure: EngineFailure, hadFlights: Bool) {
        isProbing = false
        silenceTimer?.cancel()
        silenceTimer = nil
        switch phase {
        case .connecting(_, let rest, let tls):
            if !rest.isEmpty, failure == .unreachable || failure == .noTLS { return tryEach(rest, tls) }
            fail(failure)
        case .greeting: fail(failure == .connectionLost ? .unreachable : failure)
        case .ready:
            client.counted.figures.connectionsLost += 1
            let wasSteady = now - connection.upSince >= Self.steadyMilliseconds
            guard wasSteady, breaker.isClosed else { return fail(failure) }
            phase = .idle
            // The server may close an unused connection; that does not count as a failure.
            if hadFlights || failure != .connectionLost, breaker.noteFailure(at: now) { opened(failure) }
            connect()
            client.nodeIsLost(self)
        case .idle, .preparing, .resting, .closed: break
        }
    }

    private func fail(_ failure: EngineFailure) {
        connectTimer?.cancel()
        lastFailure = failure
        phase = .resting
        let isOpened = [.denied, .untrusted, .noDatabase].contains(failure) ? breaker.open() : breaker.noteFailure(at: now)
        if isOpened { opened(failure) }
        if breaker.isClosed { rest() }
        let cause = breaker.isClosed ? failure : .breakerOpen
        releaseWaiting { $0.fail(cause, at: self) }
        client.nodeIsLost(self)
    }

    private func rest() {
        let delay = min(limits.probeMilliseconds, Self.restMilliseconds << Int64(min(8, breaker.failuresInRow)))
        connectTimer = loop.schedule(after: .milliseconds(delay)) { [self] in
            guard case .resting = phase else { return }
            phase = .idle
            connect()
        }
    }

    private func opened(_ failure: EngineFailure) {
        lastFailure = failure
        // After a relapse, probes are sent less often.
        let hasRelapsed = closedAt.map { now - $0 < Self.relapseMilliseconds } ?? false
        probeInterval =
            hasRelapsed ? min(probeInterval * 2, max(limits.probeMilliseconds, Self.longestProbeInterval)) : limits.probeMilliseconds
        scheduleProbe()
        client.breakerChanged(of: self)
        releaseWaiting { $0.fail(.breakerOpen, at: self) }
    }

    private func listenForSilence() {
        guard silenceTimer == nil else { return }
        scheduleSilence(limits.silenceMilliseconds)
    }

    private func scheduleSilence(_ wait: Int64) {
        silenceTimer = loop.schedule(after: .milliseconds(wait)) { [self] in
            silenceTimer = nil
            judgeSilence()
        }
    }

    private func judgeSilence() {
        guard case .ready(let connection) = phase, let oldest = connection.oldest else { return }
        let quiet = now - max(oldest.sent.milliseconds, connection.lastReceived) - oldest.holdMilliseconds
        if quiet >= limits.silenceMilliseconds, breaker.open() { opened(.timedOut) }
        if quiet >= limits.deadMilliseconds { return connection.end(.timedOut) }
        let wait = (quiet < limits.silenceMilliseconds ? limits.silenceMilliseconds : limits.deadMilliseconds) - quiet
        scheduleSilence(max(1, wait))
    }

    private func scheduleProbe() {
        probeTimer?.cancel()
        probeTimer = loop.schedule(after: .milliseconds(probeInterval)) { [self] in
            guard !breaker.isClosed else { return }
            scheduleProbe()
            probe()
            client.nodeIsLost(self)
        }
    }

    private func probe() {
        switch phase {
        case .ready(let connection):
            guard !isProbing, connection.hasCapacity(commands: 1, bytes: 64) else { return }
            isProbing = true
            probes += 1
            let (sent, token) = (now, Array("cistern-\(probes)".utf8))
            ask(connection, EngineCommand([Array("PING".utf8), token])) { [self] in takeProbe($0, token, sent, connection) }
            listenForSilence()
        case .resting:
            phase = .idle
            connect()
        case .idle: connect()
        case .preparing, .connecting, .greeting, .closed: break
        }
    }

    private func takeProbe(_ reply: EngineReply, _ token: [UInt8], _ sent: Int64, _ connection: NodeConnection) {
        isProbing = false
        switch reply {
        case .failed: return
        // The user may lack permission for the probe but not for other commands.
        case .error(let text):
            guard ErrorMeaning.of(text, from: server) != .failure(.loading) else { return }
        case .bytes(token): break
        default: return connection.end(.protocolError)
        }
        guard now - sent < limits.silenceMilliseconds, breaker.noteProbe() else { return }
        closedAt = now
        probeTimer?.cancel()
        client.breakerChanged(of: self)
        isUp(connection)
    }

    func close() {
        for timer in [connectTimer, probeTimer, silenceTimer] { timer?.cancel() }
        let connection = connection
        phase = .closed
        connection?.end(.closed)
        releaseWaiting { $0.fail(.closed, at: self) }
    }
}

/// `@unchecked Sendable` because other threads only pass it back to the loop.
private final class LoopReference: @unchecked Sendable {
    private var node: EngineNode?
    init(_ node: EngineNode) { self.node = node }

    /// Called once, on the loop, so that no other thread releases the node.
    func take() -> EngineNode? {
        defer { node = nil }
        return node
    }
}
