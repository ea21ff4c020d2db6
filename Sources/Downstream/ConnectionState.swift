// State machine of a client's HTTP/1.1 connection (RFC 9112 §9). An HTTP/2 stream uses it like a connection with one request. It performs
// no I/O: `ClientConnection` and `HTTP2Stream` report events to it and perform the returned actions.

import HTTPCore

struct ConnectionState {
    enum Phase {
        /// Between two requests. All output has been sent.
        case idle
        /// A part of a request's head has been received.
        case receivingHead
        case exchanging(RequestProgress)
        /// The last response has been sent. Further bytes of the client are read and discarded, so that the client can read that response.
        /// - Parameter isUploading: whether a part of the request's content was still missing.
        case lingering(discardedBytes: Int, isUploading: Bool)
        case closed
    }

    /// An action for the connection.
    enum Action: Equatable {
        case nothing
        case close
        /// Notify the exchange that the client, after a complete request, has closed its sending side.
        case notifyEnd
        /// Shut down the sending side, and wait until the client does so too. The connection is lingering meanwhile.
        case linger
        /// Close the connection and notify the exchange that its client has disconnected.
        case abandon
        /// End the exchange if there is one, send an error response, and end the connection.
        case refuse(RequestRejection)
        /// End the exchange and abort the response, which has begun and cannot be completed.
        case abort(RequestRejection)
        /// Wait for another request.
        case awaitRequest
        /// The client has ended the protocol that it upgraded to.
        case endContent
    }

    /// A step of reading a request's content.
    enum ContentEvent: Equatable {
        /// Content at this range of the given bytes.
        case piece(Range<Int>, isLast: Bool)
        case needsMore
        case ended
        /// Invalid or too long content. No bytes after it can be read.
        case failed(Action)
    }

    private(set) var phase = Phase.idle
    /// Whether all bytes of the client were read and no more will follow. The client may still read.
    private(set) var hasInputEnded = false
    /// Whether the client has closed its sending side, perhaps after bytes that are still unread.
    private(set) var hasPeerEnded = false
    /// Number of requests that have begun.
    private(set) var requests = 0

    // MARK: Properties

    var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// Whether a request may begin. Its first bytes may have been received.
    var isAwaitingRequest: Bool {
        switch phase {
        case .idle, .receivingHead: true
        case .exchanging, .lingering, .closed: false
        }
    }

    /// The request whose response is active; nil if there is none.
    var current: RequestProgress? { if case .exchanging(let progress) = phase { progress } else { nil } }

    /// Whether the response has ended. A part of it may still wait to be sent.
    var hasResponded: Bool { current?.response == .ended }

    /// Whether the response was sent before all of the request's content was received.
    var isUploadDiscarded: Bool { if case .lingering(_, isUploading: true) = phase { true } else { false } }

    /// Whether closing now would truncate a response. A client could interpret a normal close as the end of the content.
    /// - Parameter hasOutput: whether a part of the response waits to be sent.
    func isResponseCut(hasOutput: Bool) -> Bool {
        guard let progress = current, !progress.isTunnel else { return false }
        return switch progress.response {
        case .awaited: false
        case .begun: true
        case .ended: hasOutput
        }
    }

    /// Whether bytes of the client can be used now.
    var mayRead: Bool {
        if hasInputEnded { return false }
        return switch phase {
        case .idle, .receivingHead, .lingering: true
        case .exchanging(let progress): progress.takesContent
        case .closed: false
        }
    }

    /// Whether reading would not detect that the client has closed its sending side, because nothing is read now.
    var watchesForEnd: Bool { !hasPeerEnded && current?.content.isWhole == true }

    // MARK: The request

    /// Records that a part of a head was received.
    /// - Returns: whether these were the first bytes of the head, which start its timeout.
    mutating func headCame() -> Bool {
        guard case .idle = phase else { return false }
        phase = .receivingHead
        return true
    }

