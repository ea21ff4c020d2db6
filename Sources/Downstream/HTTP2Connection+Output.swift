// The writing side: once in each batch of events what all streams have is written together, as much as the kernel takes and the client's windows
// allow. Streams take turns frame by frame, and one connection's turn is not longer than `ClientConnections.frameBufferBytes`.

import HTTP2
import HTTPCore
import Reactor

extension HTTP2Connection {
    func pushLater(_ stream: HTTP2Stream) {
        guard !isClosed else { return }
        pushing.append(stream)
        pushLater()
    }

    func pushLater() {
        guard !isPushQueued, !isClosed else { return }
        isPushQueued = true
        table.pushAtEndOfBatch(self)
    }

    func pushNow() {
        isPushQueued = false
        if !isClosed { flush() }
    }

    /// The kernel has taken less than there was.
    var isBlocked: Bool { !rest.isEmpty }

    /// A stream can take more of its flow.
    func drained(_ stream: HTTP2Stream) { drained.append(stream) }

    func flush() {
        if case .lingering = phase { return }
        guard sendRest() else { return }
        let streams = pushing
        pushing = []
        for stream in streams { stream.push() }
        guard sendNew() else { return }
        tellDrained()
        guard !isClosed else { return }
        // What the kernel has not taken is not said yet.
        if session.isFinished, !isBlocked { return linger() }
        updateInterest()
    }

    /// - Returns: false where nothing more can be sent now.
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

    /// - Returns: false where the connection broke.
    private func sendNew() -> Bool {
        let buffer = table.frameBuffer
        let count = session.write(into: buffer, telling: self)
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
            // Others have their turn first.
            table.loop.inNextRound { [self] in pushNow() }
        }
        holdBudget()
        return true
    }

    private func tellDrained() {
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

    /// The budget, which all shards share, is asked with what is written; where nothing can be, once there is so much that it does not know of.
    private static let unbudgetedBytes = 64 << 10

    /// A stream holds so much now.
    func noteMemory(_ bytes: Int, of stream: HTTP2Stream) {
        guard !isClosed else { return }
        heldBytes += bytes - stream.heldBytes
        stream.heldBytes = bytes
        if abs(heldBytes + rest.count - budgetedBytes) >= Self.unbudgetedBytes { holdBudget() }
    }

    /// What no client takes and what no upstream takes counts for all connections together. Where it is too much, the stream that holds most goes.
    func holdBudget() {
        let held = heldBytes + rest.count
        let change = held - budgetedBytes
        guard change != 0 else { return }
        budgetedBytes = held
        guard !table.budget.hold(change, of: peer), let largest = streams.values.max(by: { $0.heldBytes < $1.heldBytes }) else { return }
        reset(largest, .internalError)
    }
}
