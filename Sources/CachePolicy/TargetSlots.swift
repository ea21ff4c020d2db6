// A bounded memory of targets. Each target has a few candidate slots, determined by its number. If none is free, the least valuable entry
// is replaced; its target starts again from an empty slot.

protocol TargetSlot: Sendable {
    /// Number of the target; 0 marks an empty slot.
    var target: UInt64 { get }
    init()
}

struct TargetSlots<Slot: TargetSlot>: Sendable {
    private(set) var all: [Slot]

    private let slotsOfTarget = 8

    init(count: Int) { all = [Slot](repeating: Slot(), count: count) }

    subscript(index: Int) -> Slot {
        get { all[index] }
        set { all[index] = newValue }
    }

    /// Returns the target's current slot, else a free one, else the slot of the least valuable entry.
    func index(of target: UInt64, worth: (Slot) -> (Int, Int64)) -> Int {
        let first = Int(truncatingIfNeeded: target % UInt64(all.count))
        var best = (index: first, worth: (Int.max, Int64.max))
        for offset in 0..<slotsOfTarget {
            let index = (first + offset) % all.count
            if all[index].target == target { return index }
            let worth = all[index].target == 0 ? (Int.min, 0) : worth(all[index])
            if worth < best.worth { best = (index, worth) }
        }
        return best.index
    }
}
