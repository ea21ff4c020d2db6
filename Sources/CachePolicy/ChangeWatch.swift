// Since when a target with a copy has something else than a response to show: a redirect to elsewhere, or no content. What says the same for long
// enough means it, as with a 404 (`GoneWatch`). A machine without I/O: times are passed in, and memory is bounded.

public struct ChangeWatch: Sendable {
    private struct Slot {
        /// 0: nothing is here.
        var target: UInt64 = 0
        var since: Int64 = 0
        var seen: Int64 = 0
    }

    /// Milliseconds.
    private let trustAfter: Int64
    /// Each target has a few places by its number. What is forgotten begins anew.
    private var slots = [Slot](repeating: Slot(), count: ChangeWatch.slotCount)

    private static let slotCount = 1_024
    private static let placesOfTarget = 8

    public init(window: Int64) { trustAfter = window * GoneWatch.trustedWindows }

    /// It shows something else.
    /// - Parameter target: a number for it.
    /// - Returns: whether it has for so long that it is believed.
    public mutating func changed(_ target: UInt64, now: Int64) -> Bool {
        let place = place(of: target)
        if slots[place].target != target { slots[place] = Slot(target: target, since: now) }
        slots[place].seen = now
        return now - slots[place].since >= trustAfter
    }

    /// The upstream has it: 200 or 304.
    public mutating func found(_ target: UInt64) {
        let place = place(of: target)
        if slots[place].target == target { slots[place] = Slot() }
    }

    /// Its own, else a free one, else that of the one that was asked for longest ago.
    private func place(of target: UInt64) -> Int {
        let first = Int(truncatingIfNeeded: target % UInt64(Self.slotCount))
        var best = first
        for offset in 0..<Self.placesOfTarget {
            let place = (first + offset) % Self.slotCount
            if slots[place].target == target { return place }
            if worth(slots[place]) < worth(slots[best]) { best = place }
        }
        return best
    }

    private func worth(_ slot: Slot) -> (Int, Int64) { (slot.target == 0 ? 0 : 1, slot.seen) }
}
