// Whether a response in another media type than the stored one is another representation that the upstream has for this Accept field, or junk: it is
// junk until the target has given good JSON to another Accept field since. A pure state machine: times are passed in, and memory is bounded.

public struct OtherForms: Sendable {
    /// Of a target: its last good response. Of a target with an Accept field: since when it shows another type.
    private struct Slot: TargetSlot {
        var target: UInt64 = 0
        var accept: UInt64 = 0
        /// The place among all that was noted: times may be equal.
        var order: UInt64 = 0
        var seen: Int64 = 0
    }

    private let window: Int64
    private var order: UInt64 = 0
    private var good = TargetSlots<Slot>(count: 512)
    private var others = TargetSlots<Slot>(count: 512)

    /// - Parameter window: milliseconds (`failure.window`).
    public init(window: Int64) { self.window = window }

    /// A good response came.
    /// - Parameters:
    ///   - target: a hash of the target and its partition; never 0.
    ///   - accept: a hash of the request's Accept field.
    public mutating func found(_ target: UInt64, accept: UInt64, now: Int64) {
        order += 1
        good[place(of: target, in: good)] = Slot(target: target, accept: accept, order: order, seen: now)
        let number = Self.number(target, accept)
        let place = place(of: number, in: others)
        if others[place].target == number { others[place] = Slot() }
    }

    /// Another media type came.
    /// - Returns: whether it is a representation of its own.
    public mutating func other(_ target: UInt64, accept: UInt64, now: Int64) -> Bool {
        let number = Self.number(target, accept)
        let place = place(of: number, in: others)
        order += 1
        if others[place].target != number { others[place] = Slot(target: number, order: order) }
        others[place].seen = now
        let last = good[self.place(of: target, in: good)]
        return last.target == target && last.accept != accept && last.order > others[place].order && now - last.seen < window
    }

    private func place(of target: UInt64, in slots: TargetSlots<Slot>) -> Int { slots.place(of: target) { (0, $0.seen) } }

    private static func number(_ target: UInt64, _ accept: UInt64) -> UInt64 { max(1, target ^ (accept &* 0x9e37_79b9_7f4a_7c15)) }
}