    /// Begins a request with a complete head.
    /// - Parameter contentLimit: maximum bytes of the content; 0 for no limit.
    mutating func begin(_ head: RequestHead, _ framing: ContentFraming, endsConnection: Bool, contentLimit: Int) -> Action {
        requests += 1
        phase = .exchanging(RequestProgress(to: head, framing, endsConnection: endsConnection))
        if let expectation = head.fields.combined(.expect), head.version != .http10 {
            guard expectation.equalsIgnoringCase("100-continue") else {
                return .refuse(RequestRejection(.expectationFailed, 417, "This expectation is not supported."))
            }
            update { $0.isContinueAwaited = framing != .none }
        }
        if case .length(let count) = framing, contentLimit > 0, count > contentLimit { return .refuse(.contentTooLarge) }
        return .nothing
    }

    /// Begins a request that was recognized by its bytes and was not parsed.
    mutating func beginRepeated() {
        requests += 1
        phase = .exchanging(RequestProgress())
    }

    /// Marks the request as refused. An error response follows and ends the connection.
    mutating func refuse() {
        var progress = current ?? RequestProgress()
        progress.content = .whole
        progress.isRefused = true
        progress.endsConnection = true
        phase = .exchanging(progress)
    }

    /// Reads content from `bytes`, starting at `position`.
    /// - Parameter limit: maximum bytes of the content; 0 for no limit.
    mutating func takeContent(_ bytes: Span<UInt8>, _ position: inout Int, limit: Int) -> ContentEvent {
        guard case .exchanging(var progress) = phase, case .coming(let content) = progress.content else { return .needsMore }
        defer { phase = .exchanging(progress) }
        switch content {
        case .length(let remaining):
            let range = position..<(position + min(remaining, bytes.count - position))
            position = range.upperBound
            progress.content = range.count == remaining ? .whole : .coming(.length(remaining - range.count))
            return .piece(range, isLast: range.count == remaining)
        case .chunked(var decoder, var received):
            let event = decoder.next(bytes, &position)
            if case .content(let range) = event { received += range.count }
            progress.content = .coming(.chunked(decoder, received: received))
            switch event {
            case .content where limit > 0 && received > limit: return .failed(fail(.contentTooLarge, progress))
            case .content(let range): return .piece(range, isLast: false)
            case .needsMore: return .needsMore
            case .end:
                progress.content = .whole
                return .ended
            case .refused(let problem): return .failed(fail(problem.rejection, progress))
            }
        case .frames(let before):
            let range = position..<bytes.count
            position = bytes.count
            progress.content = .coming(.frames(received: before + range.count))
            return limit > 0 && before + range.count > limit ? .failed(fail(.contentTooLarge, progress)) : .piece(range, isLast: false)
        case .tunnel:
            let range = position..<bytes.count
            position = bytes.count
            return .piece(range, isLast: false)
        }
    }

    /// Records that the client has ended the content.
    /// - Returns: whether the content was still incomplete.
    mutating func endContent() -> Bool {
        guard let progress = current, !progress.content.isWhole else { return false }
        update { $0.content = .whole }
        return true
    }

    private func fail(_ rejection: RequestRejection, _ progress: RequestProgress) -> Action {
        progress.response == .awaited ? .refuse(rejection) : .abort(rejection)
    }

    mutating func pauseContent() { update { $0.isContentPaused = true } }

    /// Resumes the content.
    /// - Returns: whether it was paused.
    mutating func resumeContent() -> Bool {
        guard let progress = current, progress.isContentPaused else { return false }
        update { $0.isContentPaused = false }
        return true
    }

    /// Records that a 100 (Continue) response is sent.
    /// - Returns: whether the client waits for one.
    mutating func takeContinue() -> Bool {
        guard let progress = current, progress.isContinueAwaited, !progress.content.isWhole else { return false }
        update { $0.isContinueAwaited = false }
        return true
    }

    // MARK: The response

    /// Begins and ends a response that is complete.
    /// - Returns: the request that the response belongs to; nil if no request is active.
    mutating func respondWhole() -> RequestProgress? {
        guard case .exchanging(var progress) = phase else { return nil }
        progress.begin()
        progress.end()
        phase = .exchanging(progress)
        return progress
    }

