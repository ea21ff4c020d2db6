// A client's HTTP/1.1 connection: reads requests one after the other, passes each to the receiver, and continues when its response has
// ended. This file contains the reading side and the lifecycle; `ClientConnection+Response.swift` is the writing side. Tricky: a response
// may end while its request is still being handled (a hit), or much later. `isHandling` distinguishes the two, so that pipelined requests
// form a loop and never a recursion. That loop has a time limit (`InputTurn`); the rest of the input waits for the next round of the event
// loop. A plain hit needs no `epoll_ctl` and no timer.

import Figures
import Glibc
import HTTPCore
import Reactor

public final class ClientConnection: AcceptedConnection, PushingConnection {
    public let listener: Listener
    public let peer: PeerAddress
    private lazy var own = RequestClient(peer, security)
    /// Client of the current request if it differs from the peer; nil otherwise.
    private var attributed: RequestClient?
    var transport: ClientTransport
    public let security: ConnectionSecurity?
    /// For system calls only; -1 if the connection is closed.
    var descriptor: Int32 { transport.descriptor }
    /// Not a permanent reference cycle: the table releases a connection when it is closed.
    let table: ClientConnections
    private var receiver: any RequestReceiver { listener.receiver }

    var state = ConnectionState()
    private var parser = RequestParser()
    /// Bytes that were received and not handled yet. Empty while the connection is idle.
    var input: [UInt8] = []
    private(set) var isHandling = false
    /// Whether a read of the transport's buffered input is scheduled for the next round.
    private var isReadQueued = false
    /// Whether the rest of `input` waits for the next round. Nothing is read or handled before that.
    private var isTurnQueued = false
    var exchange: (any ClientExchange)? { willSet { table.counters.followExchange(from: exchange, to: newValue) } }
    /// Deadline for reading, in milliseconds of the loop's clock; 0 if there is none now.
    private var readDeadline: Int64 = 0
    /// Deadline for the request's content as a whole; 0 for none.
    private var contentDeadline: Int64 = 0

    public var companion: (any ConnectionCompanion)?
    public var isMultiplexed: Bool { false }

    // State of the writing side.
    var output = OutputQueue()
    /// Bytes of output that the budget counts for this connection.
    var heldBytes = 0
    var writeDeadline: Int64 = 0
    var isPushQueued = false
    /// Whether the next part of the output is being loaded from disk or produced.
    var isOutputAwaited = false
    /// True if the response is sent but the kernel's buffer was too full for TLS's close_notify alert.
    private var isEndUnsaid = false

    /// Permission to read and discard the rest of the last request's content; nil if none is held.
    private var discarding: ConnectionBudget.Discarding?

    init(_ socket: consuming AcceptedSocket, table: ClientConnections) {
        peer = socket.peer
        listener = socket.listener
        security = socket.security
        transport = socket.transport
        self.table = table
        readDeadline = table.keepAliveDeadline
    }

    /// Starts reading, with the bytes that an earlier phase received and did not use.
    func start(with received: [UInt8], refusing refusal: RequestRejection?) {
        if let refusal { return perform(.refuse(refusal)) }
        if !received.isEmpty { received.withUnsafeBufferPointer { self.received($0) } }
        readHeld()
    }

    // MARK: Events

    public func ready(_ events: ReadyEvents) {
        let events = transport.meaning(of: events)
        if events.isBroken { return perform(.abandon) }
        if events.contains(.ended) { perform(state.peerEnded()) }
        if events.isWritable { if isEndUnsaid { linger() } else { flush() } }
        if events.isReadable, !state.isClosed { read() }
    }

    private func read() {
        if isTurnQueued { return }
        guard state.mayRead else { return updateInterest() }
        let buffer = table.readBuffer
        switch transport.receive(into: buffer) {
        case .bytes(let count):
            received(UnsafeBufferPointer(start: buffer.baseAddress, count: count))
            readHeld()
        case .nothing: if transport.isSecured { updateInterest() }
        case .ended:
            perform(state.inputEnded())
            updateInterest()
        case .broken: perform(.abandon)
        }
    }

    /// Schedules a read of input that the transport has buffered. Other connections are served first, because a client may send without
    /// end.
    private func readHeld() {
        guard transport.holdsInput, state.mayRead, !isReadQueued, !isTurnQueued else { return }
        isReadQueued = true
        table.loop.inNextRound { [self] in
            isReadQueued = false
            if !state.isClosed { read() }
        }
    }

