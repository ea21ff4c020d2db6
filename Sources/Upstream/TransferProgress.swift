// How far an exchange with the upstream has come: an event in, an action out, nothing done. It knows which time-out holds, and whether the request may be
// sent again. Its shell is `Transfer`.
//
//     queued ► connecting ► asking ► receiving ► (streaming) ► ended
//        ▲                    │ ▲        │
//        └── sent once more ◄─┘ └────────┘ after an informational response

import HTTPCore

struct TransferProgress {
    enum State: Equatable {
        /// Every connection that we allow ourselves is in use.
        case queued
        case connecting
        /// The request goes out, or has gone out; the final response has not begun.
        /// - Parameter hasHeard: an informational one has come.
        case asking(hasHeard: Bool)
        /// The head comes, or the content.
        case receiving(Pace)
        /// The same, of a response that is a stream: it lasts as long as it likes.
        case streaming(Pace)
        case ended
    }

    enum Pace: Equatable {
        case steady
        /// The flow takes no more for now.
        case paused
        /// The same, and the connection holds back what has come.
        case heldBack
    }

    enum Event: Equatable {
        /// A connection is being made for the request.
        case connectionBegan
        /// A connection is there: the request goes out on it.
        case sendingBegan
        /// Some of it has gone out.
        case bytesSent
        /// The connection ended without a response, and the request is sent again on another.
        case queuedAgain
        /// Whole lines of a head have come.
        case headLinesCame
        case informationalCame
        /// The response whose head has come is a stream.
        case streamBegan
        case contentCame
        case paused
        case resumed
        case ended
    }

    enum Action: Equatable {
        case nothing
        case deliver
        /// The connection keeps what has come, and reads no more.
        case holdBack
        /// The connection goes on with what it has kept.
        case readOn
    }

    private(set) var state = State.queued
    /// How often the request has begun to go out.
    private(set) var sendings = 0
    /// Milliseconds of the loop's clock.
    private let beganAt: Int64
    /// When something last went on, of the same clock.
    private var movedAt: Int64

    init(now: Int64) {
        beganAt = now
        movedAt = now
    }

    var hasEnded: Bool { state == .ended }

    /// It has found a connection dead: the other kept ones may be as well.
    var needsNewConnection: Bool { sendings > 0 }

    mutating func handle(_ event: Event, at now: Int64) -> Action {
        movedAt = now
        switch event {
        case .connectionBegan: state = .connecting
        case .sendingBegan:
            sendings += 1
            state = .asking(hasHeard: false)
        case .bytesSent: break
        case .queuedAgain: state = .queued
        case .headLinesCame: state = .receiving(.steady)
        case .informationalCame: state = .asking(hasHeard: true)
        case .streamBegan: if let pace { state = .streaming(pace) }
        case .contentCame: return contentCame()
        case .paused: if pace == .steady { go(on: .paused) }
        case .resumed: return resumed()
        case .ended: state = .ended
        }
        return .nothing
    }

    /// Of a response that comes.
    private var pace: Pace? {
        switch state {
        case .receiving(let pace), .streaming(let pace): pace
        case .queued, .connecting, .asking, .ended: nil
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

    // MARK: What follows from it

    /// Whether the request may go out again, after its connection ended without a line of a response.
    /// - Parameters:
    ///   - onKept: the connection had been used before.
    ///   - isUnwritten: not a byte of the request was handed to the kernel.
    ///   - isRefused: the upstream says that it has done nothing with it.
    func mayBeRepeated(_ request: UpstreamRequest, _ content: PendingContent, onKept: Bool, isUnwritten: Bool, isRefused: Bool = false)
        -> Bool
    {
        RepeatRule(
            isRepeatable: request.isRepeatable, isFirst: sendings < 2, gotBytes: state != .asking(hasHeard: false),
            hasSentContent: content.hasBegun, onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused
        ).isAllowed
    }

    /// The time-out that has passed, if any, as the error that it is.
    /// - Parameter hasResolved: the upstream's name has been looked up.
    func overdue(at now: Int64, _ limits: TransferLimits, _ content: PendingContent.State, hasResolved: Bool) -> UpstreamError? {
        if limits.total > 0, !isStream, now - beganAt >= limits.total { return totalError(hasResolved: hasResolved) }
        guard let (limit, error) = timeOut(limits, content), now - movedAt >= limit else { return nil }
        return error
    }

    /// The one that holds now.
    private func timeOut(_ limits: TransferLimits, _ content: PendingContent.State) -> (limit: Int64, error: UpstreamError)? {
        switch (state, content) {
        case (.queued, _): (limits.connect, .connectionLimitReached)
        // The attempt ends in time by itself.
        case (.connecting, _): nil
        // The client's time-outs hold.
        case (.asking, .awaited): nil
        case (.asking, .open), (.asking, .closed): (limits.betweenBytes, .connectionWriteTimeout)
        case (.asking, .taken): (limits.firstByte, .connectionReadTimeout)
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
        case .asking, .receiving, .streaming, .ended: .responseTimeout
        }
    }
}
