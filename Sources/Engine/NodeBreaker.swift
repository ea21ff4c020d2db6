// Whether a server is asked. Pure: times are passed in, in milliseconds of a clock that never goes back.
//
// Failures in a row open it: connections that could not be made or were lost, and time-outs one after another, of which many at once count as one. So
// does a server that says nothing while commands are under way. While it is open nobody waits; a probe is sent from time to time, and the reply to it, unless
// it comes so late that silence would have opened it, closes it again.

struct NodeBreaker: Equatable {
    enum State: Equatable {
        case closed
        case open
    }

    private(set) var state = State.closed
    private(set) var failuresInRow = 0
    /// What was sent before has been counted.
    private var countedUntil = Int64.min
    private let limit: Int

    init(failures limit: Int) { self.limit = limit }

    var isClosed: Bool { state == .closed }

    /// The breaker opens, or closes, where the result is true.
    mutating func noteFailure(at now: Int64) -> Bool {
        countedUntil = now
        failuresInRow += 1
        return failuresInRow >= limit ? open() : false
    }

    /// - Parameter sent: when the command was sent that has not been replied to in time.
    mutating func noteTimeOut(sent: Int64, at now: Int64) -> Bool { sent >= countedUntil ? noteFailure(at: now) : false }

    /// Nothing came for too long, or what came cannot be used.
    mutating func open() -> Bool {
        defer { state = .open }
        return state == .closed
    }

    /// A reply in time: it closes nothing. What waited when the breaker opened may come all at once.
    mutating func noteReply() {
        if state == .closed { failuresInRow = 0 }
    }

    /// The reply to a probe, in time.
    mutating func noteProbe() -> Bool {
        failuresInRow = 0
        defer { state = .closed }
        return state == .open
    }
}
