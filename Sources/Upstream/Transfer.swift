// One exchange with the upstream: what carries its bytes on one side, the receiver on the other. What it waits for is said by `TransferProgress`, what
// of the request's content goes out by `PendingContent`. On the client's loop only.

import FaultInjection
import HTTPCore
import Reactor

/// What a transfer is with.
enum TransferCarrier {
    /// It has not begun, or is over.
    case none
    /// The queue for connections.
    case queue(ConnectionQueue<Transfer>.Place)
    /// A connection in the making.
    case attempt(ConnectionAttempt)
    /// A connection that carries its bytes, and no other's.
    case connection(OriginConnection)
    /// A stream of a connection that carries several.
    case exchange(HTTP2Exchange)

    /// Whether the upstream's name has been looked up.
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
    /// - Parameter isDelimited: false where only the end of the connection marked the end.
    case whole(isDelimited: Bool)
    case failed(UpstreamError)
}

public final class Transfer {
    enum Joining {
        case no, joined
        /// That could not be made. It asks once more.
        case joinedInVain
    }

    let client: UpstreamClient
    public let request: UpstreamRequest
    var carrier = TransferCarrier.none
    /// Those of the address that it asks; nil before it begins.
    var connections: OriginConnections?
    /// Which of the upstream's addresses it asks, by its place.
    public var address: Int { connections?.place ?? 0 }
    /// How often it has gone on to another address.
    var moves = 0
    /// Where the client keeps it among those that run.
    var place = 0
    /// Whether it holds its part of the shares that its request names.
    var holdsShares = false
    /// One more that it holds then.
    var joinedShare: ConnectionShare?
    /// The newest connection (`HTTP2OriginConnection.number`) when the one that carried it was found dead; nil where none was.
    var newestWhenFoundDead: Int?
    /// It may break the rules of HTTP/2, or its response did perhaps: it goes over a connection that carries nothing else.
    var isKeptApart = false
    /// That speaks HTTP/1.1: nothing else was on the connection of HTTP/2 on which it has failed.
    var needsHTTP1 = false
    /// Its credentials are those of a connection, wherever it comes from: no other request may share that.
    let signsIn: Bool
    /// Whether it waited for a connection that was made for another request.
    var joining = Joining.no
    /// What is spoken on the connection that carries it, or has last; nil where none has.
    public internal(set) var spoken: SpokenProtocol?
    /// Held until the transfer ends: so a fetch whose client left goes on.
    private(set) var receiver: (any TransferReceiver)?
    /// What is injected into it, to practise an outage.
    public let fault: InjectedFault?
    private var isPausedByFlow = false
    /// The flow wants to hear nothing more.
    private(set) var isCancelled = false
    public private(set) var times = TransferTimes()
    private var progress: TransferProgress
    private var content: PendingContent
    private let began = SystemTime.monotonicMicroseconds

    /// Of the request's content, a connection takes pieces of this size.
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

    /// Whether it waits for a connection, with nothing sent.
    public var isQueued: Bool { progress.state == .queued }

    /// More of the request's content. Returns false where the flow should wait for `transferDrained`.
    public func write(_ bytes: Span<UInt8>) -> Bool {
        client.loop.assertOnLoop()
        guard !progress.hasEnded else { return true }
        if content.append(bytes) { sendMore() }
        return !content.holdFlowBack(isQueued: isQueued)
    }

    /// All of the request's content, in the place of `write` and `endContent`: held and not copied.
    public func write(whole bytes: [UInt8]) {
        client.loop.assertOnLoop()
        guard !progress.hasEnded else { return }
        if content.appendWhole(bytes) { sendMore() }
    }

    /// The request's content is whole.
    public func endContent() {
        client.loop.assertOnLoop()
        if content.close() { sendMore() }
    }

    private func sendMore() {
        switch carrier {
        case .none, .queue, .attempt: break
        case .connection(let connection): connection.sendMore(for: self)
        case .exchange(let exchange): exchange.connection.sendMore(for: exchange)
        }
    }

    /// Takes no more of the response's content for now. What arrived already is held.
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

    /// The same, for what is between it and the flow.
    func hold() { note(.paused) }

    func release() {
        guard !isPausedByFlow, case .readOn = progress.handle(.resumed, at: client.coarseNow) else { return }
        switch carrier {
        case .none, .queue, .attempt: break
        case .connection(let connection): connection.readOn(for: self)
        case .exchange(let exchange): exchange.connection.readOn(for: exchange)
        }
    }

    /// Ends it; the receiver hears nothing more.
    public func cancel() {
        client.loop.assertOnLoop()
        isCancelled = true
        receiver = nil
        giveUp(.connectionTerminated)
    }

    // MARK: The carrier's side

    /// The response whose head has come is a stream: from now on only its pauses are bounded, and it is one of those that hold half of the
    /// connections at most.
    /// - Returns: false where they do already.
    public func becomeStream() -> Bool {
        client.loop.assertOnLoop()
        guard !progress.hasEnded, client.admitStream(self) else { return false }
        note(.streamBegan)
        return true
    }

