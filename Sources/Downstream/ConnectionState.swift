// Where a client's HTTP/1.1 connection stands (RFC 9112 §9), or a stream of HTTP/2, which is like a connection on which one request comes. It
// decides and does nothing: `ClientConnection` and `HTTP2Stream` tell it what happens, and perform what is returned.

import HTTPCore

struct ConnectionState {
    enum Phase {
        /// Between two requests. All that was sent has gone out.
        case idle
        /// Some of a request's head has come.
        case receivingHead
        case exchanging(RequestProgress)
        /// The last response has gone out: what the client still sends is read and discarded, so that it gets to read that response.
        /// - Parameter isUploading: some of the request's content was still to come.
        case lingering(discardedBytes: Int, isUploading: Bool)
        case closed
    }

    /// What is to be done with the connection.
    enum Action: Equatable {
        case nothing
        case close
        /// The client, whose request is whole, sends no more: the exchange is to know.
        case tellEnd
        /// Shut the sending side, and wait for the client to do the same: from now on this is lingering.
        case linger
        /// Close; the exchange's client is gone.
        case abandon
        /// End the exchange that there may be, say what is wrong, and end the connection with that.
        case refuse(RequestRejection)
        /// The same where a response has begun already: it cannot be ended in order.
        case abort(RequestRejection)
        /// Another request may come.
        case awaitRequest
        /// The client says nothing more in the protocol that it has changed to.
        case endContent
    }

    /// What the content of a request brings.
    enum ContentEvent: Equatable {
        /// At this range of the bytes given.
        case piece(Range<Int>, isLast: Bool)
        case needsMore
        case ended
        /// Nothing after it can be read.
        case failed(Action)
    }

    private(set) var phase = Phase.idle
    /// All that the client has sent was read, and it sends no more. It may still read.
    private(set) var hasInputEnded = false
    /// The client sends no more, perhaps after what is yet to be read.
    private(set) var hasPeerEnded = false
    /// So many requests have begun.
    private(set) var requests = 0

    // MARK: Questions

    var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// Whether a request may begin. Its first bytes may be there.
    var isAwaitingRequest: Bool {
        switch phase {
        case .idle, .receivingHead: true
        case .exchanging, .lingering, .closed: false
        }
    }

    /// The request whose response is under way.
    var current: RequestProgress? { if case .exchanging(let progress) = phase { progress } else { nil } }

    /// Whether the response has ended, though not all of it need have gone out.
    var hasResponded: Bool { current?.response == .ended }

    /// Whether the client has been responded to before all of its content had come.
    var isUploadDiscarded: Bool { if case .lingering(_, isUploading: true) = phase { true } else { false } }

    /// Whether closing now would end a response in the middle: in order, that could be taken for the end of its content.
    /// - Parameter hasOutput: some of it waits to be sent.
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

    /// Whether the client's end would not be found by reading.
    var watchesForEnd: Bool { !hasPeerEnded && current?.content.isWhole == true }

    // MARK: The request

    /// - Returns: whether these were the head's first bytes: they start its clock.
    mutating func headCame() -> Bool {
        guard case .idle = phase else { return false }
        phase = .receivingHead
        return true
    }

    /// A head is there.
    /// - Parameter contentLimit: bytes of the content; 0 for none.
    mutating func begin(_ head: RequestHead, _ framing: ContentFraming, endsConnection: Bool, contentLimit: Int) -> Action {
        begin(RequestProgress(to: head, framing, endsConnection: endsConnection))
        if let expectation = head.fields.combined(.expect), head.version != .http10 {
            guard expectation[...].equalsIgnoringCase("100-continue") else {
                return .refuse(RequestRejection(.expectationFailed, 417, "This expectation is not known here."))
            }
            update { $0.isContinueAwaited = framing != .none }
        }
        if case .length(let count) = framing, contentLimit > 0, count > contentLimit { return .refuse(.contentTooLarge) }
        return .nothing
    }

    mutating func begin(_ progress: RequestProgress) {
        requests += 1
        phase = .exchanging(progress)
    }

