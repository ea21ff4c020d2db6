// Limits how long an HTTP/1.1 connection handles its input before other connections are served. It reads the clock only if a read carries
// several requests or pieces of content, so a plain hit does not need it.

import Reactor

struct InputTurn {
    /// Maximum microseconds of a turn.
    private static let limit: Int64 = 1_000
    /// Maximum microseconds of a turn in a batch of events that has lasted for `lateAfter`. Several busy connections share a batch.
    private static let lateLimit: Int64 = 100
    private static let lateAfter: Int64 = 2_000

    private let batchBegan: Int64
    private var isFirstStep = true
    /// Time of the second step, in microseconds; nil before it.
    private var began: Int64?

    /// - Parameter batchBegan: when the batch of events began, in microseconds of the monotonic clock.
    init(batchBegan: Int64) { self.batchBegan = batchBegan }

    /// Returns whether another step may begin: a request or a piece of content. The first one always may.
    mutating func mayContinue() -> Bool {
        if isFirstStep {
            isFirstStep = false
            return true
        }
        return mayContinue(at: SystemTime.monotonicMicroseconds)
    }

    /// Returns whether a later step may begin at this time.
    mutating func mayContinue(at now: Int64) -> Bool {
        guard let began else {
            began = now
            return true
        }
        return now - began < (now - batchBegan < Self.lateAfter ? Self.limit : Self.lateLimit)
    }
}