    var isStream: Bool { progress.isStream }
    var hasEnded: Bool { progress.hasEnded }

    private func note(_ event: TransferProgress.Event) { _ = progress.handle(event, at: client.coarseNow) }

    /// A connection is being made for it.
    func noteConnecting() { note(.connectionBegan) }

    /// It is to be sent again, on another connection.
    func noteQueuedAgain() { note(.queuedAgain) }

    /// A connection is there and the request goes out now.
    /// - Parameter connection: when its phases ended; the rest is not looked at.
    func beginRequest(_ connection: TransferTimes) {
        receiver?.transferBegins(self)
        (times.resolved, times.connected, times.secured) = (connection.resolved, connection.connected, connection.secured)
        times.sent = elapsed
        note(.sendingBegan)
    }

    /// Bytes of it have gone out.
    func noteSent() { note(.bytesSent) }

    /// The next piece of the request's content. Where there is none yet, the connection is called when there is.
    func takeContent(into output: inout [UInt8]) -> PendingContent.Piece {
        note(.bytesSent)
        let piece = content.take(upTo: Self.pieceBytes, inChunks: request.content == .chunked, into: &output)
        if content.releaseFlow() { client.loop.atEndOfBatch { self.receiver?.transferDrained(self) } }
        return piece
    }

    /// How much of the request's content may be taken now, without anything around it; nil where there is none yet.
    func offerRequestContent(upTo limit: Int) -> (count: Int, isLast: Bool)? { content.offer(upTo: limit) }

    /// Takes what was offered, which fills the place.
    func takeRequestContent(into place: UnsafeMutableRawBufferPointer) {
        note(.bytesSent)
        content.take(into: place)
        if content.releaseFlow() { client.loop.atEndOfBatch { self.receiver?.transferDrained(self) } }
    }

    /// The connection has taken all of the request's content.
    func noteRequestEnd() {
        note(.bytesSent)
        content.noteEnd()
    }

    var needsNewConnection: Bool { progress.needsNewConnection }

    /// It goes over a connection of HTTP/1.1 that is in no pool.
    var needsOwnConnection: Bool { signsIn || request.owned != nil }

    /// After its connection ended without a line of a response.
    func mayBeRepeated(onKept: Bool, isUnwritten: Bool, isRefused: Bool) -> Bool {
        progress.mayBeRepeated(request, content, onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused)
    }

    /// Whole lines of a head have come, or all of one.
    func noteHeadLines() {
        if times.firstByte < 0 { times.firstByte = elapsed }
        note(.headLinesCame)
    }

    func take(informational head: ResponseHead) {
        noteHeadLines()
        note(.informationalCame)
        // 100 is for who asked for it.
        if head.status != 100 || request.fields.contains(.expect) { receiver?.transfer(self, informational: head) }
    }

    func take(final head: consuming ResponseHead) {
        noteHeadLines()
        receiver?.transfer(self, received: head)
    }

    /// Content has come.
    /// - Returns: whether it is taken now. If not, the connection keeps it until it is called.
    func offerContent() -> Bool {
        if case .holdBack = progress.handle(.contentCame, at: client.coarseNow) { false } else { true }
    }

    func take(content bytes: Span<UInt8>) { receiver?.transfer(self, content: bytes) }

    // MARK: Ends

    /// It is over, and nothing carries it any more. The receiver is told, if there still is one.
    func end(_ end: TransferEnd) {
        guard !progress.hasEnded else { return }
        client.remove(self)
        note(.ended)
        carrier = .none
        connections = nil
        // Who asked may hold the transfer for longer.
        content = PendingContent(isEmpty: true)
        times.ended = elapsed
        guard let receiver else { return }
        self.receiver = nil
        switch end {
        case .whole(let isDelimited): receiver.transferEnded(self, isDelimited: isDelimited)
        case .failed(let error): receiver.transferFailed(self, error)
        }
    }

    /// We end it ourselves: who carries it lets go of it first.
    func giveUp(_ error: UpstreamError) {
        guard !progress.hasEnded else { return }
        switch carrier {
        case .none: break
        case .queue(let place): connections?.leaveQueue(place)
        case .attempt(let attempt): attempt.abandon(self)
        case .connection(let connection): connection.abandon(self)
        case .exchange(let exchange): exchange.connection.abandon(exchange)
        }
        end(.failed(error))
    }

    // MARK: Time

    private var elapsed: Int32 { Int32(clamping: SystemTime.monotonicMicroseconds - began) }

    /// The time-out that has passed, if any, as the error that it is.
    func overdue(at now: Int64) -> UpstreamError? {
        // What goes through a tunnel comes after the response's head: until then the upstream has all of the request.
        let content = request.content == .tunnel ? .taken : content.state
        return progress.overdue(at: now, client.limits, content, hasResolved: carrier.hasResolved)
    }
}