    /// The request is not handed on: a response of our own ends the connection.
    mutating func refuse() {
        update(elseBegin: RequestProgress()) {
            $0.content = .whole
            $0.isRefused = true
            $0.endsConnection = true
        }
    }

    /// Takes content off `bytes` from `position` on.
    /// - Parameter limit: of the content's bytes; 0 for none.
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

    /// The client says that its content is whole.
    /// - Returns: whether that was not known.
    mutating func endContent() -> Bool {
        guard let progress = current, !progress.content.isWhole else { return false }
        update { $0.content = .whole }
        return true
    }

    private func fail(_ rejection: RequestRejection, _ progress: RequestProgress) -> Action {
        progress.response == .awaited ? .refuse(rejection) : .abort(rejection)
    }

    mutating func pauseContent() { update { $0.isContentPaused = true } }

    /// - Returns: whether it was paused.
    mutating func resumeContent() -> Bool {
        guard let progress = current, progress.isContentPaused else { return false }
        update { $0.isContentPaused = false }
        return true
    }

    /// - Returns: whether the client waits to be told to send its content, and now is.
    mutating func takeContinue() -> Bool {
        guard let progress = current, progress.isContinueAwaited, !progress.content.isWhole else { return false }
        update { $0.isContinueAwaited = false }
        return true
    }

    // MARK: The response

    /// A response that is there as a whole begins and ends.
    /// - Returns: what it is the response to; nil where nobody waits for one any more.
    mutating func respondWhole() -> RequestProgress? {
        update {
            $0.begin()
            $0.end()
        }
        return current
    }

    /// A response begins whose content follows in pieces.
    /// - Returns: what it is the response to; nil where nobody waits for one any more.
    mutating func beginResponse(_ framing: ResponseFraming, readAhead: Int, isFirstOutput: Bool) -> RequestProgress? {
        let hasInputEnded = hasInputEnded
        update {
            $0.begin()
            $0.readAhead = readAhead
            // HTTP/1.0 knows no chunks: the end of the connection is the end of the content.
            if framing == .chunked, $0.version == .http10 { $0.endsConnection = true }
            let isChunked = framing == .chunked && $0.version == .http11 && !$0.isHead
            $0.response = .begun(isChunked: isChunked, mayTakeBack: isFirstOutput && framing != .tunnel)
            guard framing == .tunnel else { return }
            $0.endsConnection = true
            $0.content = hasInputEnded ? .whole : .coming(.tunnel)
        }
        return current
    }

    /// Output is offered to the kernel.
    mutating func offerOutput() {
        guard case .begun(let isChunked, mayTakeBack: true) = current?.response else { return }
        update { $0.response = .begun(isChunked: isChunked, mayTakeBack: false) }
    }

    /// So much content has been written.
    /// - Parameters:
    ///   - isOverfull: more waits to be sent than should.
    ///   - mayReadAhead: there is memory for content that is taken however slowly the client reads.
    /// - Returns: whether more may come at once.
    mutating func write(_ count: Int, isOverfull: Bool, mayReadAhead: @autoclosure () -> Bool) -> Bool {
        guard var progress = current else { return true }
        progress.readAhead -= min(count, progress.readAhead)
        // Once owed, the call comes: the flow may have stopped although this piece, which was under way already, went out at once.
        if isOverfull, progress.readAhead == 0 || !mayReadAhead() { progress.isHeldBack = true }
        phase = .exchanging(progress)
        return !progress.isHeldBack
    }

    /// Little waits to be sent.
    /// - Returns: whether the flow was held back.
    mutating func resumeResponse() -> Bool {
        guard let progress = current, progress.isHeldBack else { return false }
        update { $0.isHeldBack = false }
        return true
    }

    /// - Returns: whether a response was under way, and how its content went out.
    mutating func endResponse() -> (isUnderWay: Bool, isChunked: Bool) {
        guard case .begun(let isChunked, _) = current?.response else { return (false, false) }
        update { $0.end() }
        return (true, isChunked)
    }

    /// - Returns: whether the response that was begun can be taken back, and is.
    mutating func takeBackResponse() -> Bool {
        guard case .begun(_, mayTakeBack: true) = current?.response else { return false }
        update {
            $0.response = .awaited
            $0.isHeldBack = false
        }
        return true
    }