    private func received(_ bytes: UnsafeBufferPointer<UInt8>) {
        if case .lingering = state.phase { return discard(bytes.count) }
        if input.isEmpty {
            if state.isAwaitingRequest { attributed = nil }
            if state.isAwaitingRequest, !endsWithNext, companion == nil, receiver.repeated(bytes.span, on: self) {
                return
            }
            let consumed = handle(bytes)
            if consumed < bytes.count, !state.isClosed { input.append(contentsOf: bytes[consumed...]) }
        } else {
            input.append(contentsOf: bytes)
            handleInput()
        }
    }

    /// Handles bytes that were received earlier.
    private func handleInput() {
        if isTurnQueued { return }
        let held = input
        input = []
        let consumed = held.withUnsafeBufferPointer { handle($0) }
        if consumed < held.count, !state.isClosed { input = Array(held[consumed...]) }
    }

    /// Handles as many bytes as possible in one turn. Returns the number of bytes used.
    private func handle(_ bytes: UnsafeBufferPointer<UInt8>) -> Int {
        isHandling = true
        defer { isHandling = false }
        var position = 0
        var turn = InputTurn(batchBegan: table.loop.batchMicroseconds)
        while position < bytes.count {
            switch state.phase {
            case .idle, .receivingHead:
                guard turn.mayContinue() else {
                    queueTurn()
                    return position
                }
                guard let consumed = readHead(UnsafeBufferPointer(rebasing: bytes[position...])) else { return position }
                position += consumed
            case .exchanging(let progress):
                guard progress.takesContent else { return position }
                guard turn.mayContinue() else {
                    queueTurn()
                    return position
                }
                readContent(bytes, &position)
            case .lingering, .closed:
                return bytes.count
            }
        }
        return position
    }

    /// Schedules the rest of the input for the next round of the loop. A few bytes can carry hundreds of requests or of chunks.
    private func queueTurn() {
        isTurnQueued = true
        table.loop.inNextRound { [self] in
            isTurnQueued = false
            resumeInput()
        }
    }

    // MARK: The request

    /// Returns the number of bytes used; nil if more are needed.
    private func readHead(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        switch parser.parse(Span(_unsafeElements: bytes), limits: table.settings.requestLimits) {
        case .needsMore:
            if isTLS(bytes) { return refuseTLS(bytes.count) }
            if state.headCame() { readDeadline = table.deadline(after: table.settings.headTimeout) }
            return nil
        case .head(let head, let framing, let consumed):
            let isAlone = bytes.baseAddress == UnsafePointer(table.readBuffer.baseAddress) && consumed == bytes.count && framing == .none
            begin(head, framing, isAlone ? UnsafeRawBufferPointer(bytes) : nil)
            return consumed
        case .refused(let rejection):
            if isTLS(bytes) { return refuseTLS(bytes.count) }
            attributed = nil
            perform(.refuse(rejection))
            return bytes.count
        }
    }