    /// Begins a response with content that follows in pieces.
    /// - Returns: the request that the response belongs to; nil if no request is active.
    mutating func beginResponse(_ framing: ResponseFraming, readAhead: Int, isFirstOutput: Bool) -> RequestProgress? {
        let hasInputEnded = hasInputEnded
        update {
            $0.begin()
            $0.readAhead = readAhead
            // HTTP/1.0 has no chunks. The end of the connection ends the content.
            if framing == .chunked, $0.version == .http10 { $0.endsConnection = true }
            let isChunked = framing == .chunked && $0.version == .http11 && !$0.isHead
            $0.response = .begun(isChunked: isChunked, mayTakeBack: isFirstOutput && framing != .tunnel)
            guard framing == .tunnel else { return }
            $0.endsConnection = true
            $0.content = hasInputEnded ? .whole : .coming(.tunnel)
        }
        return current
    }

    /// Records that output is offered to the kernel. The response can then no longer be withdrawn.
    mutating func offerOutput() {
        guard case .begun(let isChunked, mayTakeBack: true) = current?.response else { return }
        update { $0.response = .begun(isChunked: isChunked, mayTakeBack: false) }
    }

    /// Records that content was written.
    /// - Parameters:
    ///   - count: bytes of the content.
    ///   - isOverfull: whether more bytes than allowed wait to be sent.
    ///   - mayReadAhead: whether there is memory to buffer content however slowly the client reads.
    /// - Returns: whether more content may follow at once.
    mutating func write(_ count: Int, isOverfull: Bool, mayReadAhead: @autoclosure () -> Bool) -> Bool {
        guard var progress = current else { return true }
        progress.readAhead -= min(count, progress.readAhead)
        // A signaled pause must be ended by `responseDrained`, even if this piece, which the flow was already writing, has been sent at
        // once.
        if isOverfull, progress.readAhead == 0 || !mayReadAhead() { progress.isHeldBack = true }
        phase = .exchanging(progress)
        return !progress.isHeldBack
    }

    /// Records that few bytes wait to be sent.
    /// - Returns: whether the flow was paused.
    mutating func resumeResponse() -> Bool {
        guard let progress = current, progress.isHeldBack else { return false }
        update { $0.isHeldBack = false }
        return true
    }

    /// Ends a response.
    /// - Returns: whether a response was active, and whether its content is chunked.
    mutating func endResponse() -> (isUnderWay: Bool, isChunked: Bool) {
        guard case .begun(let isChunked, _) = current?.response else { return (false, false) }
        update { $0.end() }
        return (true, isChunked)
    }

    /// Withdraws a response if no part of it was offered to the kernel.
    /// - Returns: whether it was withdrawn.
    mutating func takeBackResponse() -> Bool {
        guard case .begun(_, mayTakeBack: true) = current?.response else { return false }
        update {
            $0.response = .awaited
            $0.isHeldBack = false
        }
        return true
    }

    /// Records that the response has ended and all of it has been sent.
    /// - Parameter hasInput: whether unread bytes of the client are buffered.
    mutating func responseSent(hasInput: Bool) -> Action {
        guard let progress = current, progress.response == .ended else { return .nothing }
        if progress.endsConnection || hasInputEnded && !hasInput {
            phase = .lingering(discardedBytes: 0, isUploading: progress.isRefused || !progress.content.isWhole)
            return hasInputEnded ? .close : .linger
        }
        phase = .idle
        return .awaitRequest
    }

    // MARK: Ends

    mutating func inputEnded() -> Action {
        hasInputEnded = true
        switch phase {
        case .idle, .receivingHead, .lingering: return .close
        // A half-close: the client sends no more and still reads.
        case .exchanging(let progress) where progress.isTunnel:
            update { $0.content = .whole }
            return .endContent
        case .exchanging(let progress): return progress.content.isWhole ? peerEnded() : .abandon
        case .closed: return .nothing
        }
    }

    mutating func peerEnded() -> Action {
        guard !hasPeerEnded else { return .nothing }
        hasPeerEnded = true
        return .notifyEnd
    }

    /// Handles a read timeout.
    mutating func readTimeoutPassed() -> Action {
        switch phase {
        case .receivingHead: .refuse(RequestRejection(.timeout, 408, "The request took too long to arrive."))
        case .exchanging(let progress) where progress.response == .awaited:
            .refuse(RequestRejection(.timeout, 408, "The request's content took too long to arrive."))
        case .idle, .exchanging, .lingering: .abandon
        case .closed: .nothing
        }
    }

