// One client's connection: reads requests one after the other, hands each to the receiver, and goes on when its answer has ended. This
// file is the reading side and the connection's life; `ClientConnection+Response.swift` is the writing side.
//
// Tricky: an answer may end while its request is still being handled (a hit), or long after; `isHandling` tells the two apart, so that
// pipelined requests are a loop and never a recursion. Nothing is registered or armed for a plain hit: no epoll_ctl, no timer.

import CSystem
import Glibc
import HTTPCore
import Reactor

package final class ClientConnection: EventHandler {
    enum Phase { case awaitingRequest, exchanging, lingering, closed }

    /// What is still to come of the request's content.
    enum PendingContent {
        case nothing
        case length(Int)
        case chunked(ChunkedDecoder)

        var isComplete: Bool { if case .nothing = self { true } else { false } }
    }

    package let peer: PeerAddress
    /// Made once: every request that is passed on names it.
    package private(set) lazy var peerText = peer.text
    let descriptor: Int32
    /// The table lets go of a connection when it is closed; so this is no cycle that lasts.
    let table: ClientConnections
    private let receiver: any RequestReceiver

    var phase = Phase.awaitingRequest
    private var parser = RequestParser()
    /// Received and not handled yet. Empty while the connection is idle.
    private var input: [UInt8] = []
    private(set) var isHandling = false
    private var readEnded = false
    /// The client sends no more, perhaps after what is yet to be read. It may still read, or be gone: both look alike.
    package private(set) var hasPeerEnded = false
    private(set) var content = PendingContent.nothing
    private var isContentPaused = false
    private var contentBytes = 0
    private(set) var requests = 0
    var exchange: (any ClientExchange)?
    /// Milliseconds of the loop's clock; 0: no limit applies now.
    private var readDeadline: Int64 = 0
    /// Of the request's content as a whole; 0: none.
    private var contentDeadline: Int64 = 0
    private var lingerBytes = 0

    // The writing side's state.
    var output = OutputQueue()
    /// What the budget knows of it.
    var heldBytes = 0
    var response = ResponseState()
    var writeDeadline: Int64 = 0
    var wantsDrainCall = false
    /// Among those whose output goes out at the end of the batch.
    var isPushQueued = false
    /// What goes out next is being read from the disk, or made.
    var isOutputAwaited = false

    /// Read and thrown away after an answer that ended the connection, so that the client gets to read it: bytes and time.
    private static let lingerLimitBytes = 1 << 20
    private static let lingerTimeout = Duration.seconds(2)

    init(descriptor: Int32, peer: PeerAddress, table: ClientConnections, receiver: any RequestReceiver) {
        self.descriptor = descriptor
        self.peer = peer
        self.table = table
        self.receiver = receiver
        readDeadline = table.keepAliveDeadline
    }

    // MARK: Events

    package func ready(_ events: ReadyEvents) {
        if events.isBroken { return peerVanished() }
        if events.contains(.ended) { notePeerEnded() }
        if events.isWritable { flush() }
        if events.isReadable, phase != .closed { read() }
    }

    private func read() {
        if phase == .exchanging, content.isComplete || isContentPaused { return updateInterest() }
        let buffer = table.readBuffer
        let count = csystem_receive(descriptor, buffer.baseAddress, buffer.count)
        if count > 0 {
            received(UnsafeBufferPointer(start: buffer.baseAddress, count: count))
        } else if count == 0 {
            inputEnded()
        } else if errno != EAGAIN, errno != EINTR {
            peerVanished()
        }
    }

    private func received(_ bytes: UnsafeBufferPointer<UInt8>) {
        if phase == .lingering {
            lingerBytes += bytes.count
            if lingerBytes > Self.lingerLimitBytes { closeNow() }
            return
        }
        if input.isEmpty {
            if phase == .awaitingRequest, !endsWithNext, receiver.repeated(UnsafeRawBufferPointer(bytes), on: self) { return }
            let consumed = handle(bytes)
            if consumed < bytes.count, phase != .closed { input.append(contentsOf: bytes[consumed...]) }
        } else {
            input.append(contentsOf: bytes)
            handleInput()
        }
    }

    /// Goes on with what was received earlier.
    private func handleInput() {
        let held = input
        input = []
        let consumed = held.withUnsafeBufferPointer { handle($0) }
        if consumed < held.count, phase != .closed { input = Array(held[consumed...]) }
    }

    /// Handles as much as is possible now; returns how many bytes were taken.
    private func handle(_ bytes: UnsafeBufferPointer<UInt8>) -> Int {
        isHandling = true
        defer { isHandling = false }
        var position = 0
        while position < bytes.count {
            switch phase {
            case .awaitingRequest:
                guard output.isEmpty else { return position }
                guard let consumed = readHead(UnsafeBufferPointer(rebasing: bytes[position...])) else { return position }
                position += consumed
            case .exchanging:
                guard !content.isComplete, !isContentPaused else { return position }
                readContent(bytes, &position)
            case .lingering, .closed:
                return bytes.count
            }
        }
        return position
    }

    // MARK: Heads

    /// Returns the bytes taken, nil where more are needed.
    private func readHead(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        switch parser.parse(Span(_unsafeElements: bytes), limits: table.settings.requestLimits) {
        case .needsMore:
            // The first byte starts the clock, later ones do not turn it back.
            if !response.headBegun {
                response.headBegun = true
                readDeadline = table.deadline(after: table.settings.headTimeout)
            }
            return nil
        case .head(let head, let framing, let consumed):
            let isAlone = bytes.baseAddress == UnsafePointer(table.readBuffer.baseAddress) && consumed == bytes.count && framing == .none
            table.whole = isAlone ? WholeExchange(request: UnsafeRawBufferPointer(bytes)) : nil
            begin(head, framing)
            table.whole = nil
            return consumed
        case .refused(let rejection):
            refuse(rejection)
            return bytes.count
        }
    }

    private func begin(_ received: RequestHead, _ framing: ContentFraming) {
        let head = received.removingNamed()
        startExchange(ResponseState(to: head, closes: closesAfter(head)))
        if let rejection = contentRejection(head, framing) { return refuse(rejection) }
        contentBytes = 0
        isContentPaused = false
        switch framing {
        case .none, .length(0): content = .nothing
        case .length(let count): content = .length(count)
        case .chunked: content = .chunked(ChunkedDecoder())
        }
        contentDeadline = 0
        let exchange = receiver.received(head, framing: framing, on: self)
        guard phase == .exchanging, !response.isEnded else { return }
        precondition(exchange != nil, "a request was neither answered nor taken over")
        self.exchange = exchange
        if content.isComplete { exchange?.requestEnded() } else { startContentClock() }
    }

    /// From now on another is told what the client does. The content has no time-out as a whole with it.
    package func handOver(to exchange: any ClientExchange) {
        guard phase == .exchanging, !response.isEnded else { return }
        contentDeadline = 0
        self.exchange = exchange
    }

    func startExchange(_ state: ResponseState) {
        requests += 1
        phase = .exchanging
        readDeadline = 0
        response = state
    }

    /// Whatever the next request says.
    private var endsWithNext: Bool {
        let limit = table.settings.requestsPerConnection
        return table.isDraining || limit > 0 && requests + 1 >= limit
    }

    /// RFC 9112 §9.3.
    private func closesAfter(_ head: RequestHead) -> Bool {
        if endsWithNext || head.fields.connectionNames("close") { return true }
        return head.version == .http10 && !head.fields.connectionNames("keep-alive")
    }

    private func contentRejection(_ head: RequestHead, _ framing: ContentFraming) -> RequestRejection? {
        if let expectation = head.fields.combined(.expect), head.version == .http11 {
            guard expectation[...].equalsIgnoringCase("100-continue") else {
                return RequestRejection(.expectationFailed, 417, "This expectation is not known here.")
            }
            response.expectsContinue = framing != .none
        }
        let limit = table.settings.contentLimitBytes
        if case .length(let count) = framing, limit > 0, count > limit { return Self.contentTooLarge }
        return nil
    }

    private static let contentTooLarge = RequestRejection(.contentTooLarge, 413, "The request's content is too large.")

    // MARK: Content

    private func readContent(_ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int) {
        startContentClock()
        switch content {
        case .nothing: return
        case .length(let remaining):
            let count = min(remaining, bytes.count - position)
            content = count == remaining ? .nothing : .length(remaining - count)
            let piece = UnsafeBufferPointer(rebasing: bytes[position..<position + count])
            position += count
            deliver(piece)
        case .chunked(var decoder):
            let event = decoder.next(Span(_unsafeElements: bytes), &position)
            content = .chunked(decoder)
            switch event {
            case .content(let range):
                contentBytes += range.count
                let limit = table.settings.contentLimitBytes
                if limit > 0, contentBytes > limit { return failContent(Self.contentTooLarge) }
                deliver(UnsafeBufferPointer(rebasing: bytes[range]))
            case .needsMore: return
            case .end: content = .nothing
            case .refused(let rejection): return failContent(rejection)
            }
        }
        if content.isComplete, phase == .exchanging {
            readDeadline = 0
            exchange?.requestEnded()
        }
    }

    private func deliver(_ piece: UnsafeBufferPointer<UInt8>) {
        guard !response.isEnded else { return }
        exchange?.requestContent(Span(_unsafeElements: piece))
    }

    /// The content is badly framed or too large: nothing after it can be read.
    private func failContent(_ rejection: RequestRejection) {
        let exchange = self.exchange
        self.exchange = nil
        exchange?.clientLeft()
        if response.isStarted {
            receiver.refused(rejection.kind, on: self)
            abortResponse()
        } else {
            refuse(rejection)
        }
    }

    private func startContentClock() {
        let pauseDeadline = table.deadline(after: table.settings.contentTimeout)
        readDeadline = contentDeadline > 0 ? min(pauseDeadline, contentDeadline) : pauseDeadline
    }

    /// The content is held until it is whole: all of it has to come in time. Called before any of it is told.
    package func startContentTotal() { contentDeadline = table.deadline(after: table.settings.contentTotal) }

    /// Whether the client waits to be told to send its content (RFC 9110 §10.1.1).
    package var isContinueAwaited: Bool { response.expectsContinue }

    /// Tells the client to send its content, where it waits for that.
    package func sendContinue() {
        guard response.expectsContinue, !content.isComplete else { return }
        response.expectsContinue = false
        sendInformational(ResponseHead(status: 100))
        if phase == .exchanging, !isContentPaused { startContentClock() }
    }

    /// Holds the client back: nothing more is read until `resumeContent`.
    package func pauseContent() {
        isContentPaused = true
        readDeadline = 0
    }

    package func resumeContent() {
        guard isContentPaused else { return }
        isContentPaused = false
        startContentClock()
        resumeInput()
    }

    // MARK: Ends

    /// Answers a request that is not handed on, and ends the connection.
    private func refuse(_ rejection: RequestRejection) {
        // Between two requests the state is still that of the answer before.
        if phase == .awaitingRequest { response = ResponseState() }
        phase = .exchanging
        content = .nothing
        response.closes = true
        let text = Array(rejection.sentence.utf8) + [0x0a]
        var head: [UInt8] = []
        ResponseSerializer.appendStatusLine(rejection.status, reason: [], to: &head)
        head.append("Date: ")
        head += HTTPDate.format(table.loop.time.wallMilliseconds / 1000)
        head.append("\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ")
        head.append(decimal: text.count)
        head.append("\r\n")
        response.hasUnreadInput = true
        receiver.refused(rejection.kind, on: self)
        head.withUnsafeBytes { sendWhole(head: $0, lines: UnsafeRawBufferPointer(start: nil, count: 0), body: .bytes(text)) }
    }

    /// Called by the writing side when an answer has ended and all of it has gone out.
    func answered() {
        exchange = nil
        if response.closes || readEnded && input.isEmpty {
            return response.hasUnreadInput || !content.isComplete || !input.isEmpty ? linger() : closeGently()
        }
        phase = .awaitingRequest
        response.headBegun = false
        readDeadline = table.keepAliveDeadline
        if !isHandling { resumeInput() }
    }

    private func resumeInput() {
        guard !isHandling, phase != .closed else { return }
        if !input.isEmpty { handleInput() }
        if phase == .awaitingRequest, readEnded { return closeNow() }
        updateInterest()
    }

    private func inputEnded() {
        readEnded = true
        switch phase {
        case .awaitingRequest, .lingering: closeNow()
        case .exchanging where !content.isComplete: peerVanished()
        // Half-closed: the client has said all it will, and still reads.
        case .exchanging:
            notePeerEnded()
            updateInterest()
        case .closed: break
        }
    }

    private func notePeerEnded() {
        guard !hasPeerEnded else { return }
        hasPeerEnded = true
        updateInterest()
        exchange?.clientEnded()
    }

    /// The connection is of no more use: the exchange is told.
    private func peerVanished() {
        let exchange = self.exchange
        closeNow()
        exchange?.clientLeft()
    }

    /// Shuts the sending side and waits for the client to do the same.
    private func closeGently() { linger() }

    private func linger() {
        phase = .lingering
        content = .nothing
        input = []
        shutdown(descriptor, Int32(SHUT_WR))
        readDeadline = table.deadline(after: Self.lingerTimeout)
        if readEnded { return closeNow() }
        updateInterest()
    }

    func closeNow() {
        guard phase != .closed else { return }
        phase = .closed
        exchange = nil
        input = []
        output = OutputQueue()
        if heldBytes > 0 { _ = isOutputHeld() }
        table.remove(descriptor)
        close(descriptor)
    }

    /// Its exchange may still answer, at once; whatever it does, this is the end.
    func endNow() {
        if phase == .exchanging { exchange?.mustAnswer() }
        closeNow()
    }

    func drainIfIdle() {
        if phase == .awaitingRequest, input.isEmpty { closeNow() } else { response.closes = true }
    }

    func checkDeadline(_ now: Int64) {
        if writeDeadline > 0, now >= writeDeadline {
            table.counters.timedOut += 1
            return peerVanished()
        }
        guard readDeadline > 0, now >= readDeadline else { return }
        table.counters.timedOut += 1
        switch phase {
        case .awaitingRequest where response.headBegun:
            refuse(RequestRejection(.timeout, 408, "The request took too long to arrive."))
        case .exchanging where !response.isStarted:
            let exchange = self.exchange
            self.exchange = nil
            exchange?.clientLeft()
            refuse(RequestRejection(.timeout, 408, "The request's content took too long to arrive."))
        case .awaitingRequest, .exchanging, .lingering: peerVanished()
        case .closed: break
        }
    }

    /// Asks the loop for what can be used now, and nothing else.
    func updateInterest() {
        guard phase != .closed else { return }
        var events = ReadyEvents()
        if !output.isEmpty || wantsDrainCall, !isOutputAwaited { events.insert(.writable) }
        let canRead =
            switch phase {
            case .awaitingRequest: output.isEmpty
            case .exchanging: !content.isComplete && !isContentPaused
            case .lingering: true
            case .closed: false
            }
        if canRead, !readEnded { events.insert(.readable) }
        if phase == .exchanging, content.isComplete, !hasPeerEnded { events.insert(.ended) }
        table.loop.modify(descriptor, events)
    }
}
