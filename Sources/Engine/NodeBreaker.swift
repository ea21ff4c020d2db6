// Circuit breaker of a server. Pure: times are milliseconds of a monotonic clock.
//
// It opens after failures in a row (lost or failed connections, time-outs, of which concurrent ones count as one) and after silence. Only
// the prompt reply to a probe closes it.

struct NodeBreaker: Equatable {
    private(set) var isClosed = true
    private(set) var failuresInRow = 0
    /// Earlier commands have been counted.
    private var countedUntil = Int64.min
    private let limit: Int

    init(failures limit: Int) { self.limit = limit }

    /// - Returns: whether the breaker changes.
    mutating func noteFailure(at now: Int64) -> Bool {
        countedUntil = now
        failuresInRow += 1
        return failuresInRow >= limit ? open() : false
    }

    /// - Parameter sent: time of the command that was not replied to in time.
    mutating func noteTimeOut(sent: Int64, at now: Int64) -> Bool { sent >= countedUntil ? noteFailure(at: now) : false }

    /// Silence, or an unusable reply.
    mutating func open() -> Bool {
        defer { isClosed = false }
        return isClosed
    }

    /// Does not close the breaker: old replies may arrive all at once.
    mutating func noteReply() {
        if isClosed { failuresInRow = 0 }
    }

    /// A probe was answered in time.
    mutating func noteProbe() -> Bool {
        failuresInRow = 0
        defer { isClosed = true }
        return !isClosed
    }
}