    /// Makes the active request the last one. If its response has already announced a persistent connection, the next request becomes the
    /// last one.
    /// - Returns: whether the connection waits for the next request.
    mutating func drain() -> Bool {
        update { if $0.response == .awaited { $0.endsConnection = true } }
        if case .idle = phase { return true }
        return false
    }

    /// Counts bytes that are discarded.
    /// - Parameter limit: maximum number of bytes to discard.
    mutating func discard(_ count: Int, limit: Int) -> Action {
        guard case .lingering(let discarded, let isUploading) = phase else { return .nothing }
        phase = .lingering(discardedBytes: discarded + count, isUploading: isUploading)
        return discarded + count > limit ? .close : .nothing
    }

    mutating func close() { phase = .closed }

    private mutating func update(_ change: (inout RequestProgress) -> Void) {
        guard case .exchanging(var progress) = phase else { return }
        change(&progress)
        phase = .exchanging(progress)
    }
}

/// One request and its response, from the request's head to the last byte of the response.
struct RequestProgress {
    /// The part of the request's content that is still missing.
    enum Content {
        case whole
        case coming(Framing)

        enum Framing {
            case length(Int)
            case chunked(ChunkedDecoder, received: Int)
            /// Content in HTTP/2 frames, which mark its end (RFC 9113 §8.1).
            case frames(received: Int)
            /// Bytes of another protocol, passed on until the client ends it.
            case tunnel
        }

        var isWhole: Bool { if case .whole = self { true } else { false } }
    }

    enum Response: Equatable {
        case awaited
        /// `mayTakeBack`: no byte of the response has been offered to the kernel yet.
        case begun(isChunked: Bool, mayTakeBack: Bool)
        case ended
    }

    /// Whether the method is HEAD. The response then has no content (RFC 9110 §9.3.2).
    let isHead: Bool
    let version: HTTPVersion
    /// Whether the connection ends with this response.
    var endsConnection: Bool
    var content: Content
    /// Whether the flow has paused the content.
    var isContentPaused = false
    /// Whether the request was refused. Parts of it may still arrive.
    var isRefused = false
    /// Whether the client waits for a 100 (Continue) response (RFC 9110 §10.1.1).
    var isContinueAwaited = false
    var response = Response.awaited
    /// Bytes of the response's content that may still be buffered however slowly the client reads.
    var readAhead = 0
    /// Whether the flow was asked to pause until more output can be sent.
    var isHeldBack = false

    /// A request that was recognized by its bytes and was not parsed.
    init() { (isHead, version, endsConnection, content) = (false, .http11, false, .whole) }

    init(to head: RequestHead, _ framing: ContentFraming, endsConnection: Bool) {
        isHead = head.method == .head
        version = head.version
        self.endsConnection = endsConnection
        content =
            switch framing {
            case .none, .length(0): .whole
            case .length(let count): .coming(.length(count))
            case .chunked where head.version == .http2: .coming(.frames(received: 0))
            case .chunked: .coming(.chunked(ChunkedDecoder(), received: 0))
            // No bytes of the new protocol arrive before the response that switches to it.
            case .tunnel: .whole
            }
    }

    /// Whether the connection has switched to another protocol.
    var isTunnel: Bool { if case .coming(.tunnel) = content { true } else { false } }

    var takesContent: Bool { !content.isWhole && !isContentPaused }

    fileprivate mutating func begin() {
        precondition(response == .awaited, "a response was started twice")
        // Unread content would otherwise be read as the next request.
        if !content.isWhole { endsConnection = true }
    }

    /// Ends the response. The rest of the request's content is read and discarded.
    fileprivate mutating func end() {
        response = .ended
        isContentPaused = false
    }
}

extension RequestRejection {
    /// RFC 9110 §15.5.20: the client may repeat the request on another connection.
    static let rulesChanged = RequestRejection(
        .rulesChanged, 421, "The certificate rules have changed since this connection was established. Open a new connection.")
}