    /// The response has ended, and all of it has gone out.
    /// - Parameter hasInput: bytes of the client wait.
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
        // Half-closed: the client has said all that it will, and still reads.
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
        return .tellEnd
    }

    /// The client has sent nothing for too long.
    mutating func readTimeoutPassed() -> Action {
        switch phase {
        case .receivingHead: .refuse(RequestRejection(.timeout, 408, "The request took too long to arrive."))
        case .exchanging(let progress) where progress.response == .awaited:
            .refuse(RequestRejection(.timeout, 408, "The request's content took too long to arrive."))
        case .idle, .exchanging, .lingering: .abandon
        case .closed: .nothing
        }
    }

    /// No more requests after the one that is under way; where its response has told already that the connection goes on, after the next.
    /// - Returns: whether the next request is what is waited for.
    mutating func drain() -> Bool {
        update { if $0.response == .awaited { $0.endsConnection = true } }
        if case .idle = phase { return true }
        return false
    }

    /// So many bytes came that are of no more use.
    /// - Parameter limit: bytes to discard at most.
    mutating func discard(_ count: Int, limit: Int) -> Action {
        guard case .lingering(let discarded, let isUploading) = phase else { return .nothing }
        phase = .lingering(discardedBytes: discarded + count, isUploading: isUploading)
        return discarded + count > limit ? .close : .nothing
    }

    mutating func close() { phase = .closed }

    private mutating func update(elseBegin other: RequestProgress? = nil, _ change: (inout RequestProgress) -> Void) {
        if case .exchanging(var progress) = phase {
            change(&progress)
            phase = .exchanging(progress)
        } else if var progress = other {
            change(&progress)
            phase = .exchanging(progress)
        }
    }
}

/// One request and its response, from the request's head to the response's last byte.
struct RequestProgress {
    /// What of the request's content is still to come.
    enum Content {
        case whole
        case coming(Framing)

        enum Framing {
            case length(Int)
            case chunked(ChunkedDecoder, received: Int)
            /// Of HTTP/2 (RFC 9113 §8.1), whose frames tell of its end.
            case frames(received: Int)
            /// Another protocol: as it comes, until the client says nothing more.
            case tunnel
        }

        var isWhole: Bool { if case .whole = self { true } else { false } }
    }

    enum Response: Equatable {
        case awaited
        /// `mayTakeBack`: no byte of it has been offered to the kernel.
        case begun(isChunked: Bool, mayTakeBack: Bool)
        case ended
    }

    /// No response has content (RFC 9110 §9.3.2).
    let isHead: Bool
    let version: HTTPVersion
    /// The connection ends with this response.
    var endsConnection: Bool
    var content: Content
    /// Nothing of the content is taken for a while.
    var isContentPaused = false
    /// The request was not handed on; some of it may still come.
    var isRefused = false
    /// The client waits to be told to send its content (RFC 9110 §10.1.1).
    var isContinueAwaited = false
    var response = Response.awaited
    /// So much of the response's content is still taken however slowly the client reads.
    var readAhead = 0
    /// The flow has been told to stop until more can go out.
    var isHeldBack = false

    /// One that nothing is known of but the bytes.
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
            // Before a response has changed the protocol nothing of it comes.
            case .tunnel: .whole
            }
    }

    /// Whether the client speaks another protocol now.
    var isTunnel: Bool { if case .coming(.tunnel) = content { true } else { false } }

    var takesContent: Bool { !content.isWhole && !isContentPaused }

    fileprivate mutating func begin() {
        precondition(response == .awaited, "a response was begun twice")
        // What is not read of the request would be read as another.
        if !content.isWhole { endsConnection = true }
    }

    /// What still comes of the request's content is read and discarded.
    fileprivate mutating func end() {
        response = .ended
        isContentPaused = false
    }
}

extension RequestRejection {
    /// RFC 9110 §15.5.20: the client may repeat the request on another connection.
    static let rulesChanged = RequestRejection(
        .rulesChanged, 421, "What clients have to present here has changed since this connection began. Connect anew.")
    static let contentTooLarge = RequestRejection(.contentTooLarge, 413, "The request's content is too large.")
}