    /// Whether a client begins a TLS handshake on a cleartext port (RFC 8446 §5.1). The record's type is no letter of a method.
    private func isTLS(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool { bytes.first == 0x16 && state.requests == 0 && !transport.isSecured }

    /// Ends the connection without a response, because the client could not parse one.
    private func refuseTLS(_ count: Int) -> Int {
        receiver.refused(.tlsOnClear, on: self)
        perform(.abandon)
        return count
    }

    private func begin(_ head: RequestHead, _ framing: ContentFraming, _ bytes: UnsafeRawBufferPointer?) {
        attributed = nil
        (readDeadline, contentDeadline) = (0, 0)
        if listener.isRetired, listener.hasOutdated(security, String(decoding: head.host, as: UTF8.self)) {
            return perform(.refuse(.rulesChanged))
        }
        let action = state.begin(
            head, framing, endsConnection: closesAfter(head), contentLimit: table.settings.contentLimitBytes)
        guard action == .nothing else { return perform(action) }
        let exchange = receiver.received(ReceivedRequest(head: head, framing: framing, bytes: bytes), on: self)
        guard let progress = state.current, progress.response != .ended else { return }
        precondition(exchange != nil, "a request has neither a response nor an exchange")
        self.exchange = exchange
        if progress.content.isWhole { exchange?.requestEnded() } else { startContentClock() }
    }

    public var client: RequestClient { attributed ?? own }

    public func attribute(to client: RequestClient) { attributed = client }

    /// Transfers the request to another exchange, which receives the client's further events. Ends the timeout of the content as a whole.
    public func handOver(to exchange: any ClientExchange) {
        table.loop.assertOnLoop()
        guard let progress = state.current, progress.response != .ended else { return }
        contentDeadline = 0
        self.exchange = exchange
    }

    /// Begins a request that was recognized by its bytes and was not parsed.
    func beginRepeated() {
        readDeadline = 0
        state.beginRepeated()
    }

    /// Whether the connection ends with the next request, whatever the request says.
    private var endsWithNext: Bool { table.isDraining || listener.isRetired || reachesRequestLimit }

    private var reachesRequestLimit: Bool {
        let limit = table.settings.requestsPerConnection
        return limit > 0 && state.requests + 1 >= limit
    }

    /// Whether the connection ends after this request (RFC 9112 §9.3).
    private func closesAfter(_ head: RequestHead) -> Bool {
        if reachesRequestLimit { table.counters[.connectionsRequestLimit] += 1 }
        if endsWithNext || head.fields.connectionNames("close") { return true }
        return head.version == .http10 && !head.fields.connectionNames("keep-alive")
    }

    private func readContent(_ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int) {
        startContentClock()
        let event = state.takeContent(Span(_unsafeElements: bytes), &position, limit: table.settings.contentLimitBytes)
        switch event {
        case .piece(let range, let isLast):
            exchange?.requestContent(Span(_unsafeElements: UnsafeBufferPointer(rebasing: bytes[range])))
            if isLast { endContent() }
        case .ended: endContent()
        case .needsMore: break
        case .failed(let action): perform(action)
        }
    }

    private func endContent() {
        guard state.current != nil else { return }
        readDeadline = 0
        exchange?.requestEnded()
    }

    /// Starts the content timeouts. Another protocol after an upgrade has the timeouts of streams instead.
    private func startContentClock() {
        guard let progress = state.current, !progress.isTunnel, progress.response != .ended else { return }
        let pauseDeadline = table.deadline(after: table.settings.contentTimeout)
        readDeadline = contentDeadline > 0 ? min(pauseDeadline, contentDeadline) : pauseDeadline
    }

    /// Starts the timeout for the content as a whole, which is buffered until complete. Must be called before any content is delivered.
    public func startContentTotal() { contentDeadline = table.deadline(after: table.settings.contentTotal) }

    /// Whether the client has closed its sending side, perhaps after bytes that are still unread. The client may still read, or be
    /// disconnected; both look alike.
    public var hasPeerEnded: Bool { state.hasPeerEnded }

    /// Whether the client waits for a 100 (Continue) response before it sends its content (RFC 9110 §10.1.1).
    public var isContinueAwaited: Bool { state.current?.isContinueAwaited ?? false }

    /// Sends a 100 (Continue) response if the client waits for one.
    public func sendContinue() {
        guard state.takeContinue() else { return }
        sendInformational(ResponseHead(status: 100))
        if state.current?.takesContent == true { startContentClock() }
    }

    /// Stops reading from the client until `resumeContent`.
    public func pauseContent() {
        table.loop.assertOnLoop()
        state.pauseContent()
        readDeadline = 0
    }

    public func resumeContent() {
        table.loop.assertOnLoop()
        guard state.resumeContent() else { return }
        startContentClock()
        resumeInput()
    }

    // MARK: Actions of the state machine

    func perform(_ action: ConnectionState.Action) {
        switch action {
        case .nothing: break
        case .close: closeNow()
        case .linger: linger()
        case .notifyEnd:
            updateInterest()
            exchange?.clientEnded()
        case .abandon:
            let exchange = self.exchange
            closeNow()
            exchange?.clientLeft()
        case .refuse(let rejection):
            dismissExchange()
            refuse(rejection)
        case .abort(let rejection):
            dismissExchange()
            receiver.refused(rejection.kind, on: self)
            abortResponse()
        case .endContent: endContent()
        case .awaitRequest:
            readDeadline = table.keepAliveDeadline
            if !isHandling { resumeInput() }
        }
    }

    private func dismissExchange() {
        let exchange = self.exchange
        self.exchange = nil
        exchange?.clientLeft()
    }

    /// Responds to a request that is not passed to the receiver, and ends the connection.
    private func refuse(_ rejection: RequestRejection) {
        guard !state.isClosed else { return }
        state.refuse()
        let response = rejection.response(date: table.loop.time.wallMilliseconds / 1000)
        receiver.refused(rejection.kind, on: self)
        sendWhole(head: response.head, body: .bytes(response.content))
    }

    func resumeInput() {
        guard !isHandling, !state.isClosed else { return }
        if !input.isEmpty { handleInput() }
        if state.isAwaitingRequest, state.hasInputEnded, !isTurnQueued { return closeNow() }
        updateInterest()
    }

    private func linger() {
        input = []
        isEndUnsaid = !transport.endSending()
        if state.isUploadDiscarded, discarding == nil { beginDiscarding() }
        let patience = discarding == nil ? DiscardLimits.lingerTimeout : table.settings.discarding.timeout
        readDeadline = table.deadline(after: isEndUnsaid ? table.settings.writeTimeout : patience)
        updateInterest()
    }

    private func beginDiscarding() {
        table.counters[.uploadsDiscarded] += 1
        discarding = table.budget.discard(for: client.clientAddress)
        if discarding == nil { table.counters[.uploadsCut] += 1 }
    }

    private func discard(_ count: Int) {
        let action = state.discard(count, limit: discarding == nil ? DiscardLimits.lingerBytes : table.settings.discarding.bytes)
        if action == .close, discarding != nil { table.counters[.uploadsCut] += 1 }
        perform(action)
    }

    func closeNow() {
        guard !state.isClosed else { return }
        if state.isResponseCut(hasOutput: !output.isEmpty) { transport.cutAtClose(tells: state.current?.version != .http10) }
        state.close()
        (exchange, discarding) = (nil, nil)
        input = []
        output = OutputQueue()
        if heldBytes > 0 { _ = isOutputHeld() }
        table.remove(descriptor)
        transport.close()
        companion.take()?.clientConnectionEnded()
    }

    /// Lets the exchange respond at once, then ends the connection.
    func endNow() {
        if state.current != nil { exchange?.respondNow() }
        if isPushQueued { pushNow() }
        closeNow()
    }

    var clientWait: ClientWait? {
        switch state.phase {
        case .idle where isTurnQueued: nil
        case .idle: ClientWait(kind: .request, deadline: readDeadline)
        case .receivingHead, .lingering: ClientWait(kind: .opening, deadline: readDeadline)
        case .exchanging where writeDeadline > 0: ClientWait(kind: .slow, deadline: writeDeadline)
        case .exchanging where readDeadline > 0: ClientWait(kind: .slow, deadline: readDeadline)
        case .exchanging, .closed: nil
        }
    }

    func closeForOthers() { perform(.abandon) }

    func drain() {
        if state.drain() { readDeadline = table.drainDeadline }
    }

    func checkDeadline(_ now: Int64) {
        if writeDeadline > 0, now >= writeDeadline {
            table.counters[.connectionsTimedOut] += 1
            return perform(.abandon)
        }
        if state.isAwaitingRequest { transport.rest() }
        guard readDeadline > 0, now >= readDeadline, !state.hasResponded else { return }
        if discarding == nil { table.counters[.connectionsTimedOut] += 1 } else { table.counters[.uploadsCut] += 1 }
        perform(state.readTimeoutPassed())
    }

    /// Updates the events for which the connection is registered.
    func updateInterest() {
        guard !state.isClosed else { return }
        table.loop.modify(descriptor, transport.interest(interest))
        readHeld()
    }

    private var interest: ReadyEvents {
        // The common case after a response.
        if state.isAwaitingRequest, output.isEmpty, !isEndUnsaid { return state.hasInputEnded ? [] : .readable }
        var events = ReadyEvents()
        if !output.isEmpty || state.current?.isHeldBack == true, !isOutputAwaited { events.insert(.writable) }
        if isEndUnsaid { events.insert(.writable) }
        if state.mayRead { events.insert(.readable) }
        if state.watchesForEnd { events.insert(.ended) }
        return events
    }
}
