// One exchange with the upstream: what carries its bytes on one side, the receiver on the other. On the client's loop only.

import HTTPCore
import Reactor

/// What a transfer is with: the queue for connections, a connection in the making, or one that carries its bytes.
protocol TransferCarrier: AnyObject {
    /// Whether the upstream's name has been looked up.
    var hasResolved: Bool { get }
    /// Goes on where the transfer would take no more content, or had none to send.
    func goOn(_ transfer: Transfer)
    /// The transfer is over before its answer is: nothing more is told to it.
    func abandon(_ transfer: Transfer)
}

package final class Transfer {
    /// What the transfer waits for: each has a time-out of its own. Queued: every connection that we allow ourselves is in use.
    enum Phase { case queued, connecting, sending, awaitingHead, receiving, ended }

    /// What became of content that was offered.
    enum Taking { case taken, held, refused }

    let client: UpstreamClient
    let request: UpstreamRequest
    var carrier: (any TransferCarrier)?
    /// Where the client keeps it among those that run.
    var place = 0
    /// While it waits for a connection.
    var queuePlace: ConnectionQueue<Transfer>.Place?
    /// Whether it holds its part of the shares that its request names.
    var holdsShares = false
    /// Held until the transfer ends: so a fetch whose client left goes on.
    var receiver: (any TransferReceiver)?
    private(set) var phase = Phase.queued
    package private(set) var times = TransferTimes()
    /// Why we ended it ourselves; it comes before what the carrier says.
    var failure: UpstreamError?
    /// What marks the end of the response's content; nil as long as its head is not whole.
    private(set) var framing: ResponseHeadParser.Framing?
    /// Whether any line of a response has come.
    package private(set) var gotBytes = false

    /// Milliseconds of the loop's clock.
    private let startedAt: Int64
    private var progressAt: Int64
    private let began = SystemTime.monotonicMicroseconds
    private let limits: TransferLimits
    private var head = ResponseHeadParser()
    /// Takes the transfer coding off.
    private var chunks: ChunkedDecoder?
    /// How often it was begun to be sent.
    private var sendings = 0
    private var isPaused = false
    private var isContentHeld = false

    // The request's content on its way out.
    private var upload: [UInt8] = []
    private var uploadSent = 0
    private var hasSentContent = false
    private var isUploadEnded: Bool
    private var isUploadAwaited = false
    private var wantsDrainCall = false

    /// What may wait to be sent to the upstream before the client is held back: on a connection, and before there is one.
    private static let uploadHighWaterBytes = 256 * 1024
    private static let queuedUploadBytes = 16 * 1024

    init(client: UpstreamClient, request: consuming UpstreamRequest, receiver: any TransferReceiver, now: Int64) {
        self.client = client
        isUploadEnded = !request.hasContent
        self.request = request
        self.receiver = receiver
        limits = client.limits
        startedAt = now
        progressAt = now
    }

    // MARK: What the flow asks

    /// Whether it waits for a connection, with nothing sent.
    package var isQueued: Bool { phase == .queued }

    /// More of the request's content. Returns false where the flow should wait for `transferDrained`.
    package func write(_ bytes: Span<UInt8>) -> Bool {
        client.loop.assertOnLoop()
        guard phase != .ended else { return true }
        upload.append(copying: bytes)
        goOnSending()
        // A call that is owed already stays owed, whatever goes out meanwhile.
        let highWater = phase == .queued ? Self.queuedUploadBytes : Self.uploadHighWaterBytes
        if upload.count - uploadSent > highWater { wantsDrainCall = true }
        return !wantsDrainCall
    }

    /// All of the request's content, in the place of `write` and `endContent`: held and not copied, which takes long where it is long.
    package func write(whole bytes: [UInt8]) {
        guard phase != .ended else { return }
        upload = bytes
        endContent()
    }

    /// The request's content is whole.
    package func endContent() {
        client.loop.assertOnLoop()
        isUploadEnded = true
        goOnSending()
    }

    /// Takes no more of the response for now. What arrived already is held.
    package func pause() { isPaused = true }

    package func resume() {
        client.loop.assertOnLoop()
        isPaused = false
        noteProgress()
        guard isContentHeld else { return }
        isContentHeld = false
        carrier?.goOn(self)
    }

    /// Ends it; the receiver hears nothing more.
    package func cancel() {
        client.loop.assertOnLoop()
        guard phase != .ended else { return }
        receiver = nil
        client.end(self)
    }

    private func goOnSending() {
        guard isUploadAwaited else { return }
        isUploadAwaited = false
        carrier?.goOn(self)
    }

    // MARK: What the carrier says

    /// A connection is being made for it: its name is looked up, or its socket is there.
    func connectionBegins() {
        guard phase == .queued else { return }
        phase = .connecting
        noteProgress()
    }

    /// It is to be sent again, on another connection.
    func isQueuedAgain() {
        phase = .queued
        noteProgress()
    }

    /// A connection is there and the request goes out now.
    /// - Parameter connection: when its phases ended; the rest is not looked at.
    func beginRequest(_ connection: TransferTimes) {
        sendings += 1
        receiver?.transferBegins(self)
        (times.resolved, times.connected, times.secured) = (connection.resolved, connection.connected, connection.secured)
        times.sent = elapsed
        phase = phaseBeforeResponse
        noteProgress()
    }

    private var phaseBeforeResponse: Phase { isUploadEnded && upload.isEmpty ? .awaitingHead : .sending }

    /// After its connection ended without a line of a response.
    func mayBeRepeated(onKept: Bool, isUnwritten: Bool) -> Bool {
        RepeatRule(
            isRepeatable: request.isRepeatable, isFirst: sendings < 2, gotBytes: gotBytes, hasSentContent: hasSentContent, onKept: onKept,
            isUnwritten: isUnwritten
        ).isAllowed
    }

    /// It has found a connection dead: the other kept ones may be as well.
    var needsNewConnection: Bool { sendings > 0 }

    /// Takes the whole lines at the start of `bytes`, up to the end of a head.
    /// - Returns: their length, 0 where the first has no end yet; nil where the transfer is over.
    func takeHead(_ bytes: Span<UInt8>) -> Int? {
        let (event, count) = head.take(bytes, limits: limits.head)
        guard count > 0 else { return 0 }
        gotBytes = true
        if times.firstByte < 0 { times.firstByte = elapsed }
        phase = .receiving
        noteProgress()
        switch event {
        case .more, .trailer: return count
        case .informational(let head):
            // The answer has yet to come, and perhaps the rest of the request to go out.
            phase = phaseBeforeResponse
            // 100 is for who asked for it.
            if head.status != 100 || request.fields.contains(.expect) { receiver?.transfer(self, informational: head) }
        case .final(let head, let framing):
            self.framing = request.method == .head ? .byProtocol : framing
            if self.framing == .chunked { chunks = ChunkedDecoder() }
            receiver?.transfer(self, received: head)
        case .refused(let rejection):
            failure = UpstreamError(rejection)
            return nil
        }
        return receiver == nil ? nil : count
    }

    /// The first bytes of a line whose end has not come.
    /// - Returns: false where no end could make them one of a head.
    func headLineBegins(_ bytes: Span<UInt8>) -> Bool {
        failure = head.problem(withPartOfLine: bytes, limits: limits.head).map(UpstreamError.init)
        return failure == nil
    }

    /// Whether the connection may be used again after this answer (RFC 9112 §9.3). Known once the head is whole.
    var isPersistent: Bool { head.isPersistent }

    /// How long the upstream said that it keeps the connection, in milliseconds. Known once the head is whole.
    var keepAlive: Int64? { head.keepAlive }

    /// Content as it came, with its transfer coding.
    func content(_ bytes: Span<UInt8>) -> Taking {
        noteProgress()
        if isPaused {
            isContentHeld = true
            return .held
        }
        if chunks != nil { return chunkedContent(bytes) }
        receiver?.transfer(self, content: bytes)
        return receiver == nil ? .refused : .taken
    }

    private func chunkedContent(_ bytes: Span<UInt8>) -> Taking {
        var position = 0
        while receiver != nil, let event = chunks?.next(bytes, &position) {
            switch event {
            case .content(let range): receiver?.transfer(self, content: bytes.extracting(range))
            case .needsMore: return .taken
            case .end where position == bytes.count: return .taken
            case .end, .refused:
                failure = .protocolError
                return .refused
            }
        }
        return .refused
    }

    /// Whether the last chunk has come.
    var hasLastChunk: Bool { chunks?.isAtEnd ?? false }

    /// Copies what may be sent of the request's content.
    /// - Returns: zero where all of it has been sent; nil where there is none now: the carrier hears when there is.
    func readContent(into space: UnsafeMutableRawBufferPointer) -> Int? {
        noteProgress()
        let available = upload.count - uploadSent
        guard available > 0 else {
            isUploadAwaited = !isUploadEnded
            if isUploadEnded, phase == .sending { phase = .awaitingHead }
            return isUploadEnded ? 0 : nil
        }
        let count = min(available, space.count)
        upload.withUnsafeBytes { space.baseAddress!.copyMemory(from: $0.baseAddress! + uploadSent, byteCount: count) }
        uploadSent += count
        hasSentContent = true
        if uploadSent == upload.count {
            // What was handed over whole may still be another's: there is no room to keep.
            if upload.count > Self.uploadHighWaterBytes { upload = [] } else { upload.removeAll(keepingCapacity: true) }
            uploadSent = 0
            if isUploadEnded, phase == .sending { phase = .awaitingHead }
        }
        if wantsDrainCall, upload.count - uploadSent <= Self.uploadHighWaterBytes / 4 {
            wantsDrainCall = false
            client.loop.atEndOfBatch { self.receiver?.transferDrained(self) }
        }
        return count
    }

    func noteProgress() { progressAt = client.coarseNow }

    /// Its place among those that run is free already. The receiver is told, if there still is one.
    /// - Parameter error: nil where the response is whole.
    func finished(_ error: UpstreamError?) {
        phase = .ended
        carrier = nil
        times.ended = elapsed
        guard let receiver else { return }
        self.receiver = nil
        if let error = failure ?? error {
            receiver.transferFailed(self, error)
        } else if framing == .chunked, !hasLastChunk {
            receiver.transferFailed(self, .responseIncomplete)
        } else {
            receiver.transferEnded(self, isDelimited: framing != .connectionEnd)
        }
    }

    // MARK: Time

    private var elapsed: Int32 { Int32(clamping: SystemTime.monotonicMicroseconds - began) }

    /// The time-out that has passed at `now`, if any.
    func overdue(at now: Int64) -> UpstreamError? {
        let total = limits.total
        if total > 0, now - startedAt >= total { return totalError }
        let waited = now - progressAt
        switch phase {
        case .queued: return waited >= limits.connect ? .connectionLimitReached : nil
        // The attempt ends in time by itself.
        case .connecting: return nil
        case .sending where isUploadAwaited: return nil
        case .sending: return waited >= limits.betweenBytes ? .connectionWriteTimeout : nil
        case .awaitingHead: return waited >= limits.firstByte ? .connectionReadTimeout : nil
        case .receiving where isPaused: return nil
        case .receiving: return waited >= limits.betweenBytes ? .connectionReadTimeout : nil
        case .ended: return nil
        }
    }

    private var totalError: UpstreamError {
        switch phase {
        case .queued: .connectionLimitReached
        case .connecting: connectingError
        case .sending, .awaitingHead, .receiving, .ended: .responseTimeout
        }
    }

    private var connectingError: UpstreamError { carrier?.hasResolved == true ? .connectionTimeout : .dnsTimeout }
}
