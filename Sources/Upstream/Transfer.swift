// One exchange with the upstream, between the connection that carries its bytes and its receiver. `TransferProgress` determines its state
// and timeouts; `PendingContent` buffers the request's content. Used on the client's loop only.

import HTTPCore
import Reactor

/// What a transfer waits for, or what carries it.
enum TransferCarrier {
    /// The transfer has not started or has ended.
    case none
    /// The queue for connections.
    case queue(ConnectionQueue<Transfer>.Waiter)
    /// A connection that is being established.
    case attempt(ConnectionAttempt)
    /// An HTTP/1.1 connection.
    case connection(OriginConnection)
    /// A stream of an HTTP/2 connection.
    case exchange(HTTP2Exchange)

    /// Whether the upstream's name has been resolved.
    fileprivate var hasResolved: Bool {
        switch self {
        case .none, .queue: false
        case .attempt(let attempt): attempt.hasResolved
        case .connection, .exchange: true
        }
    }
}

/// How a transfer ends.
enum TransferEnd {
    /// The response is complete by its framing.
    /// - Parameter isDelimited: false if only the end of the connection marked the end.
    case whole(isDelimited: Bool)
    case failed(UpstreamError)
}

public final class Transfer {
    enum Joining {
        case no, joined
        /// The joined attempt failed. The transfer retries once.
        case joinedFailedAttempt
    }

    let client: UpstreamClient
    public let request: UpstreamRequest
    var carrier = TransferCarrier.none
    /// The connections of the address that it uses; nil before it starts.
    var connections: OriginConnections?
    /// Index of the upstream address in use.
    public var address: Int { connections?.addressIndex ?? 0 }
    /// Number of times that it has moved to another address.
    var moves = 0
    /// Index in the client's array of active transfers.
    var activeIndex = 0
    /// Whether the transfer holds the shares that its request names.
    var holdsShares = false
    /// Additional shares that the transfer holds.
    var joinedShares: ConnectionShares = []
    /// Bytes of content that the connection had taken at the last measurement; nil before the first.
    private var measuredBytes: Int?
    /// Whether the client has sent little of its content between the last two measurements, and the connection has taken all of it.
    private(set) var isSlowUpload = false
    /// The newest connection (`HTTP2OriginConnection.number`) when the connection that carried this transfer was found dead; nil if none
    /// was.
    var newestWhenFoundDead: Int?
    /// Addresses of the upstream's name on which this transfer has failed: the TLS handshake, or a new connection without a response. Further
    /// attempts use other ones.
    private(set) var failedAddresses: [NamedAddress] = []
    /// Whether the transfer, or its response, may end an HTTP/2 connection. It then uses a connection without other exchanges.
    var isSeparated = false
    /// Whether it must use HTTP/1.1, because it was alone on an HTTP/2 connection that it broke.
    var needsHTTP1 = false
    /// Whether the transfer has connection-based credentials, so that no other request may share its connection.
    let signsIn: Bool
    /// Whether the transfer waited for a connection that was established for another request.
    var joining = Joining.no
    /// Whether the upstream may have received a part of the request.
    public private(set) var mayHaveArrived = false
    /// Whether the whole request was sent.
    public var isSent: Bool {
        switch carrier {
        case .connection(let connection): connection.hasSentRequest
        case .exchange(let exchange): exchange.isSent && content.state == .taken
        case .none, .queue, .attempt: false
        }
    }
    /// HTTP version of the current or last connection; nil if there was none.
    public internal(set) var spoken: SpokenProtocol?
    /// Retained until the transfer ends, so that a fetch continues after its client has disconnected.
    private(set) var receiver: (any TransferReceiver)?
    /// The fault that is injected to simulate an outage; nil for none.
    public let fault: InjectedFault?
    private var isPausedByFlow = false
    /// Whether the flow has cancelled the transfer; it receives no more events then.
    private(set) var isCancelled = false
    public private(set) var times = TransferTimes()
    private var progress: TransferProgress
    private var content: PendingContent
    private let began = SystemTime.monotonicMicroseconds

    /// Size in bytes of the pieces in which a connection takes the request's content.
    private static let pieceBytes = 16 * 1024

    init(
        client: UpstreamClient, request: consuming UpstreamRequest, receiver: any TransferReceiver, fault: InjectedFault? = nil, now: Int64
    ) {
        self.fault = fault
        self.client = client
        content = PendingContent(isEmpty: !request.hasContent)
        signsIn = ConnectionAuthentication.isUsed(by: request.fields)
        self.request = request
        self.receiver = receiver
        progress = TransferProgress(now: now)
    }

