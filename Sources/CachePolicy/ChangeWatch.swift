// Since when a target with a copy has something else than a response to show: a redirect to elsewhere, or no content. What says the same for long
// enough means it, as with a 404 (`GoneWatch`). A machine without I/O: times are passed in, and memory is bounded.
//
// An outage says the same at its beginning and at its end: so it must have been seen several times, without a failure and without long silence between.
// What is believed stays so until the target is found.

public struct ChangeWatch: Sendable {
    private struct Slot: TargetSlot {
        var target: UInt64 = 0
        var since: Int64 = 0
        var seen: Int64 = 0
        var sightings = 0
        var isBelieved = false
    }

    /// Milliseconds.
    private let window: Int64
    private var slots = TargetSlots<Slot>(count: 1_024)

    private static let leastSightings = 5
    /// Of silence, in windows.
    private static let longestSilence: Int64 = 10

    public init(window: Int64) { self.window = window }

    /// It shows something else.
    /// - Parameter target: a number for it.
    /// - Returns: whether it has for so long that it is believed.
    public mutating func changed(_ target: UInt64, now: Int64) -> Bool {
        let place = place(of: target)
        var slot = slots[place]
        let isOver = !slot.isBelieved && now - slot.seen > window * Self.longestSilence
        if slot.target != target || isOver { slot = Slot(target: target, since: now) }
        slot.seen = now
        slot.sightings += 1
        if slot.sightings >= Self.leastSightings, now - slot.since >= window * GoneWatch.trustedWindows { slot.isBelieved = true }
        slots[place] = slot
        return slot.isBelieved
    }

    /// The upstream has failed at it: what it has shown before may have been the beginning of that.
    public mutating func failed(_ target: UInt64) { forget(target) { !$0.isBelieved } }

    /// The upstream has it: 200 or 304.
    public mutating func found(_ target: UInt64) { forget(target) { _ in true } }

    private mutating func forget(_ target: UInt64, where mayForget: (Slot) -> Bool) {
        let place = place(of: target)
        if slots[place].target == target, mayForget(slots[place]) { slots[place] = Slot() }
    }

    /// Those go that were asked for longest ago.
    private func place(of target: UInt64) -> Int { slots.place(of: target) { (0, $0.seen) } }
}
