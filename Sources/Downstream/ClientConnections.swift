// All client connections of one shard: their shared buffers, timeouts, counters and graceful end.

import Figures
import HTTP2
import HTTPCore
import Reactor

extension Figures {
    /// Updates the number of active requests when a connection or stream changes its exchange.
    mutating func followExchange(from former: (any ClientExchange)?, to exchange: (any ClientExchange)?) {
        if let former, former.isRequest { self[.requestsInFlight] -= 1 }
        if let exchange, exchange.isRequest { self[.requestsInFlight] += 1 }
    }
}

/// The connection table of a shard. Used on its event loop only.
public final class ClientConnections {
    public let loop: EventLoop
    public private(set) var settings: DownstreamSettings
    let budget: ConnectionBudget
    public var counters = Figures()
    /// Residency of borrowed content; nil if all of it is in memory.
    public var contentMemory: (any ContentMemory)?
    /// The shard's TLS state; nil if no listener uses TLS.
    public var tls: ServerTLS?

    /// Receive buffer of all connections. A connection copies bytes that it cannot use at once.
    let readBuffer: UnsafeMutableBufferPointer<UInt8>
    /// Buffer in which a small response is assembled, to be sent with one call.
    let writeBuffer: UnsafeMutableBufferPointer<UInt8>
    /// Buffer for the frames that an HTTP/2 connection writes in one turn. Allocated at first use.
    var frameBuffer: UnsafeMutableRawBufferPointer {
        if let frames { return frames }
        let made = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.frameBufferBytes, alignment: 16)
        frames = made
        return made
    }
    private var frames: UnsafeMutableRawBufferPointer?
    /// Milliseconds of the loop's clock at the last sweep or accept. Precise enough for timeouts of seconds, and read without a system
    /// call.
    private var coarseNow: Int64
    /// `settings.keepAliveTimeout` and `settings.writeTimeout` plus the sweep interval, in milliseconds. Cached because every response
    /// needs them.
    private var keepAliveMilliseconds: Int64
    private var writeMilliseconds: Int64
    private(set) var isDraining = false
    private var byDescriptor: [(any AcceptedConnection)?] = []
    private var whenEmpty: (() -> Void)?
    /// Listeners that have stopped accepting until other connections end.
    private var paused: [Listener] = []
    /// Connections with output to be sent at the end of the batch of events.
    var pushing: [any PushingConnection] = []
    /// Connections of the batch that is being sent.
    var pushed: [any PushingConnection] = []

    /// Memory of small sent responses, reused for the next ones, because allocating such sizes is slow.
    private var spareOutput: [[UInt8]] = []
    private static let spareLimit = 64

    static let readBytes = 64 * 1024
    static let writeBytes = 16 * 1024
    static let frameBufferBytes = 64 * 1024
    private static let sweepInterval = Duration.milliseconds(500)
    /// Maximum time for which a draining idle connection stays open. If its client sends a request within this time, the response
    /// announces the end and no request is lost. Other clients see a closed idle connection, which may happen at any time.
    public static let drainPatience = Duration.seconds(1)
    /// Maximum number of descriptors that a sweep visits, and of connections that it ends, in one round of the loop.
    private static let sweepLimit = 4_096
    private static let endLimit = 32

    /// - Parameter budget: the budget that all tables share; nil for a separate one.
    public init(loop: EventLoop, settings: DownstreamSettings, budget: ConnectionBudget? = nil) {
        self.loop = loop
        self.budget = budget ?? ConnectionBudget(settings)
        self.settings = settings
        (keepAliveMilliseconds, writeMilliseconds) = Self.milliseconds(settings)
        readBuffer = .allocate(capacity: Self.readBytes)
        writeBuffer = .allocate(capacity: Self.writeBytes)
        coarseNow = loop.time.monotonicMilliseconds
    }

    private static func milliseconds(_ settings: DownstreamSettings) -> (keepAlive: Int64, write: Int64) {
        ((settings.keepAliveTimeout + sweepInterval).wholeMilliseconds, (settings.writeTimeout + sweepInterval).wholeMilliseconds)
    }

    /// Applies settings to new connections, and to new requests on open connections.
    public func use(_ settings: DownstreamSettings) {
        loop.assertOnLoop()
        self.settings = settings
        (keepAliveMilliseconds, writeMilliseconds) = Self.milliseconds(settings)
    }

    deinit {
        readBuffer.deallocate()
        writeBuffer.deallocate()
        frames?.deallocate()
    }

    /// Starts the timeouts. Must be called on the loop. The loop's timers retain this table until the loop ends, because a weak reference
    /// would slow down every use of the table.
    public func start() {
        coarseNow = loop.time.monotonicMilliseconds
        budget.enter(self)
        loop.schedule(after: Self.sweepInterval) { self.sweep() }
    }

    /// Adds an accepted socket. The caller has reserved the connection in the budget.
    func add(_ socket: consuming AcceptedSocket) {
        loop.assertOnLoop()
        coarseNow = loop.time.monotonicMilliseconds
        counters[.connectionsAccepted] += 1
        counters[.connectionsOpen] += 1
        enter(socket)
    }

    /// Starts the next phase of a connection.
    func enter(_ socket: consuming AcceptedSocket) {
        switch socket.listener.settings.phase(after: socket.phase, chosen: socket.chosen) {
        case .proxyHeader:
            let phase = ProxyHeaderPhase(socket, table: self)
            put(phase)
            phase.start()
        case .choice:
            let choice = ProtocolChoice(socket, table: self)
            put(choice)
            choice.start()
        case .handshake:
            guard let tls, let own = tls.accept(socket.transport.descriptor) else { return discard(socket) }
            let handshake = TLSHandshake(socket, own, tls, table: self)
            put(handshake)
            handshake.start()
        case .http1:
            let (received, refusal) = (socket.received, socket.refusal)
            let connection = ClientConnection(socket, table: self)
            put(connection)
            connection.start(with: received, refusing: refusal)
            if connection.listener.isRetired { connection.drain() }
        case .http2:
            let received = socket.received
            guard let session = try? HTTP2Session(.server, settings.http2.session(settings.requestLimits)) else {
                let connection = ClientConnection(socket, table: self)
                put(connection)
                return connection.closeNow()
            }
            let connection = HTTP2Connection(socket, session, table: self)
            put(connection)
            connection.start(with: received)
            if isDraining || connection.listener.isRetired { connection.drain() }
        }
    }

    /// Closes a socket that no phase can use.
    private func discard(_ socket: consuming AcceptedSocket) {
        if connection(socket.transport.descriptor) != nil { return remove(socket.transport.descriptor) }
        budget.giveBack(socket.peer)
        counters[.connectionsOpen] -= 1
    }

    /// Adds `connection` to the table as the owner of its socket.
    private func put(_ connection: any AcceptedConnection) {
        let index = Int(connection.descriptor)
        if index >= byDescriptor.count {
            byDescriptor += [(any AcceptedConnection)?](repeating: nil, count: index + 256 - byDescriptor.count)
        }
        let isFirst = byDescriptor[index] == nil
        byDescriptor[index] = connection
        if isFirst { loop.add(connection.descriptor, .readable, connection) } else { loop.handOver(connection.descriptor, to: connection) }
    }

    func remove(_ descriptor: Int32) {
        loop.remove(descriptor)
        budget.giveBack(byDescriptor[Int(descriptor)]?.peer)
        byDescriptor[Int(descriptor)] = nil
        counters[.connectionsOpen] -= 1
        if counters[.connectionsOpen] == 0, let whenEmpty {
            self.whenEmpty = nil
            whenEmpty()
        }
    }

    /// Ends all connections gracefully. The next response on a persistent connection announces the end. A connection without a request is
    /// closed after `drainPatience`. `then` is called once, when all connections have ended or all have been ended at `deadline`.
    public func drain(deadline: Duration, then: @escaping () -> Void) {
        beginToDrain()
        guard counters[.connectionsOpen] > 0 else { return then() }
        whenEmpty = then
        loop.schedule(after: deadline) { [self] in
            for connection in byDescriptor { connection?.endNow() }
        }
    }

    /// Starts to end all connections gracefully, without a deadline.
    public func beginToDrain() {
        loop.assertOnLoop()
        budget.leave(self)
        isDraining = true
        for connection in byDescriptor { connection?.drain() }
    }

    /// Starts to end the connections of a removed listener gracefully.
    func drain(_ listener: Listener) {
        for connection in byDescriptor where connection?.listener === listener { connection?.drain() }
    }

    /// Deadline of idle connections during a graceful end.
    var drainDeadline: Int64 { deadline(after: Self.drainPatience) }

    func takeSpareOutput() -> [UInt8] { spareOutput.popLast() ?? [] }

    func keepSpareOutput(_ bytes: consuming [UInt8]) {
        guard spareOutput.count < Self.spareLimit else { return }
        bytes.removeAll(keepingCapacity: true)
        spareOutput.append(bytes)
    }

    /// Deadline of a timeout that starts now. Includes a sweep interval, so that the timeout never expires early, however old `coarseNow`
    /// is.
    func deadline(after timeout: Duration) -> Int64 { coarseNow + (timeout + Self.sweepInterval).wholeMilliseconds }

    var now: Int64 { loop.time.monotonicMilliseconds }

    /// Deadline for output that starts to wait now.
    var writeDeadline: Int64 { coarseNow + writeMilliseconds }

    var keepAliveDeadline: Int64 { isDraining ? drainDeadline : coarseNow + keepAliveMilliseconds }

    func connection(_ descriptor: Int32) -> (any AcceptedConnection)? {
        byDescriptor.indices.contains(Int(descriptor)) ? byDescriptor[Int(descriptor)] : nil
    }

    /// Returns some of the connections, by descriptor.
    /// - Parameters:
    ///   - first: the first descriptor to visit.
    ///   - count: number of descriptors to visit.
    /// - Returns: the connections, and in `next` the descriptor to continue with; nil if there are no more.
    func connections(from first: Int, count: Int) -> (connections: [any AcceptedConnection], next: Int?) {
        let end = min(byDescriptor.count, first + count)
        let some = first < end ? byDescriptor[first..<end].compactMap(\.self) : []
        return (some, end < byDescriptor.count ? end : nil)
    }

    /// Registers a listener to accept again after other connections have ended.
    func awaitCapacity(_ listener: Listener, _ cause: CapacityReport.Cause) {
        if !paused.contains(where: { $0 === listener }) { paused.append(listener) }
        budget.makeSpace(cause)
    }

    func resumeAccepting() {
        let listeners = paused
        paused = []
        for listener in listeners { listener.resume() }
    }

    /// Checks deadlines.
    /// - Parameter first: descriptor to continue with. Other events are handled between two parts of a sweep.
    private func sweep(from first: Int = 0) {
        coarseNow = loop.time.monotonicMilliseconds
        let ended = counters[.connectionsTimedOut]
        var index = first
        while index < min(first + Self.sweepLimit, byDescriptor.count), counters[.connectionsTimedOut] < ended + Self.endLimit {
            byDescriptor[index]?.checkDeadline(coarseNow)
            index += 1
        }
        let next = index < byDescriptor.count ? index : 0
        loop.schedule(after: next == 0 ? Self.sweepInterval : .zero) { self.sweep(from: next) }
    }
}

extension ClientConnections {
    /// Ends every connection at once.
    public func closeAll() {
        budget.leave(self)
        for connection in byDescriptor { connection?.closeNow() }
    }
}
