// A request's content between the flow, which brings it, and the connection, which takes it: what of it is held, whether more comes, and when the
// flow has to wait. A pure machine.

import HTTPCore

struct PendingContent {
    enum State: Equatable {
        /// More of it comes.
        case open
        /// More of it comes, and the connection has taken all there was: it is called when there is more.
        case awaited
        /// No more of it comes. What is held has yet to be taken.
        case closed
        /// The connection has taken it to its end.
        case taken
    }

    enum Piece: Equatable {
        case bytes(Int)
        /// None now.
        case nothingYet
        case end
    }

    private(set) var state: State
    /// Some of it has been taken, and is not held any more: it cannot be sent again.
    private(set) var hasBegun = false
    private var bytes: [UInt8] = []
    private var takenCount = 0
    /// The flow waits until it is called.
    private var isFlowWaiting = false

    /// What may be held before the flow has to wait: with a connection, and before there is one.
    static let highWaterBytes = 256 * 1024
    static let queuedHighWaterBytes = 16 * 1024
    /// The flow is called once no more than this is held.
    static let lowWaterBytes = highWaterBytes / 4

    init(isEmpty: Bool) { state = isEmpty ? .taken : .open }

    private var held: Int { bytes.count - takenCount }

    // MARK: The flow's side

    /// - Returns: whether the connection is to be called.
    mutating func append(_ piece: Span<UInt8>) -> Bool {
        bytes.append(copying: piece)
        return endAwaiting()
    }

    /// All of it, in the place of `append` and `close`: held and not copied, which takes long where it is long.
    /// - Returns: whether the connection is to be called.
    mutating func appendWhole(_ whole: [UInt8]) -> Bool {
        bytes = whole
        return close()
    }

    /// It is whole.
    /// - Returns: whether the connection is to be called.
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

    /// To be asked after each `append`, when the connection has taken what it can.
    /// - Returns: whether the flow has to wait until it is called. Once it has to, it has, whatever is taken meanwhile.
    mutating func holdFlowBack(isQueued: Bool) -> Bool {
        if held > (isQueued ? Self.queuedHighWaterBytes : Self.highWaterBytes) { isFlowWaiting = true }
        return isFlowWaiting
    }

    // MARK: The connection's side

    /// Takes as much as `limit`, in a chunk of its own where it goes out in chunks (RFC 9112 §7.1). Where there is none yet, the connection is called
    /// when there is.
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

    /// How much of it may be taken now; where it is the last, `isLast`. Nil where there is none yet: the connection is called when there is.
    mutating func offer(upTo limit: Int) -> (count: Int, isLast: Bool)? {
        let isWhole = state == .closed || state == .taken
        guard held > 0 || isWhole else {
            state = .awaited
            return nil
        }
        return (min(held, limit), isWhole && held <= limit)
    }

    /// Takes what was offered, which fills the place.
    mutating func take(into place: UnsafeMutableRawBufferPointer) {
        bytes.withUnsafeBytes { place.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[takenCount..<takenCount + place.count])) }
        noteTaken(place.count)
    }

    /// All that there is has been offered, and was nothing.
    mutating func noteEnd() { state = .taken }

    private mutating func noteTaken(_ count: Int) {
        takenCount += count
        hasBegun = true
        guard takenCount == bytes.count else { return }
        // There is no room to keep where no more comes, nor where it is much.
        if state == .closed || takenCount > Self.highWaterBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        takenCount = 0
        if state == .closed { state = .taken }
    }

    /// To be asked after each piece that was taken.
    /// - Returns: whether the flow is to be called: it may go on. True once.
    mutating func releaseFlow() -> Bool {
        guard isFlowWaiting, held <= Self.lowWaterBytes else { return false }
        isFlowWaiting = false
        return true
    }
}
