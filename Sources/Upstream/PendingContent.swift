// A request's content between the flow and the connection: buffers it, and decides when the flow must pause. A pure state machine.

import HTTPCore

struct PendingContent {
    enum State: Equatable {
        /// More content will follow.
        case open
        /// More content will follow. The connection has taken all of it so far and expects to be notified of more.
        case awaited
        /// The content is complete. A buffered part has not been taken.
        case closed
        /// The connection has taken the whole content.
        case taken
    }

    enum Piece: Equatable {
        case bytes(Int)
        /// No content is available now.
        case nothingYet
        case end
    }

    private(set) var state: State
    /// Whether a part was taken and is no longer buffered. The content can then not be sent again.
    var hasBegun: Bool { takenBytes > 0 && !isKept }
    private var bytes: [UInt8] = []
    private var takenCount = 0
    /// Whether taken content remains buffered. This applies to content that was complete at once, until a response begins.
    private var isKept = false
    /// Number of bytes that the connection has taken.
    private(set) var takenBytes = 0
    /// Whether the flow is paused until it is notified.
    private var isFlowWaiting = false

    /// Number of buffered bytes above which the flow pauses: with a connection, and before there is one.
    static let highWaterBytes = 256 * 1024
    static let queuedHighWaterBytes = 16 * 1024
    /// Number of buffered bytes at which a paused flow resumes.
    static let lowWaterBytes = highWaterBytes / 4

    init(isEmpty: Bool) { state = isEmpty ? .taken : .open }

    private var held: Int { bytes.count - takenCount }

    // MARK: The flow's side

    /// Adds content.
    /// - Returns: whether the connection must be notified.
    mutating func append(_ piece: Span<UInt8>) -> Bool {
        bytes.append(copying: piece)
        return endAwaiting()
    }

    /// Sets the whole content, instead of `append` and `close`. The array is held and not copied, and the content can be sent again.
    /// - Returns: whether the connection must be notified.
    mutating func appendWhole(_ whole: [UInt8]) -> Bool {
        (bytes, isKept) = (whole, true)
        return close()
    }

    /// Marks the content as complete.
    /// - Returns: whether the connection must be notified.
    mutating func close() -> Bool {
        let isAwaited = endAwaiting()
        if state == .open { state = .closed }
        return isAwaited
    }

    private mutating func endAwaiting() -> Bool {
        guard state == .awaited else { return false }
        state = .open
        return true
    }

    /// Must be called after each `append`, when the connection has taken what it can.
    /// - Returns: whether the flow must pause until it is notified. A paused flow stays paused even if content was taken meanwhile.
    mutating func holdFlowBack(isQueued: Bool) -> Bool {
        if held > (isQueued ? Self.queuedHighWaterBytes : Self.highWaterBytes) { isFlowWaiting = true }
        return isFlowWaiting
    }

    // MARK: The connection's side

    /// Takes at most `limit` bytes, as one chunk if the content is sent chunked (RFC 9112 §7.1). If no content is available, the connection
    /// is notified later.
    mutating func take(upTo limit: Int, inChunks: Bool, into output: inout [UInt8]) -> Piece {
        let count = min(held, limit)
        switch state {
        case .open, .awaited:
            guard count > 0 else {
                state = .awaited
                return .nothingYet
            }
        case .closed, .taken:
            guard count > 0 else {
                if inChunks { output.append("0\r\n\r\n") }
                state = .taken
                return .end
            }
        }
        if inChunks { output.append(chunkSize: count) }
        output.append(copying: bytes.span.extracting(takenCount..<takenCount + count))
        if inChunks { output.append("\r\n") }
        noteTaken(count)
        return .bytes(count)
    }

    /// Returns the number of bytes that may be taken now, and in `isLast` whether they are the last ones. Returns nil if no content is
    /// available; the connection is notified later.
    mutating func offer(upTo limit: Int) -> (count: Int, isLast: Bool)? {
        let isWhole = state == .closed || state == .taken
        guard held > 0 || isWhole else {
            state = .awaited
            return nil
        }
        return (min(held, limit), isWhole && held <= limit)
    }

    /// Takes offered bytes. `buffer` must have the offered size.
    mutating func take(into buffer: UnsafeMutableRawBufferPointer) {
        bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[takenCount..<takenCount + buffer.count])) }
        noteTaken(buffer.count)
    }

    /// Makes content that is still buffered available again. Must be called before the request is sent again.
    mutating func rewind() {
        guard isKept, takenBytes > 0 else { return }
        (takenCount, takenBytes, state) = (0, 0, .closed)
    }

    /// Keeps taken content no longer. Must be called when a response begins, because the request is not sent again then.
    mutating func releaseTaken() {
        guard isKept else { return }
        isKept = false
        if state == .taken { (bytes, takenCount) = ([], 0) }
    }

    /// Records that an empty end was offered.
    mutating func noteEnd() { state = .taken }

    private mutating func noteTaken(_ count: Int) {
        takenCount += count
        takenBytes += count
        guard takenCount == bytes.count else { return }
        if isKept {
            state = .taken
            return
        }
        // The buffer is not reused if no more content follows, or if it is large.
        if state == .closed || takenCount > Self.highWaterBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        takenCount = 0
        if state == .closed { state = .taken }
    }

    /// Must be called after content was taken.
    /// - Returns: whether to notify the paused flow that it may resume. True once per pause.
    mutating func releaseFlow() -> Bool {
        guard isFlowWaiting, held <= Self.lowWaterBytes else { return false }
        isFlowWaiting = false
        return true
    }
}
