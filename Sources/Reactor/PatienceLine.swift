// A queue of waiting objects with one common timeout. The first object to enter times out first, so a single timer suffices, and leaving
// early costs nothing.

/// Belongs to one event loop.
public final class PatienceLine<Waiting> {
    private struct Waiter {
        let end: Int64
        /// nil once the object has left.
        var waiting: Waiting?
    }

    private let loop: EventLoop
    private let milliseconds: Int64
    private let isOver: (Waiting) -> Void
    private var waiters: [Waiter] = []
    /// Index of the first entry that has not timed out, and number of the first entry since the start.
    private var head = 0
    private var numberOfFirst = 0
    private var count = 0
    private var timer: LoopTimer?

    /// - Parameter isOver: called on the loop with each object that times out.
    public init(loop: EventLoop, milliseconds: Int64, isOver: @escaping (Waiting) -> Void) {
        (self.loop, self.milliseconds, self.isOver) = (loop, milliseconds, isOver)
    }

    /// Whether no object waits.
    public var isEmpty: Bool { count == 0 }

    /// Adds an object.
    /// - Parameter now: milliseconds of the loop's clock.
    /// - Returns: a number for `leave`.
    public func add(_ waiting: Waiting, at now: Int64) -> Int {
        waiters.append(Waiter(end: now + milliseconds, waiting: waiting))
        count += 1
        if timer == nil { schedule(after: milliseconds) }
        return numberOfFirst + waiters.count - 1
    }

    /// Removes an object. Does nothing if it has already timed out.
    public func leave(_ number: Int) {
        let index = number - numberOfFirst
        guard index >= head, index < waiters.count, waiters[index].waiting != nil else { return }
        waiters[index].waiting = nil
        count -= 1
        if count == 0 { forget(waiters.count) }
    }

    /// Ends all waits.
    /// - Parameter end: called with each object that still waits.
    public func close(_ end: (Waiting) -> Void) {
        timer?.cancel()
        timer = nil
        let left = waiters[head...]
        count = 0
        forget(waiters.count)
        for waiter in left { waiter.waiting.map(end) }
    }

    private func schedule(after milliseconds: Int64) {
        timer = loop.schedule(after: .milliseconds(milliseconds)) { [self] in fire() }
    }

    private func fire() {
        timer = nil
        let now = loop.time.monotonicMilliseconds
        // At most 256 per round, so that other events are handled in between. A callback may add or remove objects.
        var left = 256
        while head < waiters.count, left > 0 {
            if let waiting = waiters[head].waiting {
                guard waiters[head].end <= now else { break }
                waiters[head].waiting = nil
                count -= 1
                left -= 1
                head += 1
                isOver(waiting)
            } else {
                head += 1
            }
        }
        if head * 2 >= waiters.count { forget(head) }
        if head < waiters.count, timer == nil { schedule(after: max(0, waiters[head].end - now)) }
    }

    private func forget(_ some: Int) {
        numberOfFirst += some
        head = max(0, head - some)
        if some == waiters.count { waiters.removeAll(keepingCapacity: some <= 4_096) } else { waiters.removeFirst(some) }
    }
}
