// Decides whether a response in another media type than the stored one is a representation for this Accept field, or junk. It counts as
// junk until the target has returned good JSON for another Accept field since. A pure state machine: times are passed in, and memory is
// bounded.

public struct OtherForms: Sendable {
    /// In `good`, a target's last good response. In `others`, when a target with an Accept field first returned another type.
    private struct Slot: TargetSlot {
        var target: UInt64 = 0
        var accept: UInt64 = 0
        /// Sequence number of the record: times may be equal.
        var order: UInt64 = 0
        var seen: Int64 = 0
    }

    private let window: Int64
    private var order: UInt64 = 0
    private var good = TargetSlots<Slot>(count: 512)
    private var others = TargetSlots<Slot>(count: 512)

    /// - Parameter window: milliseconds (`failure.window`).
    public init(window: Int64) { self.window = window }

    /// Records a good response.
    /// - Parameters:
    ///   - target: hash of the target and its partition; never 0.
    ///   - accept: hash of the request's Accept field.
    public mutating func found(_ target: UInt64, accept: UInt64, now: Int64) {
        order += 1
        good[index(of: target, in: good)] = Slot(target: target, accept: accept, order: order, seen: now)
        let number = Self.number(target, accept)
        let index = index(of: number, in: others)
        if others[index].target == number { others[index] = Slot() }
    }

    /// Records a response in another media type.
    /// - Returns: whether it is a separate representation.
    public mutating func other(_ target: UInt64, accept: UInt64, now: Int64) -> Bool {
        let number = Self.number(target, accept)
        let index = index(of: number, in: others)
        order += 1
        if others[index].target != number { others[index] = Slot(target: number, order: order) }
        others[index].seen = now
        let last = good[self.index(of: target, in: good)]
        return last.target == target && last.accept != accept && last.order > others[index].order && now - last.seen < window
    }

    private func index(of target: UInt64, in slots: TargetSlots<Slot>) -> Int { slots.index(of: target) { (0, $0.seen) } }

    private static func number(_ target: UInt64, _ accept: UInt64) -> UInt64 { max(1, target ^ (accept &* 0x9e37_79b9_7f4a_7c15)) }
}
