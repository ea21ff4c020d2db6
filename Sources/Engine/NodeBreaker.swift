// Circuit breaker of a server. Pure: times are milliseconds of a monotonic clock.
//
// It opens after consecutive failures (lost or failed connections, timeouts; concurrent timeouts count once) and after a time without
// replies. Only a prompt reply to a probe closes it.

struct NodeBreaker: Equatable {
    private(set) var isClosed = true
    private(set) var failuresInRow = 0
    /// Failures of commands that were sent earlier are already counted.
    private var countedUntil = Int64.min
    private let limit: Int

    init(failures limit: Int) { self.limit = limit }

    /// - Returns: whether the circuit breaker opens.
    mutating func noteFailure(at now: Int64) -> Bool {
        countedUntil = now
        failuresInRow += 1
        return failuresInRow >= limit ? open() : false
    }

    /// - Parameter sent: time when the timed-out command was sent.
    mutating func noteTimeOut(sent: Int64, at now: Int64) -> Bool { sent >= countedUntil ? noteFailure(at: now) : false }

    /// Opens the circuit breaker after a time without replies, or after an unusable reply.
    mutating func open() -> Bool {
        defer { isClosed = false }
        return isClosed
    }

    /// Records a reply. Does not close the circuit breaker, because old replies may arrive all at once.
    mutating func noteReply() {
        if isClosed { failuresInRow = 0 }
    }

    /// Records a prompt reply to a probe, which closes the circuit breaker.
    mutating func noteProbe() -> Bool {
        failuresInRow = 0
        defer { isClosed = true }
        return !isClosed
    }
}
