// State machine of an exchange with the upstream. It determines the applicable timeout and whether the request may be sent again. It has
// no side effects; `Transfer` performs the actions.
//
//     queued ► connecting ► asking ► receiving ► (streaming) ► ended
//        ▲                    │ ▲        │
//        └── sent once more ◄─┘ └────────┘ after an informational response

import HTTPCore

struct TransferProgress {
    enum State: Equatable {
        /// The transfer waits for a connection, because all allowed ones are in use.
        case queued
        case connecting
        /// The request is being sent, or was sent. The final response has not begun.
        /// - Parameter hasHeard: whether an informational response was received.
        case requesting(hasHeard: Bool)
        /// The head or the content of the response is being received.
        case receiving(Pace)
        /// The content of a streaming response is being received. Its duration is not limited.
        case streaming(Pace)
        case ended
    }

    enum Pace: Equatable {
        case steady
        /// The flow accepts no more content for now.
        case paused
        /// The flow accepts no more content for now, and the connection buffers arriving content.
        case heldBack
    }

    enum Event: Equatable {
        /// A connection is being established for the request.
        case connectionBegan
        /// A connection is available, and the request is sent on it.
        case sendingBegan
        /// Bytes of the request were sent.
        case bytesSent
        /// The connection ended without a response, and the request will be sent again on another one.
        case queuedAgain
        /// Whole lines of a head have arrived.
        case headLinesCame
        case informationalCame
        /// The response with the received head is a stream.
        case streamBegan
        case contentCame
        case paused
        case resumed
        case ended
    }

    enum Action: Equatable {
        case nothing
        case deliver
        /// The connection must buffer the content and stop reading.
        case holdBack
        /// The connection must deliver the buffered content and continue reading.
        case readOn
    }

    private(set) var state = State.queued
    /// Number of times that sending of the request has begun.
    private(set) var sendings = 0
    /// Start of the total timeout, in milliseconds of the loop's clock: the begin, or the time when the last bytes of the request were sent.
    private var limitedFrom: Int64
    /// Whether the client receives the content as it arrives.
    var isForwarded = false
    /// Time of the last progress, in milliseconds of the loop's clock.
    private var movedAt: Int64
    /// Milliseconds that the request has waited for a connection since it was last sent, without the current wait. A request can move back
    /// to the queue again and again without being sent, for example if each new connection allows no streams.
    private var waited: Int64 = 0

    init(now: Int64) {
        limitedFrom = now
        movedAt = now
    }

    var hasEnded: Bool { state == .ended }

    /// Whether the transfer needs a new connection, because it found one dead and other kept connections may be dead too.
    var needsNewConnection: Bool { sendings > 0 }

    mutating func handle(_ event: Event, at now: Int64) -> Action {
        if state == .queued { waited += now - movedAt }
        movedAt = now
        switch event {
        case .connectionBegan: state = .connecting
        case .sendingBegan:
            sendings += 1
            waited = 0
            state = .requesting(hasHeard: false)
        case .bytesSent: limitedFrom = now
        case .queuedAgain: state = .queued
        case .headLinesCame: state = .receiving(.steady)
        case .informationalCame: state = .requesting(hasHeard: true)
        case .streamBegan: if let pace { state = .streaming(pace) }
        case .contentCame: return contentCame()
        case .paused: if pace == .steady { go(on: .paused) }
        case .resumed: return resumed()
        case .ended: state = .ended
        }
        return .nothing
    }

    /// The pace of a response that is being received; nil otherwise.
    private var pace: Pace? {
        switch state {
        case .receiving(let pace), .streaming(let pace): pace
        case .queued, .connecting, .requesting, .ended: nil
        }
    }

    var isStream: Bool { if case .streaming = state { true } else { false } }

    private mutating func go(on pace: Pace) { state = isStream ? .streaming(pace) : .receiving(pace) }

    private mutating func contentCame() -> Action {
        guard let pace, pace != .steady else { return .deliver }
        go(on: .heldBack)
        return .holdBack
    }

    private mutating func resumed() -> Action {
        guard let pace else { return .nothing }
        go(on: .steady)
        return pace == .heldBack ? .readOn : .nothing
    }

    // MARK: Retries and timeouts

    /// Whether the request may be sent again, after its connection ended without a line of a response (RFC 9110 §9.2.2, RFC 9112 §9.3.1). A
    /// request is sent at most twice. An unsafe request is repeated only if the upstream cannot have processed any of it.
    /// - Parameters:
    ///   - onKept: whether the connection had been used before. The upstream may then have closed it before the request arrived.
    ///   - isUnwritten: whether no byte of the request was passed to the kernel.
    ///   - isRefused: whether the upstream states that it did not process the request (RFC 9113 §8.7).
    func mayBeRepeated(_ request: UpstreamRequest, _ content: PendingContent, onKept: Bool, isUnwritten: Bool, isRefused: Bool) -> Bool {
        guard sendings < 2, state == .requesting(hasHeard: false), !content.hasBegun else { return false }
        return request.isRepeatable || isRefused || (onKept && isUnwritten)
    }

    /// The error of the timeout that has passed; nil if none has.
    /// - Parameter hasResolved: whether the upstream's name has been resolved.
    func overdue(at now: Int64, _ limits: TransferLimits, _ content: PendingContent.State, hasResolved: Bool) -> UpstreamError? {
        if limits.total > 0, hasTotalLimit(content), now - limitedFrom >= limits.total { return totalError(hasResolved: hasResolved) }
        let earlier = state == .queued ? waited : 0
        guard let (limit, error) = timeOut(limits, content), now - movedAt + earlier >= limit else { return nil }
        return error
    }

    /// Whether the total duration is limited. An upload and a download may take as long as they progress, as without a proxy.
    private func hasTotalLimit(_ content: PendingContent.State) -> Bool {
        switch state {
        case .requesting: content == .taken
        case .receiving: !isForwarded
        case .streaming: false
        case .queued, .connecting, .ended: true
        }
    }

    /// The timeout that applies now.
    private func timeOut(_ limits: TransferLimits, _ content: PendingContent.State) -> (limit: Int64, error: UpstreamError)? {
        switch (state, content) {
        case (.queued, _): (limits.connect, .connectionLimitReached)
        // The connection attempt has its own timeout.
        case (.connecting, _): nil
        // The timeouts of the client's connection apply.
        case (.requesting, .awaited): nil
        case (.requesting, .open), (.requesting, .closed): (limits.betweenBytes, .connectionWriteTimeout)
        case (.requesting, .taken): (limits.firstByte, .connectionReadTimeout)
        case (.receiving(.steady), _): (limits.betweenBytes, .connectionReadTimeout)
        case (.receiving(.paused), _), (.receiving(.heldBack), _): nil
        case (.streaming(.steady), _): limits.stream > 0 ? (limits.stream, .connectionReadTimeout) : nil
        case (.streaming(.paused), _), (.streaming(.heldBack), _): nil
        case (.ended, _): nil
        }
    }

    private func totalError(hasResolved: Bool) -> UpstreamError {
        switch state {
        case .queued: .connectionLimitReached
        case .connecting: hasResolved ? .connectionTimeout : .dnsTimeout
        case .requesting, .receiving, .streaming, .ended: .responseTimeout
        }
    }
}
