// The writing side of an HTTP/2 connection. Once in each batch of events the output of all streams is written together, limited by the
// kernel and the client's flow-control windows. Streams take turns frame by frame. One turn of the connection writes at most
// `ClientConnections.frameBufferBytes`.

import HTTP2
import HTTPCore
import Reactor

extension HTTP2Connection {
    func pushLater(_ stream: HTTP2Stream) {
        guard !isClosed else { return }
        pushing.append(stream)
        pushLater()
    }

    func pushLater() { if !isClosed { table.pushAtEndOfBatch(self) } }

    func pushNow() { if !isClosed { flush() } }

    /// Whether the kernel has accepted less than was offered.
    var isBlocked: Bool { !rest.isEmpty }

    /// Records that a stream can accept more content from its exchange.
    func drained(_ stream: HTTP2Stream) { drained.append(stream) }

    func flush() {
        if case .lingering = phase { return }
        guard sendRest() else { return }
        let streams = pushing
        pushing = []
        for stream in streams { stream.push() }
        guard sendNew() else { return }
        notifyDrained()
        guard !isClosed else { return }
        // Output that the kernel has not accepted must be sent before the end.
        if session.isFinished, !isBlocked { return linger() }
        updateInterest()
    }

    /// Sends the output that the kernel did not accept before.
    /// - Returns: false if no more can be sent now.
    private func sendRest() -> Bool {
        guard isBlocked else { return true }
        let left = rest.count - restSent
        guard let count = rest.withUnsafeBytes({ transport.send(UnsafeRawBufferPointer(rebasing: $0[restSent...])) }) else {
            vanish()
            return false
        }
        restSent += count
        if count > 0 { writeDeadline = 0 }
        guard count == left else {
            blocked()
            return false
        }
        (rest, restSent, writeDeadline) = ([], 0, 0)
        return true
    }

    /// Writes the session's frames and sends them.
    /// - Returns: false if the connection broke.
    private func sendNew() -> Bool {
        let buffer = table.frameBuffer
        let count = session.write(into: buffer, notifying: self)
        guard count > 0, !isClosed else { return !isClosed }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        guard let taken = transport.send(bytes) else {
            vanish()
            return false
        }
        if taken < count {
            rest = Array(bytes[taken...])
            blocked()
        } else if session.wantsToWrite {
            // Other connections are served first.
            table.loop.inNextRound { [self] in pushNow() }
        }
        holdBudget()
        return true
    }

    private func notifyDrained() {
        let streams = drained
        drained = []
        for stream in streams where !stream.state.isClosed { stream.exchange?.responseDrained() }
    }

    private func blocked() {
        holdBudget()
        if writeDeadline == 0 { writeDeadline = table.writeDeadline }
        updateInterest()
    }

    // MARK: Memory

    /// Change of the held bytes after which the process-wide budget is updated between writes. Each write updates it too.
    private static let unbudgetedBytes = 64 << 10

    /// Records the memory that a stream holds now.
    func noteMemory(_ bytes: Int, of stream: HTTP2Stream) {
        guard !isClosed else { return }
        heldBytes += bytes - stream.heldBytes
        stream.heldBytes = bytes
        if abs(heldBytes + rest.count - budgetedBytes) >= Self.unbudgetedBytes { holdBudget() }
    }

    /// Reports the memory of unsent responses and of buffered request content to the process-wide budget. If the budget is exceeded,
    /// resets the stream that holds most.
    func holdBudget() {
        let held = heldBytes + rest.count
        let change = held - budgetedBytes
        guard change != 0 else { return }
        budgetedBytes = held
        guard !table.budget.hold(change, of: peer), let largest = streams.values.max(by: { $0.heldBytes < $1.heldBytes }) else { return }
        reset(largest, .internalError)
    }
}