    // MARK: The flow's side

    /// Whether the transfer waits for a connection and nothing was sent.
    public var isQueued: Bool { progress.state == .queued }
    /// Whether the transfer waits for other requests of its client, while requests of other clients may be served.
    public var waitsForOwnClient: Bool {
        guard isQueued, let waiting = connections?.waiting else { return false }
        return request.shares.contains { $0.name.isOfClient && !waiting.hasCapacity($0) }
            && request.shares.allSatisfy { $0.name.isOfClient || waiting.hasCapacity($0) }
    }

    /// Adds content of the request. Returns false if the flow should pause until `transferDrained`.
    public func write(_ bytes: Span<UInt8>) -> Bool {
        client.loop.assertOnLoop()
        guard !progress.hasEnded else { return true }
        if content.append(bytes) { sendMore(atOnce: bytes.count >= Self.pieceBytes) }
        return !content.holdFlowBack(isQueued: isQueued)
    }

    /// Sets the whole content of the request, instead of `write` and `endContent`. The array is held and not copied.
    public func write(whole bytes: [UInt8]) {
        client.loop.assertOnLoop()
        guard !progress.hasEnded else { return }
        if content.appendWhole(bytes) { sendMore() }
    }

    /// Marks the request's content as complete.
    public func endContent() {
        client.loop.assertOnLoop()
        if content.close() { sendMore() }
    }

    /// Determines `isSlowUpload`.
    /// - Parameter least: bytes since the last measurement from which an upload is not slow.
    func measureUpload(_ least: Int) {
        isSlowUpload = content.state == .awaited && measuredBytes.map { content.takenBytes - $0 < least } ?? false
        measuredBytes = content.takenBytes
    }

    /// - Parameter atOnce: whether an HTTP/1.1 connection sends the content now, not at the end of the batch of events.
    private func sendMore(atOnce: Bool = true) {
        switch carrier {
        case .none, .queue, .attempt: break
        case .connection(let connection): connection.sendMore(for: self, atOnce: atOnce)
        case .exchange(let exchange): exchange.connection.sendMore(for: exchange)
        }
    }

    /// Pauses delivery of the response's content. Content that has already arrived is buffered.
    public func pause() {
        client.loop.assertOnLoop()
        isPausedByFlow = true
        hold()
    }

    public func resume() {
        client.loop.assertOnLoop()
        isPausedByFlow = false
        release()
    }

    /// Pauses delivery without marking the flow as paused. For objects between the transfer and the flow.
    func hold() { note(.paused) }

    func release() {
        guard !isPausedByFlow, case .readOn = progress.handle(.resumed, at: client.coarseNow) else { return }
        switch carrier {
        case .none, .queue, .attempt: break
        case .connection(let connection): client.loop.atEndOfBatch { connection.readOn(for: self) }
        case .exchange(let exchange): client.loop.atEndOfBatch { exchange.connection.readOn(for: exchange) }
        }
    }

    /// Ends the transfer. The receiver gets no more events.
    public func cancel() {
        client.loop.assertOnLoop()
        isCancelled = true
        receiver = nil
        giveUp(.connectionTerminated)
    }

    // MARK: The carrier's side

    /// Treats the response as a stream after its head. Only pauses in it are limited, and it counts among the streams, which may hold only
    /// a part of the connections.
    /// - Returns: false if streams already hold that many.
    public func becomeStream() -> Bool {
        client.loop.assertOnLoop()
        guard !progress.hasEnded, client.admitStream(self) else { return false }
        note(.streamBegan)
        return true
    }

    /// Must be called when the client begins to receive the content as it arrives, and when it no longer does. Meanwhile only pauses are
    /// limited.
    public func forwards(_ isForwarded: Bool) {
        client.loop.assertOnLoop()
        progress.isForwarded = isForwarded
    }

    var isStream: Bool { progress.isStream }
    var hasEnded: Bool { progress.hasEnded }

    func note(_ event: TransferProgress.Event) { _ = progress.handle(event, at: client.coarseNow) }

    /// Excludes an address from further attempts.
    /// - Returns: false if it was excluded before.
    @discardableResult
    func exclude(_ address: NamedAddress?) -> Bool {
        guard let address, !failedAddresses.contains(address) else { return false }
        failedAddresses.append(address)
        return true
    }

    /// Called before the request waits for another connection. If it was sent, content that is still buffered is sent again. The upstream
    /// has not processed an unsafe request then.
    func queueAgain() {
        note(.queuedAgain)
        times.sent = -1
        if !request.isRepeatable { mayHaveArrived = false }
        content.rewind()
    }

