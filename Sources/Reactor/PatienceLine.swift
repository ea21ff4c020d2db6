// Those who wait with one patience: the first to begin is the first whose patience is over, so one timer does for all of them, and who goes on
// earlier leaves nothing behind.

/// Belongs to one loop.
public final class PatienceLine<Waiting> {
    private struct Place {
        let end: Int64
        /// nil: has gone on.
        var waiting: Waiting?
    }

    private let loop: EventLoop
    private let milliseconds: Int64
    private let isOver: (Waiting) -> Void
    private var places: [Place] = []
    /// The first of `places` whose end has not come, and its number of all that there ever were.
    private var head = 0
    private var numberOfFirst = 0
    private var count = 0
    private var timer: LoopTimer?

    /// - Parameter isOver: called on the loop with each who still waits after that time.
    public init(loop: EventLoop, milliseconds: Int64, isOver: @escaping (Waiting) -> Void) {
        (self.loop, self.milliseconds, self.isOver) = (loop, milliseconds, isOver)
    }

    /// Nobody waits.
    public var isEmpty: Bool { count == 0 }

    /// - Parameter now: milliseconds of the loop's clock.
    /// - Returns: a number to leave with.
    public func add(_ waiting: Waiting, at now: Int64) -> Int {
        places.append(Place(end: now + milliseconds, waiting: waiting))
        count += 1
        if timer == nil { schedule(after: milliseconds) }
        return numberOfFirst + places.count - 1
    }

    /// Waits no more. Does nothing where patience was over already.
    public func leave(_ number: Int) {
        let place = number - numberOfFirst
        guard place >= head, place < places.count, places[place].waiting != nil else { return }
        places[place].waiting = nil
        count -= 1
        if count == 0 { forget(places.count) }
    }

    /// - Parameter end: is given those who still wait.
    public func close(_ end: (Waiting) -> Void) {
        timer?.cancel()
        timer = nil
        let left = places[head...]
        count = 0
        forget(places.count)
        for place in left { place.waiting.map(end) }
    }

    private func schedule(after milliseconds: Int64) {
        timer = loop.schedule(after: .milliseconds(milliseconds)) { [self] in fire() }
    }

    private func fire() {
        timer = nil
        let now = loop.time.monotonicMilliseconds
        // Others have their turn. Whoever is told may ask again, or leave.
        var left = 256
        while head < places.count, left > 0 {
            if let waiting = places[head].waiting {
                guard places[head].end <= now else { break }
                places[head].waiting = nil
                count -= 1
                left -= 1
                head += 1
                isOver(waiting)
            } else {
                head += 1
            }
        }
        if head * 2 >= places.count { forget(head) }
        if head < places.count, timer == nil { schedule(after: max(0, places[head].end - now)) }
    }

    private func forget(_ some: Int) {
        numberOfFirst += some
        head = max(0, head - some)
        if some == places.count { places.removeAll(keepingCapacity: some <= 4_096) } else { places.removeFirst(some) }
    }
}
