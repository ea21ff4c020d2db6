// A bounded memory of targets. Each target has a few candidate slots, determined by its number. If none is free, the least valuable entry
// is replaced; its target starts again from an empty slot.

protocol TargetSlot: Sendable {
    /// Number of the target; 0 marks an empty slot.
    var target: UInt64 { get }
    init()
}

struct TargetSlots<Slot: TargetSlot>: Sendable {
    private(set) var all: [Slot]

    private let placesOfTarget = 8

    init(count: Int) { all = [Slot](repeating: Slot(), count: count) }

    subscript(place: Int) -> Slot {
        get { all[place] }
        set { all[place] = newValue }
    }

    /// Returns the target's current slot, else a free one, else the slot of the least valuable entry.
    func place(of target: UInt64, worth: (Slot) -> (Int, Int64)) -> Int {
        let first = Int(truncatingIfNeeded: target % UInt64(all.count))
        var best = (place: first, worth: (Int.max, Int64.max))
        for offset in 0..<placesOfTarget {
            let place = (first + offset) % all.count
            if all[place].target == target { return place }
            let worth = all[place].target == 0 ? (Int.min, 0) : worth(all[place])
            if worth < best.worth { best = (place, worth) }
        }
        return best.place
    }
}
