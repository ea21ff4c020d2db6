// One request of an HTTP/2 connection and its response. The flow uses it like an HTTP/1.1 connection, and it uses the state machine
// `ConnectionState` too. This file contains the request's side; `HTTP2Stream+Response.swift` contains the response's side.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class HTTP2Stream {
    let number: Int32
    /// Not a permanent reference cycle: the connection releases a stream when it is closed.
    let connection: HTTP2Connection

    var state = ConnectionState()
    var exchange: (any ClientExchange)? { willSet { table.counters.followExchange(from: exchange, to: newValue) } }
    /// Content that arrived while the flow is paused, and number of bytes that were not yet returned to the client's flow-control window.
    private var held: [UInt8] = []
    private var unconsumedBytes = 0
    /// Permission to discard the rest of the request's content after the response; nil if none is held.
    private(set) var discarding: ConnectionBudget.Discarding?
    private var discardedBytes = 0
    private var isDelivering = false
    private(set) var client: RequestClient
    /// Whether the client has ended its side of the stream.
    private(set) var hasInputEnded = false
    /// Deadline for reading, in milliseconds of the loop's clock; 0 if there is none now.
    private var readDeadline: Int64 = 0
    private var contentDeadline: Int64 = 0

    // State of the response's side.
    var output = OutputQueue()
    /// The response's head, until it is passed to the session. Until then the response can be withdrawn.
    var pendingHead: PendingHead?
    /// Whether the session has found no content and waits for `resumeContent`.
    var isContentAwaited = false
    /// Whether the next part of the output is being loaded from disk or produced.
    var isOutputAwaited = false
    /// Whether the rest of the content cannot be produced.
    var isBroken = false
    /// Whether Cistern has reset the stream. Frames that the client sends before it receives the reset are ignored.
    var isReset = false
    var isPushQueued = false
    var writeDeadline: Int64 = 0
    /// Memory that the connection counts for this stream, in bytes.
    var heldBytes = 0

    enum PendingHead {
        case made(HTTP2FieldList)
        /// The fields of a response that is sent again.
        case kept(HTTP2ReusableFields)
    }

    var table: ClientConnections { connection.table }

    init(_ number: Int32, of connection: HTTP2Connection) {
        self.number = number
        self.connection = connection
        client = connection.client
    }

    // MARK: The request

    func begin(_ section: borrowing HTTP2FieldSection, endsStream: Bool) {
        hasInputEnded = endsStream
        let isWhole = endsStream && !section.isTooLarge
        let bytes = UnsafeRawBufferPointer(section.bytes)
        if isWhole, !listener.isRetired, connection.receiver.repeated(section.bytes.span, on: self) { return }
        switch HTTP2RequestHead.read(section, endsStream: endsStream, limits: table.settings.requestLimits) {
        case .malformed: connection.reset(self, .protocolError)
        case .refused(let rejection): perform(.refuse(rejection))
        case .head(let head, let framing):
            begin(head, framing, isWhole && framing == .none ? bytes : nil)
        }
    }

    /// - Parameter bytes: all bytes of the request; nil if content follows.
    private func begin(_ head: RequestHead, _ framing: ContentFraming, _ bytes: UnsafeRawBufferPointer?) {
        if listener.isRetired, listener.hasOutdated(security, String(decoding: head.host, as: UTF8.self)) {
            return perform(.refuse(.rulesChanged))
        }
        let action = state.begin(head, framing, endsConnection: false, contentLimit: table.settings.contentLimitBytes)
        guard action == .nothing else { return perform(action) }
        let exchange = connection.receiver.received(ReceivedRequest(head: head, framing: framing, bytes: bytes), on: self)
        guard let progress = state.current, progress.response != .ended else { return }
        precondition(exchange != nil, "a request has neither a response nor an exchange")
        self.exchange = exchange
        if progress.content.isWhole { exchange?.requestEnded() } else { startContentClock() }
    }

    func receivedContent(_ bytes: UnsafeRawBufferPointer) {
        // The connection's window is replenished at once, so that a paused stream does not block other streams.
        connection.consumeConnection(bytes.count)
        unconsumedBytes += bytes.count
        if discarding != nil { return discard(bytes.count) }
        guard let progress = state.current, !progress.content.isWhole else { return giveBack() }
        guard held.isEmpty, progress.takesContent, !isDelivering else {
            held += bytes
            return noteMemory()
        }
        deliver(bytes)
    }

    func receivedEnd() {
        hasInputEnded = true
        if held.isEmpty, !isDelivering { endContent() }
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer) {
        startContentClock()
        var position = 0
        let bytes = bytes.bindMemory(to: UInt8.self)
        isDelivering = true
        while position < bytes.count, let progress = state.current, !progress.content.isWhole {
            switch state.takeContent(Span(_unsafeElements: bytes), &position, limit: table.settings.contentLimitBytes) {
            case .piece(let range, let isLast):
                exchange?.requestContent(Span(_unsafeElements: UnsafeBufferPointer(rebasing: bytes[range])))
                if isLast { notifyEnd() }
            case .failed(let action): perform(action)
            case .ended, .needsMore: break
            }
        }
        isDelivering = false
        if state.current?.isContentPaused != true { giveBack() }
    }

    private func endContent() {
        if state.endContent() { notifyEnd() }
    }

    private func notifyEnd() {
        guard state.current != nil else { return }
        readDeadline = 0
        exchange?.requestEnded()
    }

    /// Returns received bytes to the stream's flow-control window.
    private func giveBack() {
        connection.consumeStream(unconsumedBytes, on: number)
        unconsumedBytes = 0
    }

    /// Drops buffered content that is no longer needed.
    func forgetContent() {
        held = []
        if !isDelivering { giveBack() }
    }

    /// Starts to discard the rest of the content after the whole response was sent.
    func beginDiscarding() {
        table.counters[.uploadsDiscarded] += 1
        discarding = table.budget.discard(for: client.clientAddress)
        guard discarding != nil else { return cutContent() }
        forgetContent()
        readDeadline = table.deadline(after: table.settings.discarding.timeout)
    }

    private func discard(_ count: Int) {
        discardedBytes += count
        if discardedBytes > table.settings.discarding.bytes { cutContent() } else { giveBack() }
    }

    /// Tells the client to stop sending content (RFC 9113 §8.1).
    private func cutContent() {
        if !isReset { table.counters[.uploadsCut] += 1 }
        connection.reset(self, .noError)
    }

    private func startContentClock() {
        if state.hasResponded { return }
        let pauseDeadline = table.deadline(after: table.settings.contentTimeout)
        readDeadline = contentDeadline > 0 ? min(pauseDeadline, contentDeadline) : pauseDeadline
    }

    /// Reports a change of the memory that the stream holds: content in both directions.
    func noteMemory() {
        let bytes = held.count + output.heldBytes
        if bytes != heldBytes { connection.noteMemory(bytes, of: self) }
    }

    // MARK: Actions of the state machine

    func perform(_ action: ConnectionState.Action) {
        switch action {
        // HTTP/2 streams do not switch protocols (RFC 9113 §8.6).
        case .nothing, .awaitRequest, .close, .linger, .notifyEnd, .endContent: break
        case .abandon: connection.reset(self, .cancel)
        case .refuse(let rejection):
            dismissExchange()
            refuse(rejection)
        case .abort(let rejection):
            dismissExchange()
            connection.receiver.refused(rejection.kind, on: self)
            abortResponse()
        }
    }

    private func dismissExchange() {
        let exchange = self.exchange
        self.exchange = nil
        exchange?.clientLeft()
    }

    /// Responds to a request that is not passed to the receiver.
    private func refuse(_ rejection: RequestRejection) {
        guard !state.isClosed else { return }
        state.refuse()
        let response = rejection.response(date: table.loop.time.wallMilliseconds / 1000)
        connection.receiver.refused(rejection.kind, on: self)
        sendWhole(head: response.head, body: .bytes(response.content))
    }

    func checkDeadline(_ now: Int64) {
        if writeDeadline > 0, now >= writeDeadline {
            table.counters[.connectionsTimedOut] += 1
            return connection.reset(self, .cancel)
        }
        guard readDeadline > 0, now >= readDeadline, !state.hasResponded else { return }
        readDeadline = 0
        if discarding != nil { return cutContent() }
        table.counters[.connectionsTimedOut] += 1
        perform(state.readTimeoutPassed())
    }

    /// Deadline of the current wait for the client; 0 while the stream does not wait for its client.
    var clientDeadline: Int64 { writeDeadline > 0 ? writeDeadline : readDeadline }

    /// Called when the stream has ended.
    func close() {
        guard !state.isClosed else { return }
        giveBack()
        state.close()
        let exchange = self.exchange
        (self.exchange, discarding) = (nil, nil)
        // Most streams hold no output at their end.
        if !output.isEmpty { output = OutputQueue() }
        if !held.isEmpty { held = [] }
        pendingHead = nil
        noteMemory()
        exchange?.clientLeft()
    }
}

