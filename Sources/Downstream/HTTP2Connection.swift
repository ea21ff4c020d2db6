// One client's connection on which HTTP/2 is spoken: many requests at once, each on a stream (`HTTP2Stream`). This file is its life and the
// reading side; `HTTP2Connection+Output.swift` is the writing side, `HTTP2Connection+Session.swift` what the session tells. The session and all
// streams belong to it, and go with it.
//
// Tricky: the session must not be entered while it tells something, so nothing is written from within a request: what is to be written waits for
// the end of the batch of events.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class HTTP2Connection: AcceptedConnection {
    let peer: PeerAddress
    /// Whose requests these are, where nothing else is said of one.
    let client: RequestClient
    var transport: ClientTransport
    var descriptor: Int32 { transport.descriptor }
    /// The table lets go of a connection when it is closed; so this is no cycle that lasts.
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
    /// What has been read and waits for the connection's next turn.
    private var input: [UInt8] = []
    /// Milliseconds of the loop's clock; 0: no limit applies now.
    var idleDeadline: Int64
    private var sectionDeadline: Int64 = 0

    // The writing side's.
    /// Written by the session, and not taken by the kernel yet.
    var rest: [UInt8] = []
    var restSent = 0
    var isPushQueued = false
    /// Streams that have something new for the session.
    var pushing: [HTTP2Stream] = []
    /// Streams whose flow may go on.
    var drained: [HTTP2Stream] = []
    var writeDeadline: Int64 = 0
    /// What all streams hold of memory, and what the budget knows of it.
    var heldBytes = 0
    var budgetedBytes = 0

    enum Phase: Equatable {
        case open
        /// No more requests are taken: all of the first GOAWAY has not been seen by the client until this, or its ping's acknowledgement.
        case announcing(until: Int64)
        /// No more requests are taken.
        case finishing
        /// All has been written: what the client still sends is thrown away, so that it gets to read it.
        case lingering(discardedBytes: Int, until: Int64)
        case closed
    }

    /// What requests that came together may take of a round of the loop before others have their turn (microseconds), and after how many bytes of
    /// them the clock is looked at: some ten requests.
    private static let turnLimit: Int64 = 1_000
    private static let turnBytes = 512
    /// How long the client may take to read what ended the connection.
    static let lingerTimeout = Duration.seconds(2)
    static let lingerLimitBytes = 1 << 20
    /// How long a client may take to hear that the connection will end.
    static let announceTimeout = Duration.seconds(1)
    /// Frames that may wait for a client that reads nothing, before nothing is read of it.
    static let waitingFramesLimit = 256

    /// nil where there is no memory for it.
    static func session(_ settings: DownstreamSettings) -> HTTP2Session? {
        try? HTTP2Session(.server, settings.http2.session(settings.requestLimits))
    }

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

    /// What an earlier phase of the connection has received and not used comes first.
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
        // Who speaks HTTP/2 and sends no more reads no more either.
        case .ended, .broken: vanish()
        }
    }

    /// Others come first: a client may send without end.
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
            if discarded + bytes.count > Self.lingerLimitBytes { closeNow() }
        case .closed: break
        case .open, .announcing, .finishing:
            takeTurn(bytes)
            guard !isClosed else { return }
            noteSection()
            pushLater()
        }
    }

    /// A few bytes can ask for hundreds of requests, each of which may need the upstream.
    private func takeTurn(_ bytes: UnsafeRawBufferPointer) {
        let began = SystemTime.monotonicMicroseconds
        var position = 0
        repeat {
            // Content is not cut to pieces.
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

    /// - Returns: false where nothing more is to be read.
    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var (taken, position) = (0, 0)
        // What has not been given to the session yet ends a stream.
        var mayEndStream = false
        while let frame = walk.next(bytes, &position) {
            guard conduct.take(frame, now: table.now) else { return endReading(.enhanceYourCalm) }
            if frame.kind == .reset { mayEndStream = true }
            guard pastStreams.note(frame), mayEndStream || frame.kind == .headers || streams[frame.stream] == nil else { continue }
            // What comes before it may open its stream, or end it.
            let start = max(taken, position - HTTP2Session.frameHeadBytes)
            guard give(UnsafeRawBufferPointer(rebasing: bytes[taken..<start])) else { return false }
            (taken, mayEndStream) = (start, false)
            guard streams[frame.stream] == nil else { continue }
            if let fault = pastStreams.fault(of: frame) { return endReading(fault) }
            guard conduct.takeLate(now: table.now) else { return endReading(.enhanceYourCalm) }
        }
        return give(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
    }

    /// - Returns: false where nothing more is to be read.
    private func give(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if case .ended = session.receive(bytes, telling: self) { return false }
        return !isClosed
    }

    private func endReading(_ code: HTTP2ErrorCode) -> Bool {
        session.end(code)
        return false
    }

    /// RFC 9113 §10.5.
    func flooded() { session.end(.enhanceYourCalm) }

    /// All of a request's head has to come in time.
    private func noteSection() {
        if !walk.isInSection {
            sectionDeadline = 0
        } else if sectionDeadline == 0 {
            sectionDeadline = table.deadline(after: table.settings.headTimeout)
        }
    }

    // MARK: Ends

    /// No request is taken any more; those that are under way go on.
    func takeNoMore() {
        phase = .finishing
        session.takeNoMore()
        pushLater()
    }

    /// RFC 9113 §6.8: in two steps, so that what is on its way is not lost.
    func drain() {
        guard phase == .open else { return }
        phase = .announcing(until: table.deadline(after: Self.announceTimeout))
        session.announceEnd()
        pushLater()
    }

    func endNow() {
        for stream in streams.values { stream.exchange?.respondNow() }
        if !isClosed { takeNoMore() }
        if !isClosed { flush() }
        vanish()
    }

    /// The client is gone, or is to go: nothing can be sent any more.
    func vanish() {
        closeStreams()
        closeNow()
    }

    /// Told from a fresh call, since one of them may be the one that writes.
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

    /// All that is to be said has been written.
    func linger() {
        closeStreams()
        // What is complete is so by its frames, whether TLS finds room for its word or not.
        _ = transport.endSending()
        phase = .lingering(discardedBytes: 0, until: table.deadline(after: Self.lingerTimeout))
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

    func giveUpRoom() { endNow() }

    func checkDeadline(_ now: Int64) {
        switch phase {
        case .lingering(_, let until): return now >= until ? closeNow() : ()
        case .announcing(let until) where now >= until: takeNoMore()
        default: break
        }
        if writeDeadline > 0, now >= writeDeadline { return timeOut { vanish() } }
        if sectionDeadline > 0, now >= sectionDeadline { return timeOut { end(.enhanceYourCalm) } }
        if streams.isEmpty {
            if !walk.isInSection { session.releaseMemory() }
            transport.rest()
            // RFC 9113 §9.1: an idle connection is ended in order.
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

    // MARK: What to wait for

    var mayRead: Bool {
        switch phase {
        case .closed: false
        case .lingering: true
        case .open, .announcing, .finishing: input.isEmpty && session.waitingFrames < Self.waitingFramesLimit
        }
    }

    /// Asks the loop for what can be used now, and nothing else.
    func updateInterest() {
        guard !isClosed else { return }
        var events = ReadyEvents()
        if isBlocked { events.insert(.writable) }
        if mayRead { events.insert(.readable) }
        table.loop.modify(descriptor, transport.interest(events))
        readHeld()
    }
}
