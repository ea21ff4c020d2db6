// A bounded memory of targets: each has a few places by its number. What finds none of them free takes that of the one that is worth least, which begins
// anew when it comes again.

protocol TargetSlot: Sendable {
    /// 0: nothing is here.
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

    /// The target's own place, else a free one, else that of another.
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