extension HTTP2Stream: ClientStream {
    var peer: PeerAddress { connection.peer }
    var companion: (any ConnectionCompanion)? {
        get { nil }
        set {}
    }
    var isMultiplexed: Bool { true }
    var listener: Listener { connection.listener }
    var security: ConnectionSecurity? { connection.security }

    func attribute(to client: RequestClient) { self.client = client }

    func handOver(to exchange: any ClientExchange) {
        guard let progress = state.current, progress.response != .ended else { return }
        contentDeadline = 0
        self.exchange = exchange
    }

    func startContentTotal() { contentDeadline = table.deadline(after: table.settings.contentTotal) }

    func pauseContent() {
        state.pauseContent()
        readDeadline = 0
    }

    func resumeContent() {
        guard state.resumeContent() else { return }
        startContentClock()
        // The exchange may call this during the delivery of content. Buffered content is then delivered afterwards.
        if isDelivering { return }
        let bytes = held
        held = []
        if bytes.isEmpty { giveBack() } else { bytes.withUnsafeBytes { deliver($0) } }
        noteMemory()
        if hasInputEnded, held.isEmpty { endContent() }
        connection.pushLater()
    }

    var isContinueAwaited: Bool { state.current?.isContinueAwaited ?? false }

    func sendContinue() {
        guard state.takeContinue() else { return }
        sendInformational(ResponseHead(status: 100))
        if state.current?.takesContent == true { startContentClock() }
    }

    /// Always false: a client ends its side of the stream after each request and continues to read.
    var hasPeerEnded: Bool { false }
}
