// Whether a 404 for a target with a copy says that the resource is gone, or that a gateway has lost its routes: then many targets turn 404 at
// once. A machine without I/O: times are passed in, and memory is bounded.
//
// Of the targets with copies that were asked for within the window, more than a tenth, and at least ten, must have turned 404 in it. Then none of
// those is believed, for as long as they stay 404; after `trustAfter` they are, since whatever says the same for so long means it. A target that
// was 404 before the window does not count, whatever is asked for again and again. Nor do, for all others, those of one user who has seen most of
// them: they may be that user's own, taken away on purpose.

public enum GoneVerdict: Sendable, Equatable {
    /// As far as this machine can tell, the upstream means it.
    case believed
    /// The upstream has lost its routes: neither this one counts nor those of the window before.
    case routesLost
}

/// What the head of a 404 or 410 says of the copy.
public enum GoneJudgement: Sendable {
    /// Nothing of that, or it is not believed.
    case nothing
    /// It is believed once it is whole and, for 404, proves to be JSON.
    case candidate
    /// The upstream has lost its routes.
    case routesLost
}

public struct GoneWatch: Sendable {
    private struct Slot: TargetSlot {
        /// 0: nothing is here.
        var target: UInt64 = 0
        var seen: Int64 = 0
        /// Since when it is 404; nil where it was not at the last time.
        var turned: Int64?
        /// Who was told so first.
        var user: UInt64 = 0
        var isDistrusted = false
    }

    /// Milliseconds.
    private let window: Int64
    private let trustAfter: Int64
    /// No more than these are counted.
    private var slots = TargetSlots<Slot>(count: 4_096)

    /// At least so many, and more than one of so many.
    private static let leastTargets = 10
    private static let share = 10
    static let trustedWindows: Int64 = 30

    public init(window: Int64) {
        self.window = window
        trustAfter = window * Self.trustedWindows
    }

    /// The upstream has it: 200 or 304.
    /// - Parameter target: a number for it.
    public mutating func found(_ target: UInt64, now: Int64) {
        let place = place(of: target, now)
        // One that turned is worth more than one that did not.
        guard slots[place].target == target || !isCounted(slots[place], now) else { return }
        slots[place] = Slot(target: target, seen: now)
    }

    /// The upstream says 404.
    /// - Parameter user: a number for the one who has asked; 0 for nobody in particular.
    public mutating func missing(_ target: UInt64, by user: UInt64 = 0, now: Int64) -> GoneVerdict {
        let place = place(of: target, now)
        if slots[place].target != target { slots[place] = Slot(target: target) }
        slots[place].seen = now
        if slots[place].turned == nil { slots[place].user = user }
        let turned = slots[place].turned ?? now
        slots[place].turned = turned
        if now - turned >= trustAfter { slots[place].isDistrusted = false }
        guard isCounted(slots[place], now) else { return .believed }
        if !slots[place].isDistrusted, hasLostRoutes(now, without: nil) {
            let other = userWithMost(besides: user, now)
            if other == nil || hasLostRoutes(now, without: other) { distrust(now, without: other) }
        }
        return slots[place].isDistrusted ? .routesLost : .believed
    }

    /// Whether the target is one of those whose 404 is not believed.
    public func isDistrusted(_ target: UInt64, now: Int64) -> Bool {
        let place = place(of: target, now)
        return slots[place].target == target && slots[place].isDistrusted
    }

    private mutating func distrust(_ now: Int64, without user: UInt64?) {
        for index in slots.all.indices where isCounted(slots[index], now) && slots[index].user != user { slots[index].isDistrusted = true }
    }

    /// Another user who has seen more than half of all that turned 404 (Boyer and Moore's vote, and a count).
    private func userWithMost(besides user: UInt64, _ now: Int64) -> UInt64? {
        var (candidate, lead) = (user, 0)
        for slot in slots.all where isCounted(slot, now) {
            if lead == 0 { candidate = slot.user }
            lead += slot.user == candidate ? 1 : -1
        }
        var (own, all) = (0, 0)
        for slot in slots.all where isCounted(slot, now) {
            all += 1
            if slot.user == candidate { own += 1 }
        }
        return candidate != user && own * 2 > all ? candidate : nil
    }

    /// Those go that were asked for longest ago, those that turned last of all.
    private func place(of target: UInt64, _ now: Int64) -> Int {
        slots.place(of: target) { (isCounted($0, now) ? 1 : 0, $0.seen) }
    }

    private func isCounted(_ slot: Slot, _ now: Int64) -> Bool {
        guard slot.target != 0, let turned = slot.turned else { return false }
        return now - turned < (slot.isDistrusted ? trustAfter : window)
    }

    /// - Parameter user: whose targets do not count as missing.
    private func hasLostRoutes(_ now: Int64, without user: UInt64?) -> Bool {
        var (asked, missing) = (0, 0)
        for slot in slots.all where slot.target != 0 && now - slot.seen < window {
            asked += 1
            if isCounted(slot, now), slot.user != user { missing += 1 }
        }
        return missing >= Self.leastTargets && missing * Self.share > asked
    }
}
