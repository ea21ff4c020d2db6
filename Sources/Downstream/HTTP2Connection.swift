// A client's HTTP/2 connection with many concurrent requests, each on a stream (`HTTP2Stream`). It owns the session and all streams. This
// file contains the lifecycle and the reading side; `HTTP2Connection+Output.swift` is the writing side, and
// `HTTP2Connection+Session.swift` has the session's callbacks. Tricky: `receive` and `write` of the session must not be called during its
// callbacks. Handling a request therefore writes nothing: output waits for the end of the batch of events.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class HTTP2Connection: AcceptedConnection, PushingConnection {
    let peer: PeerAddress
    /// The client of all requests that are not attributed to another client.
    let client: RequestClient
    var transport: ClientTransport
    var descriptor: Int32 { transport.descriptor }
    /// Not a permanent reference cycle: the table releases a connection when it is closed.
    let table: ClientConnections
    let listener: Listener
    let security: ConnectionSecurity?
    var receiver: any RequestReceiver { listener.receiver }
    let session: HTTP2Session

    var streams = HTTP2StreamTable<HTTP2Stream>()
    var requests = 0
    var phase = Phase.open
    private var walk = HTTP2FrameWalk()
    var conduct: HTTP2ControlBudget
    var resets: HTTP2ResetBudget
    var pastStreams = HTTP2StreamMemory()
    private var isReadQueued = false
    /// Bytes that were read and wait for the connection's next turn.
    private var input: [UInt8] = []
    /// Deadline of an idle connection, in milliseconds of the loop's clock; 0 if there is none now.
    var idleDeadline: Int64
    private var sectionDeadline: Int64 = 0

    // State of the writing side.
    /// Bytes that the session has written and the kernel has not accepted yet.
    var rest: [UInt8] = []
    var restSent = 0
    var isPushQueued = false
    /// Streams with new output for the session.
    var pushing: [HTTP2Stream] = []
    /// Streams that can accept more content from their exchanges.
    var drained: [HTTP2Stream] = []
    var writeDeadline: Int64 = 0
    /// Memory that all streams hold, and the part that the budget counts, in bytes.
    var heldBytes = 0
    var budgetedBytes = 0

    enum Phase: Equatable {
        case open
        /// A first GOAWAY has announced the end. Requests are accepted until this time, or until the client has acknowledged a PING.
        case announcing(until: Int64)
        /// No more requests are accepted.
        case finishing
        /// All output was sent. Further bytes of the client are discarded, so that the client can read the output.
        case lingering(discardedBytes: Int, until: Int64)
        case closed
    }

    /// Maximum microseconds that one connection's requests may take in one round of the loop. The clock is checked after each `turnBytes`,
    /// about ten requests.
    private static let turnLimit: Int64 = 1_000
    private static let turnBytes = 512
    /// Maximum time for the client to acknowledge the announced end.
    static let announceTimeout = Duration.seconds(1)
    /// Number of frames that wait for a client that reads nothing, above which the connection stops reading.
    static let waitingFramesLimit = 256

    init(_ socket: consuming AcceptedSocket, _ session: HTTP2Session, table: ClientConnections) {
        self.session = session
        peer = socket.peer
        listener = socket.listener
        security = socket.security
        client = RequestClient(peer, security)
        transport = socket.transport
        self.table = table
        let now = table.now
        conduct = HTTP2ControlBudget(perSecond: table.settings.http2.controlFrames, now: now)
        resets = HTTP2ResetBudget(limit: table.settings.http2.resets, now: now)
        idleDeadline = table.keepAliveDeadline
        table.counters[.http2Connections] += 1
    }

    /// Starts the connection, with the bytes that an earlier phase received and did not use.
    func start(with received: [UInt8]) {
        pushLater()
        if !received.isEmpty { received.withUnsafeBytes { self.received($0) } }
        readHeld()
    }

    var isClosed: Bool { phase == .closed }

    // MARK: Events

    func ready(_ events: ReadyEvents) {
        let events = transport.meaning(of: events)
        if events.isBroken { return vanish() }
        if events.isWritable { flush() }
        if events.isReadable, !isClosed { read() }
    }

    private func read() {
        guard mayRead else { return updateInterest() }
        let buffer = table.readBuffer
        switch transport.receive(into: buffer) {
        case .bytes(let count):
            received(UnsafeRawBufferPointer(start: buffer.baseAddress, count: count))
            readHeld()
        case .nothing: break
        // An HTTP/2 client that closes its sending side also stops reading.
        case .ended, .broken: vanish()
        }
    }

    /// Schedules a read of input that the transport has buffered. Other connections are served first, because a client may send without
    /// end.
    func readHeld() {
        guard transport.holdsInput, mayRead, !isReadQueued else { return }
        isReadQueued = true
        table.loop.inNextRound { [self] in
            isReadQueued = false
            if !isClosed { read() }
        }
    }

    private func received(_ bytes: UnsafeRawBufferPointer) {
        switch phase {
        case .lingering(let discarded, let until):
            phase = .lingering(discardedBytes: discarded + bytes.count, until: until)
            if discarded + bytes.count > DiscardLimits.lingerBytes { closeNow() }
        case .closed: break
        case .open, .announcing, .finishing:
            takeTurn(bytes)
            guard !isClosed else { return }
            noteSection()
            pushLater()
        }
    }

    /// Handles input for one turn. A few bytes can carry hundreds of requests, each of which may need the upstream.
    private func takeTurn(_ bytes: UnsafeRawBufferPointer) {
        let began = SystemTime.monotonicMicroseconds
        var position = 0
        repeat {
            // A frame's payload is handled in one turn.
            let end = min(bytes.count, position + max(Self.turnBytes, walk.rest))
            guard take(UnsafeRawBufferPointer(rebasing: bytes[position..<end])) else { return }
            position = end
        } while position < bytes.count && SystemTime.monotonicMicroseconds - began < Self.turnLimit
        guard position < bytes.count else { return }
        input = Array(bytes[position...])
        table.loop.inNextRound { [self] in takeInput() }
    }

    private func takeInput() {
        let bytes = input
        input = []
        bytes.withUnsafeBytes { received($0) }
        readHeld()
    }

    /// Checks the frames against the limits and passes them to the session.
    /// - Returns: false if no more bytes must be read.
    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var (taken, position) = (0, 0)
        // True if bytes that the session has not received yet may end a stream.
        var mayEndStream = false
        while let frame = walk.next(bytes, &position) {
            guard conduct.take(frame, now: table.now) else { return endReading(.enhanceYourCalm) }
            if frame.kind == .reset { mayEndStream = true }
            guard pastStreams.note(frame), mayEndStream || frame.kind == .headers || streams[frame.stream] == nil else { continue }
            // Earlier frames may open or end this frame's stream, so the session receives them first.
            let start = max(taken, position - HTTP2Session.frameHeadBytes)
            guard give(UnsafeRawBufferPointer(rebasing: bytes[taken..<start])) else { return false }
            (taken, mayEndStream) = (start, false)
            guard streams[frame.stream] == nil else { continue }
            if let fault = pastStreams.fault(of: frame) { return endReading(fault) }
            guard conduct.take(now: table.now) else { return endReading(.enhanceYourCalm) }
        }
        return give(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
    }

    /// Passes bytes to the session.
    /// - Returns: false if no more bytes must be read.
    private func give(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if case .ended = session.receive(bytes, notifying: self) { return false }
        return !isClosed
    }

    private func endReading(_ code: HTTP2ErrorCode) -> Bool {
        session.end(code)
        return false
    }

    /// Starts or ends the timeout for a complete request head.
    private func noteSection() {
        if !walk.isInSection {
            sectionDeadline = 0
        } else if sectionDeadline == 0 {
            sectionDeadline = table.deadline(after: table.settings.headTimeout)
        }
    }

    // MARK: Ends

    /// Accepts no more requests. Active requests continue.
    func stopAccepting(_ code: HTTP2ErrorCode = .noError) {
        phase = .finishing
        session.stopAccepting(code)
        pushLater()
    }

    /// Ends the connection gracefully, in two steps, so that requests in transit are not lost (RFC 9113 §6.8).
    func drain() {
        guard phase == .open else { return }
        phase = .announcing(until: table.deadline(after: Self.announceTimeout))
        session.announceEnd()
        pushLater()
    }

    func endNow() {
        for stream in streams.values { stream.exchange?.respondNow() }
        if !isClosed { stopAccepting() }
        if !isClosed { flush() }
        vanish()
    }

    /// Ends the connection and all its streams at once. Nothing can be sent any more.
    func vanish() {
        closeStreams()
        closeNow()
    }

    /// Closes all streams. They are notified at the end of the batch of events, because one of them may be the current caller.
    private func closeStreams() {
        let left = Array(streams.values)
        streams = HTTP2StreamTable()
        guard !left.isEmpty else { return }
        table.loop.atEndOfBatch { for stream in left { stream.close() } }
    }

    func closeNow() {
        guard !isClosed else { return }
        phase = .closed
        session.abandon()
        streams = HTTP2StreamTable()
        (pushing, drained, rest, input) = ([], [], [], [])
        heldBytes = 0
        holdBudget()
        table.remove(descriptor)
        transport.close()
    }

    /// Ends the connection after all output was written.
    func linger() {
        closeStreams()
        // The frames mark the end of all content, so a missing close_notify is harmless.
        _ = transport.endSending()
        phase = .lingering(discardedBytes: 0, until: table.deadline(after: DiscardLimits.lingerTimeout))
        updateInterest()
    }

    var clientWait: ClientWait? {
        switch phase {
        case .closed: return nil
        case .lingering(_, let until): return ClientWait(kind: .opening, deadline: until)
        case .open, .announcing, .finishing: break
        }
        if walk.isInSection { return ClientWait(kind: .opening, deadline: sectionDeadline) }
        if streams.isEmpty { return ClientWait(kind: .request, deadline: idleDeadline) }
        let deadlines = streams.values.map(\.clientDeadline)
        guard !deadlines.contains(0) else { return nil }
        return deadlines.min().map { ClientWait(kind: .slow, deadline: $0) }
    }

    func closeForOthers() { endNow() }

    func checkDeadline(_ now: Int64) {
        switch phase {
        case .lingering(_, let until): return now >= until ? closeNow() : ()
        case .announcing(let until) where now >= until: stopAccepting()
        default: break
        }
        if writeDeadline > 0, now >= writeDeadline { return timeOut { vanish() } }
        if sectionDeadline > 0, now >= sectionDeadline { return timeOut { end(.enhanceYourCalm) } }
        if streams.isEmpty {
            if !walk.isInSection { session.releaseMemory() }
            transport.rest()
            // An idle connection is ended with GOAWAY (RFC 9113 §9.1).
            if idleDeadline > 0, now >= idleDeadline { timeOut { end(.noError) } }
            return
        }
        for stream in Array(streams.values) where !stream.state.isClosed { stream.checkDeadline(now) }
    }

    private func timeOut(_ perform: () -> Void) {
        table.counters[.connectionsTimedOut] += 1
        (idleDeadline, sectionDeadline, writeDeadline) = (0, 0, 0)
        perform()
    }

    func end(_ code: HTTP2ErrorCode) {
        session.end(code)
        pushLater()
    }

    // MARK: Events to wait for

    var mayRead: Bool {
        switch phase {
        case .closed: false
        case .lingering: true
        case .open, .announcing, .finishing: input.isEmpty && session.waitingFrames < Self.waitingFramesLimit
        }
    }

    /// Updates the events for which the connection is registered.
    func updateInterest() {
        guard !isClosed else { return }
        var events = ReadyEvents()
        if isBlocked { events.insert(.writable) }
        if mayRead { events.insert(.readable) }
        table.loop.modify(descriptor, transport.interest(events))
        readHeld()
    }
}