    /// Called when a connection is available and the request is sent.
    /// - Parameter connection: times of the connection's phases; other times are ignored.
    func beginRequest(_ connection: TransferTimes) {
        receiver?.transferBegins()
        (times.resolved, times.connected, times.secured) = (connection.resolved, connection.connected, connection.secured)
        times.sent = elapsed
        // An injected refusal is like a real one: nothing is sent.
        mayHaveArrived = fault?.effect != .refuse
        note(.sendingBegan)
    }

    /// Takes the next piece of the request's content. If none is available, the connection is notified later.
    func takeContent(into output: inout [UInt8]) -> PendingContent.Piece {
        note(.bytesSent)
        let piece = content.take(upTo: Self.pieceBytes, inChunks: request.content == .chunked, into: &output)
        if content.releaseFlow() { client.loop.atEndOfBatch { self.receiver?.transferDrained(self) } }
        return piece
    }

    /// Returns the number of bytes of content that may be taken now, without framing; nil if none are available.
    func offerRequestContent(upTo limit: Int) -> (count: Int, isLast: Bool)? { content.offer(upTo: limit) }

    /// Takes offered bytes. `buffer` must have the offered size.
    func takeRequestContent(into buffer: UnsafeMutableRawBufferPointer) {
        note(.bytesSent)
        content.take(into: buffer)
        if content.releaseFlow() { client.loop.atEndOfBatch { self.receiver?.transferDrained(self) } }
    }

    /// Called when the connection has taken the whole content of the request.
    func noteRequestEnd() {
        note(.bytesSent)
        content.noteEnd()
    }

    var needsNewConnection: Bool { progress.needsNewConnection }

    /// Whether the transfer needs an HTTP/1.1 connection that is in no pool.
    var needsOwnConnection: Bool { signsIn || request.owned != nil }

    /// Whether the request may be sent again, after its connection ended without a line of a response.
    func mayBeRepeated(onKept: Bool, isUnwritten: Bool, isRefused: Bool) -> Bool {
        progress.mayBeRepeated(request, content, onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused)
    }

    /// Called when whole lines of a head, or a complete head, have arrived.
    func noteHeadLines() {
        if times.firstByte < 0 { times.firstByte = elapsed }
        note(.headLinesCame)
        content.releaseTaken()
    }

    func take(informational head: ResponseHead) {
        noteHeadLines()
        note(.informationalCame)
        // 100 (Continue) is passed only to a client that requested it.
        if head.status != 100 || request.fields.contains(.expect) { receiver?.transfer(self, informational: head) }
    }

    func take(final head: consuming ResponseHead) {
        noteHeadLines()
        receiver?.transfer(self, received: head)
    }

    /// Reports that content has arrived.
    /// - Returns: whether the flow takes it now. Otherwise the connection buffers it until it is notified.
    func offerContent() -> Bool {
        if case .holdBack = progress.handle(.contentCame, at: client.coarseNow) { false } else { true }
    }

    // MARK: Ends

    /// Ends the transfer, which must have been removed from its carrier, and notifies the receiver if there is one.
    func end(_ end: TransferEnd) {
        guard !progress.hasEnded else { return }
        client.remove(self)
        note(.ended)
        carrier = .none
        connections = nil
        // The flow may retain the transfer for longer, so the content is released here.
        content = PendingContent(isEmpty: true)
        times.ended = elapsed
        guard let receiver else { return }
        self.receiver = nil
        switch end {
        case .whole(let isDelimited): receiver.transferEnded(self, isDelimited: isDelimited)
        case .failed(let error): receiver.transferFailed(self, error)
        }
    }

    /// Ends the transfer with a local error, after removing it from its carrier.
    func giveUp(_ error: UpstreamError) {
        guard !progress.hasEnded else { return }
        switch carrier {
        case .none: break
        case .queue(let waiter): connections?.leaveQueue(waiter)
        case .attempt(let attempt): attempt.abandon(self)
        case .connection(let connection): connection.abandon(self)
        case .exchange(let exchange): exchange.connection.abandon(exchange)
        }
        end(.failed(error))
    }

    // MARK: Time

    private var elapsed: Int32 { Int32(clamping: SystemTime.monotonicMicroseconds - began) }

    /// The error of the timeout that has passed; nil if none has.
    func overdue(at now: Int64) -> UpstreamError? {
        // Content of a tunnel follows the response's head, so before that the request counts as completely sent.
        let content = request.content == .tunnel ? .taken : content.state
        return progress.overdue(at: now, client.limits, content, hasResolved: carrier.hasResolved)
    }
}
