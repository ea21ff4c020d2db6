// One exchange with the upstream: libcurl's callbacks on one side, the receiver on the other. On the client's loop only.

import CLibcurl
import HTTPCore
import Reactor

package final class Transfer {
    /// What the transfer waits for: each has a time-out of its own. Queued: every connection that we allow ourselves is in use.
    enum Phase { case queued, connecting, sending, awaitingHead, receiving, ended }

    let client: UpstreamClient
    var easy: EasyHandle?
    /// The handle's, for as long as `easy` is there.
    let pointer: UnsafeMutableRawPointer
    /// Held until the transfer ends: so a fetch whose client left goes on.
    var receiver: (any TransferReceiver)?
    var phase = Phase.queued
    /// Milliseconds of the loop's clock.
    let startedAt: Int64
    package private(set) var times = TransferTimes()
    private let began = SystemTime.monotonicMicroseconds
    var progressAt: Int64
    /// Why we ended it ourselves; it comes before what libcurl says.
    var failure: UpstreamError?

    private let isIdempotent: Bool
    private let isHead: Bool
    /// Without content: libcurl has no reason to close the connection over it.
    private let isPlain: Bool
    private let settings: UpstreamSettings
    private var head = AnswerHead()
    private var isDelimited = true
    /// Takes the transfer coding off. libcurl finds the end of chunked content too, but lets pass what no chunk may hold, and forgets
    /// what follows the last one.
    private var chunks: ChunkedDecoder?
    /// The answer ends by its length and the connection goes on: libcurl closes it only because of bytes after the end.
    private var keepsConnection = false
    /// Whether any line of an answer has come.
    package private(set) var gotBytes = false
    private var attempts = 0
    private var isPaused = false
    private var isHeldByLibcurl = false

    // The request's content on its way out.
    private var upload: [UInt8] = []
    private var uploadSent = 0
    private var isUploadEnded: Bool
    private var isUploadHeld = false
    private var wantsDrainCall = false

    /// What may wait to be sent to the upstream before the client is held back.
    private static let uploadHighWaterBytes = 256 * 1024

    init(client: UpstreamClient, request: UpstreamRequest, receiver: any TransferReceiver, easy: consuming EasyHandle, now: Int64) {
        self.client = client
        pointer = easy.pointer
        self.easy = consume easy
        self.receiver = receiver
        settings = client.settings
        startedAt = now
        progressAt = now
        isIdempotent = request.method.isIdempotent
        isHead = request.method == .head
        isPlain = request.content == .none || request.content == .length(0)
        isUploadEnded = isPlain
    }

    // MARK: What the flow asks

    /// More of the request's content. Returns false where the flow should wait for `transferDrained`.
    package func write(_ bytes: Span<UInt8>) -> Bool {
        guard phase != .ended else { return true }
        upload.append(copying: bytes)
        continueUpload()
        wantsDrainCall = upload.count - uploadSent > Self.uploadHighWaterBytes
        return !wantsDrainCall
    }

    /// The request's content is whole.
    package func endContent() {
        isUploadEnded = true
        continueUpload()
    }

    /// Takes no more of the answer for now. What arrived already is held.
    package func pause() { isPaused = true }

    package func resume() {
        isPaused = false
        progressAt = client.coarseNow
        guard isHeldByLibcurl else { return }
        isHeldByLibcurl = false
        client.unpause(self)
    }

    /// Ends it; the receiver hears nothing more.
    package func cancel() {
        receiver = nil
        client.cancel(self)
    }

    private func continueUpload() {
        guard isUploadHeld else { return }
        isUploadHeld = false
        client.unpause(self)
    }

    // MARK: What libcurl says

    /// A connection is there and the request goes out now. Called again where libcurl found the connection dead and would repeat it:
    /// for a write never, else once (RFC 9112 §9.3.1).
    func requestBegins() -> Bool {
        attempts += 1
        noteConnection()
        phase = isUploadEnded && upload.isEmpty ? .awaitingHead : .sending
        progressAt = client.coarseNow
        guard attempts > (isIdempotent && uploadSent == 0 ? 2 : 1) else { return true }
        failure = .connectionTerminated
        return false
    }

    /// A connection is being made for it: its name is looked up, or its socket is there.
    func connectionBegins() {
        guard phase == .queued else { return }
        phase = .connecting
        progressAt = client.coarseNow
    }

    func headLine(_ line: Span<UInt8>) -> Bool {
        gotBytes = true
        if times.firstByte < 0 { times.firstByte = elapsed }
        phase = .receiving
        progressAt = client.coarseNow
        switch head.take(line, settings: settings) {
        case .more, .trailer: return true
        case .informational(let head):
            if head.status != 100 { receiver?.transfer(self, informational: head) }
            return receiver != nil
        case .final(let head, let framing):
            isDelimited = framing != .connectionEnd
            if framing == .chunked, !isHead { chunks = ChunkedDecoder() }
            keepsConnection = framing == .length(isPersistent: true) && isPlain
            receiver?.transfer(self, received: head)
            return receiver != nil
        case .refused(let error):
            failure = error
            return false
        }
    }

    func content(_ bytes: Span<UInt8>) -> Int {
        progressAt = client.coarseNow
        if isPaused {
            isHeldByLibcurl = true
            return cistern_write_pause()
        }
        guard chunks == nil else { return chunkedContent(bytes) }
        receiver?.transfer(self, content: bytes)
        return receiver == nil ? 0 : bytes.count
    }

    private func chunkedContent(_ bytes: Span<UInt8>) -> Int {
        var position = 0
        while receiver != nil, let event = chunks?.next(bytes, &position) {
            switch event {
            case .content(let range): receiver?.transfer(self, content: bytes.extracting(range))
            case .needsMore: return bytes.count
            case .end where position == bytes.count: return bytes.count
            case .end, .refused:
                failure = .protocolError
                return 0
            }
        }
        return 0
    }

    func readContent(into space: UnsafeMutableRawBufferPointer) -> Int {
        progressAt = client.coarseNow
        let available = upload.count - uploadSent
        guard available > 0 else {
            guard !isUploadEnded else {
                if phase == .sending { phase = .awaitingHead }
                return 0
            }
            isUploadHeld = true
            return cistern_read_pause()
        }
        let count = min(available, space.count)
        upload.withUnsafeBytes { space.baseAddress!.copyMemory(from: $0.baseAddress! + uploadSent, byteCount: count) }
        uploadSent += count
        if uploadSent == upload.count {
            upload.removeAll(keepingCapacity: true)
            uploadSent = 0
            if isUploadEnded, phase == .sending { phase = .awaitingHead }
        }
        if wantsDrainCall, upload.count - uploadSent <= Self.uploadHighWaterBytes / 4 {
            wantsDrainCall = false
            client.afterCallbacks { self.receiver?.transferDrained(self) }
        }
        return count
    }

    /// The connection is gone although nothing said that it would: bytes came after the end of the answer.
    func connectionWasClosed() {
        if keepsConnection, failure == nil { failure = .protocolError }
    }

    /// libcurl is done with it.
    func finished(_ code: CURLcode) {
        let wasReceiving = phase == .receiving
        phase = .ended
        times.ended = elapsed
        guard let receiver else { return }
        self.receiver = nil
        if code != CURLE_OK || failure != nil {
            receiver.transferFailed(self, failure ?? error(for: code, wasReceiving: wasReceiving))
        } else if let chunks, !chunks.isAtEnd {
            receiver.transferFailed(self, .responseIncomplete)
        } else {
            receiver.transferEnded(self, isDelimited: isDelimited)
        }
    }

    private func error(for code: CURLcode, wasReceiving: Bool) -> UpstreamError {
        let error = UpstreamError(code)
        // A connection that ends within the content is known to libcurl as a receive error or a bad chunk.
        if code == CURLE_RECV_ERROR, wasReceiving { return .responseIncomplete }
        return error
    }

    // MARK: Time

    private var elapsed: Int32 { Int32(clamping: SystemTime.monotonicMicroseconds - began) }

    private func noteConnection() {
        times.sent = elapsed
        for (info, phase) in [
            (CURLINFO_NAMELOOKUP_TIME_T, \TransferTimes.resolved), (CURLINFO_CONNECT_TIME_T, \.connected),
            (CURLINFO_APPCONNECT_TIME_T, \.secured),
        ] {
            var time: curl_off_t = 0
            cistern_easy_get_offset(pointer, info, &time)
            times[keyPath: phase] = Int32(clamping: time)
        }
    }

    /// The time-out that has passed at `now`, if any.
    func overdue(at now: Int64) -> UpstreamError? {
        let total = settings.totalTimeout.wholeMilliseconds
        if total > 0, now - startedAt >= total { return totalError }
        let waited = now - progressAt
        switch phase {
        case .queued: return waited >= settings.connectTimeout.wholeMilliseconds ? .connectionLimitReached : nil
        case .connecting: return waited >= settings.connectTimeout.wholeMilliseconds ? connectingError : nil
        case .sending where isUploadHeld: return nil
        case .sending: return waited >= settings.betweenBytesTimeout.wholeMilliseconds ? .connectionWriteTimeout : nil
        case .awaitingHead: return waited >= settings.firstByteTimeout.wholeMilliseconds ? .connectionReadTimeout : nil
        case .receiving where isPaused: return nil
        case .receiving: return waited >= settings.betweenBytesTimeout.wholeMilliseconds ? .connectionReadTimeout : nil
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

    private var connectingError: UpstreamError {
        var resolved: curl_off_t = 0
        cistern_easy_get_offset(pointer, CURLINFO_NAMELOOKUP_TIME_T, &resolved)
        return resolved == 0 ? .dnsTimeout : .connectionTimeout
    }
}
