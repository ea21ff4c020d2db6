// All connections of one shard: its read buffer, its time-outs, its counters and its end.

import Figures
import HTTPCore
import Reactor

extension Figures {
    /// A connection or stream has let go of its exchange, or has another.
    mutating func followExchange(from former: (any ClientExchange)?, to exchange: (any ClientExchange)?) {
        if let former, former.isRequest { self[.requestsInFlight] -= 1 }
        if let exchange, exchange.isRequest { self[.requestsInFlight] += 1 }
    }
}

/// Touched on its loop only.
public final class ClientConnections {
    public let loop: EventLoop
    public private(set) var settings: DownstreamSettings
    let budget: ConnectionBudget
    public var counters = Figures()
    /// Where borrowed content lies; nil where all of it is in memory.
    public var contentMemory: (any ContentMemory)?
    /// nil where no listener speaks it.
    public var tls: ServerTLS?

    /// One for all: what a connection cannot use at once it copies into a buffer of its own.
    let readBuffer: UnsafeMutableBufferPointer<UInt8>
    /// A small response is put together here and sent with one call.
    let writeBuffer: UnsafeMutableBufferPointer<UInt8>
    /// The frames of one turn of an HTTP/2 connection are put together here. Made for the first one.
    var frameBuffer: UnsafeMutableRawBufferPointer {
        if let frames { return frames }
        let made = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.frameBufferBytes, alignment: 16)
        frames = made
        return made
    }
    private var frames: UnsafeMutableRawBufferPointer?
    /// Milliseconds of the loop's clock at the last sweep or accept: exact enough for time-outs of seconds, and costs nothing to read.
    private var coarseNow: Int64
    /// `settings.keepAliveTimeout` and `settings.writeTimeout` with the sweep's interval, as they are needed at every response.
    private var keepAliveMilliseconds: Int64
    private var writeMilliseconds: Int64
    private(set) var isDraining = false
    private var byDescriptor: [(any AcceptedConnection)?] = []
    private var whenEmpty: (() -> Void)?
    /// Listeners that accept nothing until there is room.
    private var paused: [Listener] = []
    /// Their output goes out when the batch of events has been handled.
    private var pushing: [any AcceptedConnection] = []
    /// Those of the batch that is over.
    private var pushed: [any AcceptedConnection] = []

    /// Memory of small responses that have gone out, for the next ones: the C library takes long to find as much.
    private var spareOutput: [[UInt8]] = []
    private static let spareLimit = 64

    static let readBytes = 64 * 1024
    static let writeBytes = 16 * 1024
    static let frameBufferBytes = 64 * 1024
    private static let sweepInterval = Duration.milliseconds(500)
    /// Clients that ask all the time learn within it that their connection ends, and lose no request; who is idle for longer sees an idle
    /// connection closed, as at any other time.
    public static let drainPatience = Duration.seconds(1)
    /// Descriptors that a sweep looks at in one go, and connections that it ends in one go: many may have come, and so end, together.
    private static let sweepLimit = 4_096
    private static let endLimit = 32

    /// - Parameter budget: shared by all tables whose connections count together; its own where none is given.
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

    /// What begins from now on is held to these: requests on connections that stand, and new connections.
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

    /// Starts the time-outs. On the loop, whose timers hold this table until the loop ends: a weak reference anywhere would make
    /// every use of the table slower.
    public func start() {
        coarseNow = loop.time.monotonicMilliseconds
        budget.enter(self)
        loop.schedule(after: Self.sweepInterval) { self.sweep() }
    }

    /// A socket comes in. The budget has been asked already.
    func add(_ socket: consuming AcceptedSocket) {
        loop.assertOnLoop()
        coarseNow = loop.time.monotonicMilliseconds
        counters[.connectionsAccepted] += 1
        counters[.connectionsOpen] += 1
        enter(socket)
    }

    /// The next phase of a connection begins.
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
            guard let session = HTTP2Connection.session(settings) else {
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

    /// There is nothing that could handle it.
    private func discard(_ socket: consuming AcceptedSocket) {
        if byDescriptor.indices.contains(Int(socket.transport.descriptor)), byDescriptor[Int(socket.transport.descriptor)] != nil {
            return remove(socket.transport.descriptor)
        }
        budget.giveBack(socket.peer)
        counters[.connectionsOpen] -= 1
    }

    /// From now on this has the socket.
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

    /// Lets running responses finish. The next response on a kept connection tells that it is the last; one on which nothing comes for
    /// `drainPatience` is closed. `then` is called once, when all are gone or `deadline` has passed, whichever comes first.
    public func drain(deadline: Duration, then: @escaping () -> Void) {
        beginToDrain()
        guard counters[.connectionsOpen] > 0 else { return then() }
        whenEmpty = then
        loop.schedule(after: deadline) { [self] in
            for connection in byDescriptor { connection?.endNow() }
        }
    }

    /// The same, without an end to it yet.
    public func beginToDrain() {
        loop.assertOnLoop()
        budget.leave(self)
        isDraining = true
        for connection in byDescriptor { connection?.drain() }
    }

    /// The same for those that came in by a listener that is no more.
    func drain(_ listener: Listener) {
        for connection in byDescriptor where connection?.listener === listener { connection?.drain() }
    }

    /// When a connection on which nothing happens is closed, while all are.
    var drainDeadline: Int64 { deadline(after: Self.drainPatience) }

    func takeSpareOutput() -> [UInt8] { spareOutput.popLast() ?? [] }

    func keepSpareOutput(_ bytes: consuming [UInt8]) {
        guard spareOutput.count < Self.spareLimit else { return }
        bytes.removeAll(keepingCapacity: true)
        spareOutput.append(bytes)
    }

    func pushAtEndOfBatch(_ connection: any AcceptedConnection) {
        if pushing.isEmpty { loop.atEndOfBatch { self.pushAll() } }
        pushing.append(connection)
    }

    private func pushAll() {
        // What is pushed meanwhile has its turn with the next batch; neither list gives up its memory.
        swap(&pushing, &pushed)
        for connection in pushed { connection.pushNow() }
        pushed.removeAll(keepingCapacity: true)
    }

    /// When a time-out that starts now has passed. A sweep's interval is added, so that it never comes early, however old `coarseNow` is.
    func deadline(after timeout: Duration) -> Int64 { coarseNow + (timeout + Self.sweepInterval).wholeMilliseconds }

    var now: Int64 { loop.time.monotonicMilliseconds }

    /// The same for what begins to be sent now.
    var writeDeadline: Int64 { coarseNow + writeMilliseconds }

    var keepAliveDeadline: Int64 { isDraining ? drainDeadline : coarseNow + keepAliveMilliseconds }

    var all: [any AcceptedConnection] { byDescriptor.compactMap(\.self) }

    func connection(_ descriptor: Int32) -> (any AcceptedConnection)? {
        byDescriptor.indices.contains(Int(descriptor)) ? byDescriptor[Int(descriptor)] : nil
    }

    /// - Parameters:
    ///   - first: the first descriptor to look at.
    ///   - count: descriptors to look at.
    /// - Returns: `next` is nil if there are no more.
    func connections(from first: Int, count: Int) -> (connections: [any AcceptedConnection], next: Int?) {
        let end = min(byDescriptor.count, first + count)
        let some = first < end ? byDescriptor[first..<end].compactMap(\.self) : []
        return (some, end < byDescriptor.count ? end : nil)
    }

    /// A listener accepts again when others have made room.
    func awaitRoom(_ listener: Listener, _ cause: RoomReport.Cause) {
        if !paused.contains(where: { $0 === listener }) { paused.append(listener) }
        budget.makeRoom(cause)
    }

    func resumeAccepting() {
        let listeners = paused
        paused = []
        for listener in listeners { listener.resume() }
    }

    /// - Parameter first: where the sweep goes on; others' events have been handled since.
    private func sweep(from first: Int = 0) {
        coarseNow = loop.time.monotonicMilliseconds
        let ended = counters[.connectionsTimedOut]
        var place = first
        while place < min(first + Self.sweepLimit, byDescriptor.count), counters[.connectionsTimedOut] < ended + Self.endLimit {
            byDescriptor[place]?.checkDeadline(coarseNow)
            place += 1
        }
        let next = place < byDescriptor.count ? place : 0
        loop.schedule(after: next == 0 ? Self.sweepInterval : .zero) { self.sweep(from: next) }
    }
}

extension ClientConnections {
    /// Ends every connection at once.
    public func closeAll() {
        budget.leave(self)
        for connection in all { connection.closeNow() }
    }
}
